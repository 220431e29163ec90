import type { FormatSettings } from '../../foundation/domain/format-settings.ts';
import { BACKSLASH } from '../../foundation/domain/json-bytes.ts';
import type { Column, RowBlock } from '../../foundation/domain/row-block.ts';

const letterU = 0x75;
const replacement = 'fffd';
/** `\ud800` */
const escapeBytes = 6;

type Choices = Pick<FormatSettings, 'jsonNull' | 'replaceInvalidUnicode'>;

/** Gives values of JSON that some readers refuse another value, as the export says. */
export class JsonValues {
  readonly #nullable: readonly number[];
  readonly #escaped: readonly number[];

  constructor(columns: readonly Column[], { jsonNull, replaceInvalidUnicode }: Choices) {
    const indicesOf = (types: readonly Column['type'][]) =>
      columns.flatMap(({ type }, index) => (types.includes(type) ? [index] : []));
    this.#nullable = jsonNull === 'null' ? indicesOf(['json', 'jsonb']) : [];
    // PostgreSQL refuses both in jsonb. Arrays and composites may hold json.
    this.#escaped = replaceInvalidUnicode ? indicesOf(['json', 'as_json']) : [];
  }

  /** Returns the same rows. It may change the block that it gets. */
  replaceIn(block: RowBlock): RowBlock {
    const { bytes, offsets, columns, rowCount } = block;
    const end = rowCount * columns.length;
    for (const index of this.#escaped) {
      for (let field = index; field < end; field += columns.length) {
        const from = offsets[field] as number;
        replaceInvalid(bytes, from, from + (block.lengths[field] as number));
      }
    }
    if (this.#nullable.length === 0) return block;
    // The lengths may be another block's too.
    const lengths = block.lengths.slice();
    for (const index of this.#nullable) {
      const version = columns[index]?.type === 'jsonb' ? 1 : 0;
      for (let field = index; field < end; field += columns.length) {
        const from = (offsets[field] as number) + version;
        if (isNull(bytes, from, (lengths[field] as number) - version)) lengths[field] = -1;
      }
    }
    return { ...block, lengths };
  }
}

/** JSON may have white space around it; a longer text is another value or not worth the look. */
const longestNull = 64;

function isNull(bytes: Buffer, from: number, length: number): boolean {
  if (length < 4 || length > longestNull) return false;
  return bytes.toString('latin1', from, from + length).trim() === 'null';
}

/** Puts `\ufffd` instead of `\u0000` and of each half of a surrogate pair: it has as many bytes. */
function replaceInvalid(bytes: Buffer, from: number, end: number): void {
  let at = nextEscape(bytes, from, end);
  while (at >= 0) {
    const unit = unitAt(bytes, at, end);
    if (unit === null) {
      at = nextEscape(bytes, at + 2, end);
      continue;
    }
    const next = at + escapeBytes;
    const isHigh = unit >= 0xd800 && unit < 0xdc00;
    const following = isHigh ? unitAt(bytes, next, end) : null;
    if (following !== null && following >= 0xdc00 && following < 0xe000) {
      at = nextEscape(bytes, next + escapeBytes, end);
      continue;
    }
    if (unit === 0 || (unit >= 0xd800 && unit < 0xe000)) bytes.write(replacement, at + 2, 'latin1');
    at = nextEscape(bytes, next, end);
  }
}

function nextEscape(bytes: Buffer, from: number, end: number): number {
  if (from >= end) return -1;
  const index = bytes.subarray(from, end).indexOf(BACKSLASH);
  return index < 0 ? -1 : from + index;
}

/** The code unit of the escape `\uXXXX` that begins here; null if there is none. */
function unitAt(bytes: Buffer, at: number, end: number): number | null {
  if (at + escapeBytes > end || bytes[at] !== BACKSLASH || bytes[at + 1] !== letterU) return null;
  return Number.parseInt(bytes.toString('latin1', at + 2, at + escapeBytes), 16);
}
