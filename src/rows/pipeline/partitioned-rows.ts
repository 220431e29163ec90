import { SluiceError } from '../../foundation/domain/errors.ts';
import {
  type DatePart,
  dateParts,
  escapeValue,
  findPartitionFault,
  maxFolderBytes,
  maxPartitions,
  type PartitionField,
  readPartitionField,
} from '../../foundation/domain/partition.ts';
import { type Column, type RowBlock, textOfJson } from '../../foundation/domain/row-block.ts';
import type { FieldToJson } from '../transforms/block-row.ts';
import { RowSpool, usualSpoolLimits } from './row-spool.ts';
import { createHash } from 'node:crypto';

/** Bytes of rows of one pass. More rows of an interval are in further files of their partitions. */
const usualPassBytes = 2 * 1024 ** 3;

/** Folders that are kept by value, for each field. */
const keptFolders = 20_000;
/** Longer values are not kept. */
const keptValueBytes = 64;

interface Field {
  readonly of: PartitionField;
  readonly place: number;
  readonly toJson: FieldToJson;
  readonly folders: Map<string, string>;
}

export interface PartitionLimits {
  readonly memoryBytes: number;
  readonly blockBytes: number;
  readonly passBytes: number;
  readonly partitions: number;
}

export const usualPartitionLimits: PartitionLimits = {
  ...usualSpoolLimits,
  passBytes: usualPassBytes,
  partitions: maxPartitions,
};

interface Partition {
  /** `event=signup/day=2026-11-25` */
  readonly folder: string;
  readonly blocks: AsyncIterable<RowBlock>;
}

interface Partitioning {
  /** Entries of `partition_by`; empty: the rows are not divided. */
  readonly partitionBy: readonly string[];
  readonly encoding: { toJson(column: Column): FieldToJson };
  /** Absent: the usual ones. Other limits may make other files. */
  readonly partitionLimits?: PartitionLimits;
}

/** @throws SluiceError `destination.partition_mismatch` if the rows cannot be divided so */
export function openPartitions(
  { partitionBy, encoding, partitionLimits = usualPartitionLimits }: Partitioning,
  columns: readonly Column[],
): PartitionedRows | null {
  if (partitionBy.length === 0) return null;
  const fault = findPartitionFault(partitionBy, columns);
  if (fault !== null) throw new SluiceError('destination.partition_mismatch', fault);
  return new PartitionedRows(partitionBy, columns, encoding.toJson, partitionLimits);
}

/** Sorts rows by partition, in passes that end at a number of bytes. So what is in them depends on the rows alone. */
export class PartitionedRows {
  readonly #fields: readonly Field[];
  readonly #limits: PartitionLimits;
  readonly #spool: RowSpool;
  readonly #numbers = new Map<string, number>();
  readonly #folders: string[] = [];

  constructor(
    entries: readonly string[],
    columns: readonly Column[],
    toJson: (column: Column) => FieldToJson,
    limits: PartitionLimits,
  ) {
    this.#fields = entries.map(readPartitionField).flatMap((of) => {
      const place = columns.findIndex(({ name }) => name === of.column);
      const column = columns[place];
      return column ? [{ of, place, toJson: toJson(column), folders: new Map() }] : [];
    });
    this.#limits = limits;
    this.#spool = new RowSpool(columns, limits);
  }

  /**
   * Adds rows of a block.
   *
   * @returns the first row that was not added, because the pass is full: take the pass, then add the rest
   * @throws SluiceError `destination.too_many_partitions`
   */
  async add(block: RowBlock, from: number): Promise<number> {
    for (let row = from; row < block.rowCount; row += 1) {
      if (this.#spool.bytes >= this.#limits.passBytes) return row;
      const waits = this.#spool.add(this.#numberOf(block, row), block, row);
      if (waits) await waits;
    }
    return block.rowCount;
  }

  /** The partitions of the pass, by folder. Afterwards there are none. */
  async *takePass(): AsyncGenerator<Partition> {
    const pass = this.#spool.groups
      .map((number) => ({ number, folder: this.#folders[number] ?? '' }))
      .sort((one, other) => (one.folder < other.folder ? -1 : 1));
    for (const { number, folder } of pass) yield { folder, blocks: this.#spool.read(number) };
    await this.#spool.clear();
  }

  close(): Promise<void> {
    return this.#spool.close();
  }

  #numberOf(block: RowBlock, row: number): number {
    const folder = this.#fields.map((field) => folderOf(field, block, row)).join('/');
    const earlier = this.#numbers.get(folder);
    if (earlier !== undefined) return earlier;
    const number = this.#folders.length;
    if (number === this.#limits.partitions) {
      const names = this.#fields.map(({ of }) => of.name).join(', ');
      const detail = `partition_by (${names}) makes more than ${number} partitions of one interval`;
      throw new SluiceError('destination.too_many_partitions', detail);
    }
    this.#numbers.set(folder, number);
    this.#folders.push(folder);
    return number;
  }
}

function folderOf(
  field: Field,
  { columns, bytes, offsets, lengths }: RowBlock,
  row: number,
): string {
  const { of, place, toJson, folders } = field;
  const index = row * columns.length + place;
  const from = offsets[index] ?? 0;
  const length = lengths[index] ?? -1;
  if (length < 0) return partitionFolder(of, null);
  const json = () => toJson(bytes, from, from + length);
  if (length > keptValueBytes) return partitionFolder(of, json());
  // The times of an interval differ, and they have few hours.
  const key = of.part === null ? bytes.toString('latin1', from, from + length) : hourOf(json());
  const cached = folders.get(key);
  if (cached !== undefined) return cached;
  const folder = partitionFolder(of, json());
  if (folders.size >= keptFolders) folders.clear();
  folders.set(key, folder);
  return folder;
}

/** Returns the characters of a time as JSON that decide its date parts. */
const hourOf = (json: string): string => json.slice(0, 16) + (json.endsWith(' BC"') ? ' BC' : '');

/** For null and the empty text: Hive cannot tell them apart. */
const defaultPartition = '__HIVE_DEFAULT_PARTITION__';

/** The part that remains of a longer value, in front of its digest. */
const keptBytes = 60;

/** The folder of a value, `event=signup`. @param json the value as JSON Lines has it; null for null */
export function partitionFolder({ name, part }: PartitionField, json: string | null): string {
  const text = json === null ? null : textOfJson(json);
  const value = text === null || part === null ? text : cutDate(text, part);
  const head = `${escapeValue(name)}=`;
  return value === null || value === '' ? `${head}${defaultPartition}` : nameFolder(head, value);
}

function nameFolder(head: string, value: string): string {
  const escaped = escapeValue(value);
  if (Buffer.byteLength(head) + Buffer.byteLength(escaped) <= maxFolderBytes) return head + escaped;
  const digest = createHash('sha256').update(value).digest('hex').slice(0, 32);
  return `${head}${shorten(escaped)}-${digest}`;
}

/** Says whether a key has a folder that is named after a value, of whatever column. */
export function isNamedAfter(key: string, value: string): boolean {
  const folders = key.split('/').slice(0, -1);
  return folders.some((folder) => {
    const head = folder.slice(0, folder.indexOf('=') + 1);
    return value !== '' && head !== '' && folder === nameFolder(head, value);
  });
}

/** `2026-11-25` of `2026-11-25T13:00:00.000000Z`; infinity stays, and so does `BC`. */
function cutDate(text: string, part: DatePart): string {
  const [, year, month, day, hour] = /^(\d{4,})-(\d\d)-(\d\d)(?:T(\d\d))?/.exec(text) ?? [];
  if (year === undefined) return text;
  const parts = [year, month, day, hour].slice(0, dateParts.indexOf(part) + 1);
  return parts.join('-') + (text.endsWith(' BC') ? ' BC' : '');
}

/** The first characters, none of them cut in two. */
function shorten(escaped: string): string {
  let prefix = '';
  for (const [piece] of escaped.matchAll(/(?:%[0-9A-F]{2})+|[^%]/gu)) {
    if (Buffer.byteLength(prefix) + Buffer.byteLength(piece) > keptBytes) break;
    prefix += piece;
  }
  return prefix;
}
