import type { FormatSettings, InfinityChoice } from '../../foundation/domain/format-settings.ts';
import { BACKSLASH } from '../../foundation/domain/json-bytes.ts';
import { type Column, epochDays, type RowBlock } from '../../foundation/domain/row-block.ts';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { SluiceError } from '../../foundation/domain/errors.ts';
import { JsonLevels, maxJsonLevels, mayBeTooDeep } from '../../foundation/domain/json-depth.ts';
import { rowNamer } from './rejection-tally.ts';
import type { Encoding } from './interval-job.ts';

/** The rules of values that readers of files refuse: each is refused, or replaced as the settings of the format say. */
export class ValueRules {
  readonly #depths: JsonDepths;
  readonly #infinite: InfiniteValues;
  readonly #json: JsonValues;

  constructor(
    columns: readonly Column[],
    keyIndices: readonly number[],
    { settings, toJson }: Pick<Encoding, 'settings' | 'toJson'>,
  ) {
    this.#depths = new JsonDepths(columns, keyIndices, toJson);
    this.#infinite = new InfiniteValues(columns, keyIndices, settings.infinity);
    this.#json = new JsonValues(columns, settings);
  }

  /** Returns the same rows. It may change the block that it gets. @throws SluiceError as `JsonDepths` does */
  async apply(block: RowBlock): Promise<RowBlock> {
    await this.#depths.check(block);
    return this.#json.replaceIn(this.#infinite.replaceIn(block));
  }
}

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

const maxDate = 0x7fffffff;
const minDate = -0x80000000;
const maxLow = 0xffffffff;

/** Days since 2000 and microseconds of the years 1 to 9999: their first and last moments. */
const firstDay = dayOf('0001-01-01');
const lastDay = dayOf('9999-12-31');
const dayMicros = 86_400_000_000n;
const firstMoment = BigInt(firstDay) * dayMicros;
const lastMoment = BigInt(lastDay + 1) * dayMicros - 1n;

function dayOf(date: string): number {
  return Date.parse(`${date}T00:00:00Z`) / 86_400_000 - epochDays;
}

/** The sign of an infinite value; 0 if it is finite. */
type Sign = -1 | 0 | 1;

/** Gives infinite dates and timestamps a value that every format and reader can hold; not in arrays and ranges. */
export class InfiniteValues {
  readonly #choice: InfinityChoice;
  readonly #fields: readonly { readonly index: number; readonly bytes: 4 | 8 }[];

  /** @param keyIndices indices of columns that stay as they are: the key decides which row it is */
  constructor(columns: readonly Column[], keyIndices: readonly number[], choice: InfinityChoice) {
    this.#choice = choice;
    const sized = columns.map(({ type }, index) => ({ index, bytes: bytesOf(type) }));
    this.#fields = sized.flatMap(({ index, bytes }) =>
      choice === 'reject' || bytes === null || keyIndices.includes(index) ? [] : [{ index, bytes }],
    );
  }

  /** Returns the same rows. It may change the block that it gets. */
  replaceIn(block: RowBlock): RowBlock {
    if (this.#fields.length === 0 || block.rowCount === 0) return block;
    const { bytes, offsets, columns, rowCount } = block;
    let { lengths } = block;
    for (const { index, bytes: size } of this.#fields) {
      for (let field = index; field < rowCount * columns.length; field += columns.length) {
        if (lengths[field] !== size) continue;
        const at = offsets[field] as number;
        const sign = size === 4 ? signOfDate(bytes, at) : signOfMoment(bytes, at);
        if (sign === 0) continue;
        if (this.#choice === 'limit') putLimit(bytes, at, size, sign);
        else {
          // The lengths may be another block's too.
          if (lengths === block.lengths) lengths = lengths.slice();
          lengths[field] = -1;
        }
      }
    }
    return lengths === block.lengths ? block : { ...block, lengths };
  }
}

function bytesOf(type: Column['type']): 4 | 8 | null {
  if (type === 'date') return 4;
  return type === 'timestamp' || type === 'timestamptz' ? 8 : null;
}

function signOfDate(bytes: Buffer, at: number): Sign {
  const days = bytes.readInt32BE(at);
  return days === maxDate ? 1 : days === minDate ? -1 : 0;
}

function signOfMoment(bytes: Buffer, at: number): Sign {
  const high = bytes.readInt32BE(at);
  if (high !== maxDate && high !== minDate) return 0;
  const low = bytes.readUInt32BE(at + 4);
  if (high === maxDate) return low === maxLow ? 1 : 0;
  return low === 0 ? -1 : 0;
}

function putLimit(bytes: Buffer, at: number, size: 4 | 8, sign: Sign): void {
  if (size === 4) bytes.writeInt32BE(sign === 1 ? lastDay : firstDay, at);
  else bytes.writeBigInt64BE(sign === 1 ? lastMoment : firstMoment, at);
}

/** Bytes between two turns of the event loop. */
const pieceBytes = 4 * 1024 ** 2;

/** Refuses rows whose JSON is so deep that readers of the files, and we ourselves, could fail at it. */
export class JsonDepths {
  readonly #indices: readonly number[];
  readonly #nameRow: (block: RowBlock, row: number) => string;

  /** @param keyIndices the indices of the keys among `columns` */
  constructor(
    columns: readonly Column[],
    keyIndices: readonly number[],
    toJson: Encoding['toJson'],
  ) {
    this.#indices = columns.flatMap(({ type }, index) => (jsonTypes.has(type) ? [index] : []));
    this.#nameRow = rowNamer(columns, keyIndices, toJson);
  }

  /** @throws SluiceError `source.json_too_deep`, which names the row and the column */
  async check(block: RowBlock): Promise<void> {
    const { columns, rowCount, bytes, offsets, lengths } = block;
    for (const index of this.#indices) {
      for (let row = 0; row < rowCount; row += 1) {
        const field = row * columns.length + index;
        const length = lengths[field] as number;
        // Most values are too short for it: they cost no call.
        if (length <= 2 * maxJsonLevels) continue;
        const from = offsets[field] as number;
        const value = bytes.subarray(from, from + length);
        if (!mayBeTooDeep(value) || !(await isTooDeep(value))) continue;
        const name = columns[index]?.name;
        const detail = `column ${name} of the row with the key ${this.#nameRow(block, row)} has more than ${maxJsonLevels.toLocaleString('en')} levels`;
        throw new SluiceError('source.json_too_deep', detail);
      }
    }
  }
}

const jsonTypes: ReadonlySet<Column['type']> = new Set(['json', 'jsonb', 'as_json']);

/** The first byte of jsonb is its version, and no bracket. */
async function isTooDeep(value: Buffer): Promise<boolean> {
  const levels = new JsonLevels();
  for (let at = 0; at < value.length; at += pieceBytes) {
    if (at > 0) await nextTurn();
    if (levels.exceed(value.subarray(at, at + pieceBytes))) return true;
  }
  return false;
}
