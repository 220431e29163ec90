import { SluiceError } from '../../../foundation/domain/errors.ts';
import type { Column } from '../../../foundation/domain/row-block.ts';

/** Maximum size of a field that is kept: keys are short. */
const keptBytes = 256;

export class RowTooLargeError extends Error {
  override readonly name = 'RowTooLargeError';
  /** The row's short fields, including hidden ones; undefined for long ones. */
  readonly fields: readonly (Buffer | undefined)[];

  constructor(fields: readonly (Buffer | undefined)[]) {
    super('a row is larger than the reader takes');
    this.fields = fields;
  }
}

/** They may identify a row that is too large to hold. */
export class RowSkimmer {
  readonly #fields: (Buffer | undefined)[] = [];
  #count: number | null = null;
  #word = 0;
  #wordBytes = 0;
  #kept: Buffer | null = null;
  #fieldLeft = 0;

  /** Takes `chunk[start, end)`. @throws RowTooLargeError at the end of the row */
  skim(chunk: Buffer, start: number, end: number): void {
    let at = start;
    while (at < end) {
      if (this.#fieldLeft > 0) {
        at = this.#takeField(chunk, at, end);
      } else {
        this.#word = (this.#word << 8) | (chunk[at] as number);
        this.#wordBytes += 1;
        at += 1;
        if (this.#wordBytes === (this.#count === null ? 2 : 4)) this.#takeWord();
      }
    }
  }

  fail(): never {
    throw new RowTooLargeError(this.#fields);
  }

  #takeWord(): void {
    const word = this.#word;
    this.#word = 0;
    this.#wordBytes = 0;
    if (this.#count === null) this.#count = word;
    else {
      this.#fieldLeft = Math.max(0, word);
      this.#kept = word >= 0 && word <= keptBytes ? Buffer.alloc(word) : null;
      if (this.#fieldLeft === 0) this.#endField();
    }
  }

  #takeField(chunk: Buffer, at: number, end: number): number {
    const to = Math.min(end, at + this.#fieldLeft);
    if (this.#kept) chunk.copy(this.#kept, this.#kept.length - this.#fieldLeft, at, to);
    this.#fieldLeft -= to - at;
    if (this.#fieldLeft === 0) this.#endField();
    return to;
  }

  #endField(): void {
    this.#fields.push(this.#kept ?? undefined);
    this.#kept = null;
    if (this.#fields.length === this.#count) this.fail();
  }
}

interface KeyedColumns {
  readonly columns: readonly Column[];
  readonly hidden: readonly Column[];
  readonly keys: {
    readonly places: readonly number[];
    readonly columns: readonly { readonly name: string }[];
  } | null;
}

export function nameLargeRow(
  error: unknown,
  { columns, hidden, keys }: KeyedColumns,
  maxRowBytes: number,
): unknown {
  if (!(error instanceof RowTooLargeError)) return error;
  const all = [...columns, ...hidden];
  const parts = (keys?.places ?? []).map((place, index) => {
    const column = all[place];
    const bytes = error.fields[place];
    return column && bytes ? `${keys?.columns[index]?.name} ${keyText(column.type, bytes)}` : null;
  });
  const key = parts.filter((part) => part !== null).join(', ');
  const row = key === '' ? 'a row' : `the row with ${key}`;
  const detail = `${row} has more than ${maxRowBytes / 2 ** 20} MiB`;
  return new SluiceError('source.row_too_large', detail, error);
}

function keyText(type: Column['type'], bytes: Buffer): string {
  switch (type) {
    case 'uuid':
      return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
    case 'int2':
    case 'int4':
      return String(bytes.readIntBE(0, bytes.length));
    case 'int8':
      return String(bytes.readBigInt64BE());
    case 'text':
    case 'json':
    case 'as_json':
      return bytes.toString('utf8');
    default:
      return `0x${bytes.toString('hex')}`;
  }
}
