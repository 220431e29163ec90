import { randomBytes, randomUUID } from 'node:crypto';
import { parseForeignJson } from '../../foundation/domain/foreign-json.ts';
import type { TableField, TableType } from '../../foundation/domain/table-field.ts';
import type { Instant } from '../../foundation/domain/time.ts';
import { SluiceError } from '../../foundation/domain/errors.ts';

/** A version of a table's columns. Schemas are never changed, only added. */
export interface TableSchema {
  readonly type: 'struct';
  readonly 'schema-id': number;
  readonly fields: readonly TableField[];
}

/**
 * The columns of a table that gets rows of other columns: new ones come last, and a column that the rows lack
 * stays, as null of the new rows. A type becomes wider as Iceberg allows it.
 *
 * @throws SluiceError `destination.table_conflict` if a column has another type now
 */
export function joinFields(
  table: readonly TableField[],
  rows: readonly TableField[],
): readonly TableField[] {
  const own = new Map(rows.map((field) => [field.id, field]));
  const ids = new Set(table.map(({ id }) => id));
  const joined = table.map((field) => {
    const other = own.get(field.id);
    return other ? { ...field, type: joinTypes(field, other) } : field;
  });
  return [...joined, ...rows.filter(({ id }) => !ids.has(id))];
}

function joinTypes({ name, type: ofTable }: TableField, rows: TableField): TableType {
  const ofRows = rows.type;
  if (rows.name === name) {
    if (isWithin(ofRows, ofTable)) return ofTable;
    if (isWithin(ofTable, ofRows)) return ofRows;
  }
  const detail = `column ${rows.name} is ${describe(ofTable)} in the Iceberg table, and ${describe(ofRows)} in the rows`;
  throw new SluiceError('destination.table_conflict', detail);
}

/** Says whether Iceberg reads values of one type as the other. */
function isWithin(narrow: TableType, wide: TableType): boolean {
  if (typeof narrow !== 'string' || typeof wide !== 'string') {
    if (typeof narrow === 'string' || typeof wide === 'string') return false;
    return isWithin(narrow.element, wide.element);
  }
  if (narrow === wide) return true;
  if (narrow === 'int') return wide === 'long';
  if (narrow === 'float') return wide === 'double';
  const [few, scale] = digitsOf(narrow);
  const [many, scaleOfWide] = digitsOf(wide);
  return few !== undefined && many !== undefined && scale === scaleOfWide && few <= many;
}

function digitsOf(type: string): readonly (number | undefined)[] {
  const decimal = /^decimal\((\d+), (\d+)\)$/.exec(type);
  return decimal ? [Number(decimal[1]), Number(decimal[2])] : [];
}

const describe = (type: TableType): string =>
  typeof type === 'string' ? type : `list of ${type.element}`;

/** The highest id of the fields, elements of lists included. */
function highestId(fields: readonly TableField[]): number {
  return fields.reduce(
    (highest, { id, type }) =>
      Math.max(highest, id, typeof type === 'string' ? 0 : type['element-id']),
    0,
  );
}

/** A state of the table: which files it had after a commit. */
export interface Snapshot {
  readonly 'snapshot-id': number;
  readonly 'parent-snapshot-id'?: number;
  readonly 'sequence-number': number;
  readonly 'timestamp-ms': Instant;
  readonly 'manifest-list': string;
  /** `operation`, Iceberg's counts and our own facts (`sluice.…`). */
  readonly summary: Readonly<Record<string, string>>;
  readonly 'schema-id': number;
}

/** Iceberg's table metadata of version 2: https://iceberg.apache.org/spec/#table-metadata-fields */
export interface TableMetadata {
  readonly 'format-version': 2;
  readonly 'table-uuid': string;
  readonly location: string;
  readonly 'last-sequence-number': number;
  readonly 'last-updated-ms': Instant;
  readonly 'last-column-id': number;
  readonly 'current-schema-id': number;
  readonly schemas: readonly TableSchema[];
  readonly 'default-spec-id': 0;
  readonly 'partition-specs': readonly unknown[];
  readonly 'last-partition-id': number;
  readonly 'default-sort-order-id': 0;
  readonly 'sort-orders': readonly unknown[];
  readonly properties: Readonly<Record<string, string>>;
  /** -1: the table has none yet. */
  readonly 'current-snapshot-id': number;
  readonly refs: Readonly<Record<string, unknown>>;
  /** Oldest first; each but the first follows the one before it. */
  readonly snapshots: readonly Snapshot[];
  readonly 'snapshot-log': readonly LogEntry[];
  readonly 'metadata-log': readonly {
    readonly 'timestamp-ms': Instant;
    readonly 'metadata-file': string;
  }[];
}

interface LogEntry {
  readonly 'timestamp-ms': Instant;
  readonly 'snapshot-id': number;
}

/** Properties of the table, and facts in the summary of a snapshot. */
export const ownNames = {
  owner: 'sluice.batch-export-id',
  /** Of the table: each snapshot has the files of one interval and no others. */
  whole: 'sluice.one-interval',
  /** Differs between any two versions. */
  commit: 'sluice.commit-id',
  /** Names of files in the metadata folder that no snapshot needs any more, as JSON. */
  removable: 'sluice.removable-files',
  /** `<prefix>/<start>-<end>` of the interval that a snapshot is about. */
  interval: 'sluice.interval',
  generation: 'sluice.generation',
  /** The generation of its files that the snapshot has removed; absent if there were none. */
  replaced: 'sluice.replaced-generation',
  /** Names of the manifests that the snapshot has no more, as JSON. */
  dropped: 'sluice.dropped-manifests',
} as const;

/** Maximum snapshots that are kept: each commit reads and writes them all. */
const maxSnapshots = 2_000;

/** Maximum snapshots that expire with one commit, which must also remove what they had. */
const maxExpired = 100;

export const keptVersions = 20;

/** Numbers that JSON readers hold exactly; Iceberg asks for 64 bits. */
export const newSnapshotId = (): number => randomBytes(6).readUIntBE(0, 6) + 1;

export function emptyTable(location: string, owner: string, now: Instant): TableMetadata {
  return {
    'format-version': 2,
    'table-uuid': randomUUID(),
    location,
    'last-sequence-number': 0,
    'last-updated-ms': now,
    'last-column-id': 0,
    'current-schema-id': 0,
    schemas: [{ type: 'struct', 'schema-id': 0, fields: [] }],
    'default-spec-id': 0,
    'partition-specs': [{ 'spec-id': 0, fields: [] }],
    'last-partition-id': 999,
    'default-sort-order-id': 0,
    'sort-orders': [{ 'order-id': 0, fields: [] }],
    properties: { [ownNames.owner]: owner },
    'current-snapshot-id': -1,
    refs: {},
    snapshots: [],
    'snapshot-log': [],
    'metadata-log': [],
  };
}

export function schemaOf(table: TableMetadata): TableSchema {
  const id = table['current-schema-id'];
  const schema = table.schemas.find((schema) => schema['schema-id'] === id);
  if (!schema) throw new RangeError('the current schema is missing');
  return schema;
}

export function currentSnapshot(table: TableMetadata): Snapshot | null {
  return (
    table.snapshots.find((each) => each['snapshot-id'] === table['current-snapshot-id']) ?? null
  );
}

/** The table with the columns of the rows too. @throws SluiceError `destination.table_conflict` */
export function withFields(table: TableMetadata, rows: readonly TableField[]): TableMetadata {
  const { fields } = schemaOf(table);
  const joined = joinFields(fields, rows);
  if (JSON.stringify(joined) === JSON.stringify(fields)) return table;
  // The first schema has no column: it gives way.
  const earlierSchemas = fields.length === 0 ? [] : table.schemas;
  const id = Math.max(-1, ...earlierSchemas.map((schema) => schema['schema-id'])) + 1;
  return {
    ...table,
    schemas: [...earlierSchemas, { type: 'struct', 'schema-id': id, fields: joined }],
    'current-schema-id': id,
    'last-column-id': Math.max(table['last-column-id'], highestId(joined)),
  };
}

/** The table with the mark that each of its snapshots has the files of one interval. */
export const ofOneInterval = (table: TableMetadata): TableMetadata => ({
  ...table,
  properties: { ...table.properties, [ownNames.whole]: 'true' },
});

export function withSnapshot(table: TableMetadata, snapshot: Snapshot): TableMetadata {
  const { 'snapshot-id': id, 'timestamp-ms': at } = snapshot;
  return {
    ...table,
    'last-sequence-number': snapshot['sequence-number'],
    'last-updated-ms': at,
    'current-snapshot-id': id,
    refs: { main: { 'snapshot-id': id, type: 'branch' } },
    snapshots: [...table.snapshots, snapshot],
    'snapshot-log': [...table['snapshot-log'], { 'timestamp-ms': at, 'snapshot-id': id }],
  };
}

/** The table without what was replaced before `oldest`, and what that alone had. The current snapshot stays. */
export function withoutExpired(
  table: TableMetadata,
  oldest: Instant,
): { readonly table: TableMetadata; readonly removable: readonly string[] } {
  const { snapshots } = table;
  let count = 0;
  while (count < maxExpired && isExpired(snapshots, count, oldest)) count += 1;
  if (count === 0) return { table, removable: [] };
  const expired = snapshots.slice(0, count);
  const remaining = snapshots.slice(count);
  const ids = new Set(expired.map((snapshot) => snapshot['snapshot-id']));
  const droppedBy = ({ summary }: Snapshot) => readNames(summary[ownNames.dropped]);
  // Files that a snapshot has dropped were last needed by the one before it.
  const removable = [
    ...expired.map((snapshot) => nameOf(snapshot['manifest-list'])),
    ...[...expired, ...remaining.slice(0, 1)].flatMap(droppedBy),
  ];
  const log = table['snapshot-log'].filter((entry) => !ids.has(entry['snapshot-id']));
  const needed = new Set([
    table['current-schema-id'],
    ...remaining.map((snapshot) => snapshot['schema-id']),
  ]);
  // A query whose columns change all the time would fill the metadata.
  const schemas = table.schemas.filter((schema) => needed.has(schema['schema-id']));
  return { table: { ...table, schemas, snapshots: remaining, 'snapshot-log': log }, removable };
}

function isExpired(snapshots: readonly Snapshot[], at: number, oldest: Instant): boolean {
  const next = snapshots[at + 1];
  if (!next) return false;
  return next['timestamp-ms'] < oldest || snapshots.length - at > maxSnapshots;
}

/** A list of names that a property has. */
export function readNames(text: string | undefined): readonly string[] {
  // Only names of our own form are ever removed. Another program may have written anything here.
  const matches = (text ?? '').matchAll(/"([\w.-]{1,200})"/g);
  const names: string[] = [];
  for (const [, name = ''] of matches) {
    if (names.length === maxNames) break;
    if (ownFile.test(name)) names.push(name);
  }
  return names;
}

/** More than 100 snapshots that expire can have dropped. */
const maxNames = 20_000;

/** Our files in the metadata folder, besides the hint. */
const ownFile = /^(?:[ms]_[\w-]+\.avro|v\d+\.metadata\.json)$/;

/** Which commit wrote a file of the metadata folder: part of its name. */
interface OwnerMark {
  /** The version that was to name it. */
  readonly version: number;
  readonly snapshotId: number;
}

export const ownerMark = ({ version, snapshotId }: OwnerMark): string =>
  `v${version}_${snapshotId}`;

/** Null if the name has none: not a manifest or a list. */
export function readOwnerMark(name: string): OwnerMark | null {
  const [, version, snapshotId] =
    /^[ms]_(?:-?\d+_-?\d+_)?v(\d+)_(\d+)(?:_\d+)?\.avro$/.exec(name) ?? [];
  return version === undefined
    ? null
    : { version: Number(version), snapshotId: Number(snapshotId) };
}

export const nameOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1);

/** 2,000 snapshots have 50,000 values, a schema of 1,000 columns has 5,000; an expired table has few schemas. */
const bounds = { values: 300_000, names: 1_000, depth: 16 } as const;

/** @returns null if the bytes are not metadata of a table that Sluice wrote */
export async function decodeMetadata(bytes: Buffer): Promise<TableMetadata | null> {
  try {
    const value = (await parseForeignJson(bytes, bounds)) as Partial<TableMetadata> | null;
    const isSupported =
      value?.['format-version'] === 2 &&
      typeof value.properties?.[ownNames.owner] === 'string' &&
      typeof value.location === 'string' &&
      Number.isSafeInteger(value['last-sequence-number']) &&
      Number.isSafeInteger(value['last-updated-ms']) &&
      Number.isSafeInteger(value['current-snapshot-id']) &&
      [value.schemas, value.snapshots, value['snapshot-log'], value['metadata-log']].every(
        Array.isArray,
      ) &&
      Object.values(value.properties).every(isText) &&
      value.schemas?.every(isSchema) &&
      value.schemas.some((schema) => schema['schema-id'] === value['current-schema-id']) &&
      value.snapshots?.every(isOurs) &&
      value['snapshot-log']?.every((entry) => Number.isSafeInteger(entry['snapshot-id']));
    return isSupported ? (value as TableMetadata) : null;
  } catch {
    return null;
  }
}

/** Any writer of the bucket may have made a snapshot. */
function isOurs(snapshot: Partial<Snapshot> | null): boolean {
  return (
    Number.isSafeInteger(snapshot?.['snapshot-id']) &&
    Number.isSafeInteger(snapshot?.['timestamp-ms']) &&
    typeof snapshot?.['manifest-list'] === 'string' &&
    typeof snapshot.summary?.[ownNames.interval] === 'string' &&
    Object.values(snapshot.summary).every(isText)
  );
}

function isText(value: unknown): boolean {
  return typeof value === 'string';
}

function isSchema({ 'schema-id': id, fields }: TableSchema): boolean {
  const isType = (type: unknown) => isText(type) || isText((type as { element?: unknown }).element);
  return (
    Number.isSafeInteger(id) &&
    fields.every(
      (field) => Number.isSafeInteger(field.id) && isText(field.name) && isType(field.type),
    )
  );
}
