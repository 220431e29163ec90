import { isNumeric } from './decimal-columns.ts';
import type { Column } from './row-block.ts';

/** The columns that the files of an export of changes have after those of its rows. */
export const changeColumns = {
  op: '_sluice_op',
  version: '_sluice_version',
  element: '_sluice_element',
} as const;

export const changeColumnNames: readonly string[] = Object.values(changeColumns);

/** As Debezium has them: `r`, a row of a base; `u`, the row of a key now; `d`, a key without a row. */
export const changeOps = { base: 'r', upsert: 'u', delete: 'd' } as const;

export const versionTypes = ['xid8', 'timestamp with time zone'] as const;
export type VersionType = (typeof versionTypes)[number];

/** Reasons why an element has all rows instead of those that changed. */
export const baseReasons = {
  first: 'it is the first one at this destination',
  requested: 'new_base of the export was raised',
  definition: 'the model, the tenant key, the query, the filters or the transformations changed',
  era: 'our database was restored, copied or failed over',
  server: 'the source is another server, or was restored or failed over',
  counter: 'source.version_counter_lower: the transaction ids of the source are lower than before',
  table: 'the table was replaced, or its trigger, its policies or a type of it were changed',
  parts: 'a partition is gone, and no tombstones say which rows went with it',
  tombstones: 'tombstones may have been removed since the element before',
  unread:
    'the files of the elements before cannot be read back, so keys that are gone are not known',
  unknown: 'the element before did not know which transactions were still open',
  unfinished:
    'an element that may have been published was never recorded, and does not continue to here',
  unrecorded:
    'an element that may have been published was never recorded, so the keys that readers have are not known',
} as const;
export type BaseReason = keyof typeof baseReasons;

/** Before the id of a table of tombstones among the tables of a point. */
export const tombstonesPrefix = 'tombstones ';

/** Types whose values have one text, which PostgreSQL reads back as the same value; beside numeric. */
const comparable = new Set<Column['type']>([
  ...(['bool', 'int2', 'int4', 'int8', 'text', 'uuid'] as const),
  ...(['date', 'timestamp', 'timestamptz'] as const),
]);

/** Why keys cannot be compared with those in files, for the export's owner; null: they can. */
export function describeIncomparable(keys: readonly Column[]): string | null {
  const other = keys.find((key) => !comparable.has(key.type) && !isNumeric(key));
  if (!other) return null;
  return `deletes: compare cannot compare the key column ${other.name} of type ${other.sourceType}. Find deletes by tombstones`;
}

/**
 * The state of a changing table's source at one moment, as far as it decides whether an element can continue the one before.
 * Equal points but for their tables: no row was changed without its version.
 */
export interface SequencePoint {
  /** The cluster, its timeline and the database. */
  readonly server: string;
  /** A digest of the relation, and of the names and types of the columns that are read. */
  readonly relation: string;
  readonly model: string;
  /**
   * The tables with rows, by their ids: the triggers of each, with the transactions that last changed them. And the names of the
   * values of enums, and how many tombstones were ever deleted.
   */
  readonly tables: Readonly<Record<string, string>>;
  readonly versionType: VersionType;
}

/**
 * An element of the sequence of an export of changes. It has the row of each key that is visible in its snapshot and whose
 * version is at or above `from`. So elements that are applied in the order of their numbers give the source at each snapshot.
 */
export interface Element {
  /** Higher than that of each element that may have been published before. */
  readonly number: number;
  /** The element that it continues; null: it has all rows, and replaces all elements before. */
  readonly follows: number | null;
  /** Null unless it has all rows. */
  readonly base: BaseReason | null;
  /** Lowest version in it; null: it has all rows. */
  readonly from: string | null;
  /** `from` of the element that continues it; null: not known, so that one is a base. */
  readonly next: string | null;
  /** When its snapshot was taken, by the clock of the source, in milliseconds. */
  readonly at: number;
  readonly point: SequencePoint;
  /** A digest of query, filters and transformations. */
  readonly definition: string;
  /** new_base of the export. */
  readonly newBase: number;
  readonly deletes: number;
  /** The elements since the last one with all deletes up to its snapshot. Missing: the model does not compare keys. */
  readonly uncompared?: number;
}

/** The parts of an element that its manifest has. */
export interface ManifestElement {
  readonly number: number;
  readonly follows: number | null;
  readonly base: string | null;
  readonly from_version: string | null;
  readonly version_type: VersionType;
  readonly snapshot: string;
  readonly snapshot_at: string;
  readonly deletes: number;
  /** With `deletes: compare`: true if all deletes up to its snapshot were delivered. */
  readonly complete?: boolean;
}
