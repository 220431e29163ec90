import { type Column, type RowBlock, rowsOf } from '../../foundation/domain/row-block.ts';
import type { FileEncoder, RejectedRow } from '../encoders/encoder.ts';
import type { StepRejection } from '../transforms/transform-rows.ts';
import type { Encoding } from './interval-job.ts';

/** A log line per reason; the rest is counted together. */
const maxReasons = 20;
const maxKey = 200;

export interface Rejections {
  /** `column valid_to: infinity has no Parquet date` */
  readonly reason: string;
  readonly rows: number;
  /** The key of the first such row, as JSON. */
  readonly firstKey: string;
  /** True if the format cannot represent the rows; false: a step of the chain rejected them. */
  readonly isOfFormat: boolean;
}

export class RejectionTally {
  readonly #found = new Map<string, Rejections>();
  readonly #nameRow: (block: RowBlock, row: number) => string;

  /** @param keyIndices the indices of the keys among `columns` */
  constructor(
    columns: readonly Column[],
    keyIndices: readonly number[],
    toJson: Encoding['toJson'],
  ) {
    this.#nameRow = rowNamer(columns, keyIndices, toJson);
  }

  addRows(block: RowBlock, rejected: readonly RejectedRow[]): void {
    for (const { row, column, reason } of rejected) {
      const named = `column ${block.columns[column]?.name}: ${reason}`;
      this.#add(named, true, () => this.#nameRow(block, row));
    }
  }

  addSteps(rejected: readonly StepRejection[]): void {
    for (const { step, reason, key } of rejected) {
      this.#add(`step ${step}: ${reason}`, false, () => showKey(Object.entries(key)));
    }
  }

  /** The most frequent reason first. */
  get all(): readonly Rejections[] {
    return [...this.#found.values()].toSorted((one, other) => other.rows - one.rows);
  }

  #add(given: string, isOfFormat: boolean, firstKey: () => string): void {
    const isNew = !this.#found.has(given) && this.#found.size >= maxReasons;
    const reason = isNew ? 'other reasons' : given;
    const before = this.#found.get(reason) ?? { reason, rows: 0, firstKey: firstKey(), isOfFormat };
    this.#found.set(reason, { ...before, rows: before.rows + 1 });
  }
}

/** Shows the key of a row for a log. @param keyIndices the indices of the keys among `columns` */
export function rowNamer(
  columns: readonly Column[],
  keyIndices: readonly number[],
  toJson: Encoding['toJson'],
): (block: RowBlock, row: number) => string {
  const keys = keyIndices.flatMap((index) => {
    const column = columns[index];
    return column ? [{ index, name: column.name, toJson: toJson(column) }] : [];
  });
  return ({ columns: { length: width }, bytes, offsets, lengths }, row) =>
    showKey(
      keys.map(({ index, name, toJson }) => {
        const field = row * width + index;
        const from = offsets[field] as number;
        const length = lengths[field] as number;
        return [name, length < 0 ? 'null' : toJson(bytes, from, from + length)];
      }),
    );
}

/** The key of a row for a log. @param members names and their values as JSON */
export function showKey(members: readonly (readonly [string, string])[]): string {
  if (members.length === 0) return 'a row whose key is not selected';
  const shown = `{${members.map(([name, json]) => `${JSON.stringify(name)}:${json}`).join(',')}}`;
  return shown.length > maxKey ? `${shown.slice(0, maxKey)}…` : shown;
}

/** `500 rows were rejected. Column valid_to: infinity has no Parquet date. The first: {"id":7}` */
export function describeRejections({ rows, reason, firstKey }: Rejections): string {
  const capital = reason.charAt(0).toUpperCase() + reason.slice(1);
  const counted = `${rows.toLocaleString('en')} ${rows === 1 ? 'row was' : 'rows were'} rejected`;
  return `${counted}. ${capital}. The first: ${firstKey}`;
}

/** Lines of the rejected file: `{"column", "reason", "row"}`, the row as JSON Lines would hold it. */
export async function encodeRejectedRows(
  open: () => FileEncoder,
  block: RowBlock,
  rejected: readonly RejectedRow[],
): Promise<readonly Uint8Array[]> {
  const chunks: Uint8Array[] = [];
  for (const { row, column, reason } of rejected) {
    const head = { column: block.columns[column]?.name ?? null, reason };
    const encoder = open();
    const written = await encoder.write(rowsOf(block, row, row + 1));
    const json = Buffer.concat([...written, ...(await encoder.finish())]);
    chunks.push(
      Buffer.from(`${JSON.stringify(head).slice(0, -1)},"row":`),
      // Without its line feed.
      json.subarray(0, -1),
      Buffer.from('}\n'),
    );
  }
  return chunks;
}

/** Lines of the rejected file for rows that a step rejected: their key and the reason, no other value. */
export function encodeRejections(rejected: readonly StepRejection[]): readonly Uint8Array[] {
  return rejected.map(({ step, reason, key }) => {
    const members = Object.entries(key).map(([name, json]) => `${JSON.stringify(name)}:${json}`);
    const head = JSON.stringify({ column: null, step, reason }).slice(0, -1);
    return Buffer.from(`${head},"row":{${members.join(',')}}}\n`);
  });
}
