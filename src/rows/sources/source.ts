import { SluiceError } from '../../foundation/domain/errors.ts';
import type { Column, RowBlock } from '../../foundation/domain/row-block.ts';
import type { SequencePoint, VersionType } from '../../foundation/domain/element.ts';
import type { DataInterval, Instant } from '../../foundation/domain/time.ts';

/** A run's request to a source. */
export interface SourceRequest {
  readonly model: string;
  readonly tenantKey: string;
  /** Rows whose interval column is in this half-open interval. */
  readonly interval: DataInterval;
  /**
   * True: all rows of the tenant instead, by key, from one snapshot. The model needs no interval column, and
   * `interval` selects nothing.
   */
  readonly whole?: boolean;
  readonly dslQuery: string | null;
  readonly includeEvents: readonly string[] | null;
  readonly excludeEvents: readonly string[] | null;
  /**
   * Arrays and composites that are no keys come as JSON, the default, or as text as PostgreSQL prints
   * them. Only for `rows`.
   */
  readonly nested?: 'json' | 'text';
  /**
   * Default `rows`. `keys`: instead of the rows their keys as text (those of type `as_json` as JSON), in
   * the order of the rows. The columns say what the keys are in the rows; there are none if the rows do not
   * contain the keys. `columns`: all columns of the model for the rows that the query's condition accepts; a
   * projection says how its SELECT list is made of them.
   */
  readonly select?: 'rows' | 'keys' | 'columns';
  /** Missing: the rows of the interval. */
  readonly element?: ElementRequest;
}

/** The rows of an element of a changing table, instead of those of an interval. */
export interface ElementRequest {
  readonly number: number;
  readonly versionType: VersionType;
  /** Rows with this version or a higher one; null: all rows, as a base. */
  readonly from: string | null;
  /** Tables that the element before did not know, by id: all of their rows. */
  readonly newTables: readonly string[];
  /** True if an index shows that no two rows have one key: rows come in any order. Default: by key, so that such rows are found. */
  readonly isUnique?: boolean;
}

/** The state of a changing table in a snapshot, and what it means for the next element. */
export interface SequenceReading {
  readonly point: SequencePoint;
  /** By the clock of the source. */
  readonly atMs: number;
  /** The lowest version that a row can get which this snapshot does not show; null: not known. */
  readonly next: string | null;
  readonly deletesBy: 'none' | 'column' | 'tombstones' | 'compare';
  /** In how many elements once all keys are compared; null: never. */
  readonly compareEvery: number | null;
  /** Days for which tombstones are kept; null: for ever. */
  readonly tombstoneDays: number | null;
  /** False if programs set the versions: rows may come later than the model says. */
  readonly isSettled: boolean;
  /** True if a unique index covers the key. */
  readonly isUnique: boolean;
  /** True if the source gives lower versions than this one now. */
  isCounterLower(from: string): boolean;
}

/** Makes the selected rows of a query from the rows of a request of `columns`. */
export interface Projection {
  /** The column itself, or with a path the text at it, as `column.a.b` in a query. */
  readonly outputs: readonly {
    readonly name: string;
    readonly column: string;
    readonly path: readonly string[];
  }[];
  readonly keyColumns: readonly string[];
  /** Key, tenant and interval column, if the rows have them: they decide where a row belongs. */
  readonly fixedColumns: readonly string[];
}

/** The rows of a request, before any is read. */
export interface Description {
  readonly columns: readonly Column[];
  /**
   * For a request of keys, the columns whose values print names that can change without a write of the row, such as the label of an
   * enum.
   */
  readonly renamable: readonly string[];
  /** Sentences for the owner of the export. */
  readonly warnings: readonly string[];
}

const dayMs = 86_400_000;

/** For questions that are about no interval. */
export const anyInterval: DataInterval = { start: 0, end: dayMs };

/**
 * A row with a day and no time belongs to the interval with its midnight, whenever it arrives: at the end of the interval, its
 * last day must be over.
 *
 * @throws SluiceError `source.model_invalid` if the interval ends within a day
 */
export function refusePartOfDay(hasDays: boolean, { end }: DataInterval): void {
  if (!hasDays || end % dayMs === 0) return;
  const detail =
    'the interval column is a date, so an interval that does not end at midnight in UTC would lose the rows of its last day that arrive later. Name a timestamptz as interval_column, or export by day or week, with timezone UTC and offset_hour 0';
  throw new SluiceError('source.model_invalid', detail);
}

/** A part of the interval that is read separately; slices cover the interval in ascending order. */
export type Slice = DataInterval;

/** Fewer rows are counted before they are read. */
export const manyRows = 20_000;

/**
 * One consistent view of an interval's rows: count and rows come from one REPEATABLE READ READ ONLY
 * transaction. Must be closed.
 */
export interface SourceSnapshot {
  readonly columns: readonly Column[];
  /** True if the interval column has days, not times: all rows of a day are in the interval with its midnight. */
  readonly hasDays: boolean;
  /** Columns whose type is not that of the model, in words for the run's log; exports of the model allow it. */
  readonly typeChanges: readonly string[];
  /** The indices of the model's keys among `columns`, for those that the rows show. */
  readonly keyIndices: readonly number[];
  /** True if these are all keys of the model. */
  readonly showsKeys: boolean;
  /**
   * Rows of the interval in this snapshot. Null if they are `manyRows` or more, until `countRows` has counted them.
   * A request of keys has it, unless a standby ends long reads.
   */
  readonly totalCount: number | null;
  /**
   * Counts the rows, unless that is done. Before all slices are read it takes a connection of its own, so that
   * nothing waits for it. If that fails, call it again after the last slice, whose connection it takes then.
   */
  countRows(signal: AbortSignal): Promise<number>;
  /** `pg_current_snapshot()` of the transaction, `@` and the start of its server; kept with the run for the look-back. */
  readonly snapshot: string;
  /** A moment before the snapshot was taken, by the clock of its server. Of a standby: it may show an earlier state. */
  readonly takenAt: Instant;
  readonly slices: readonly Slice[];
  /** Null unless `columns` were requested. */
  readonly projection: Projection | null;
  /** The state of the table in this snapshot; only for a request of an element. */
  readonly sequence: SequenceReading | null;
  /**
   * The keys that an element deletes: those of changed rows that are no longer wanted, and those of tombstones that are not in
   * this snapshot. The columns are the model's keys and `_sluice_version`. Only for a request of an element, once its rows are read.
   *
   * @param keys to be given as deletes instead, as text, without a version
   */
  readDeletes?(
    signal: AbortSignal,
    keys?: readonly (readonly (string | null)[])[],
  ): AsyncIterable<RowBlock>;
  /** The keys of the rows that were read so far; null for a request of keys. */
  keySet(): KeySet | null;
  /** The keys of all rows, without the rows; not for a request of keys, or for rows in memory. */
  readKeySet(signal: AbortSignal): Promise<KeySet>;
  /**
   * Another request over the same state of the source, or over later ones if a standby ends long reads; not for rows in memory.
   */
  share(request: SourceRequest, signal: AbortSignal): Promise<SourceSnapshot>;
  /**
   * Pull-based: reads no further ahead than the consumer asks. A block may be read until the next one is
   * asked for; then its memory is reused. Throws SluiceError `source.*`.
   */
  read(slice: Slice, signal: AbortSignal): AsyncIterable<RowBlock>;
  close(): Promise<void>;
}

/** Why an interval is not settled. */
export type Unsettled = 'clock' | 'transactions' | 'unseen' | 'replay' | 'standby';

/**
 * Text for a transaction that has no id. It may still write: PostgreSQL shows to no other session whether a transaction is
 * READ ONLY.
 */
export const nothingWritten = 'nothing written so far';

/** Says whether all rows of an interval are visible. */
export interface Settlement {
  readonly settled: boolean;
  /** Transactions and sessions that may still add rows, by names that `recheck` knows; empty if it settled. */
  readonly pending: readonly string[];
  readonly reason: Unsettled | null;
  /** The position that the server must have replayed to show all of it; null if it is not a standby. */
  readonly position: string | null;
  /** Which start of the server was waited for; null or absent if it is a standby. */
  readonly server?: string | null;
  /** The pending work, in words for the export's owner. */
  readonly blockers?: readonly string[];
  /** The time that a run may still wait for what is pending; 0 or absent: it must not. */
  readonly leftMs?: number;
}

/** One of the waits of a run for its interval. */
export interface SettleWait {
  /**
   * True: every later snapshot must be from after the end of the interval, by the clock of the server that writes, and no
   * transaction is waited for. Default: false.
   */
  readonly onlyEnd?: boolean;
  /**
   * Maximum time of this one. What another interval has waited for as long is not waited for. Default: what is left of the
   * timeout.
   */
  readonly patienceMs?: number;
  /** The time that the run has waited; default 0. */
  readonly waitedMs?: number;
  /**
   * Names that its last wait gave as pending: one look shows what is left of it, and nothing else is waited for. Null, the default:
   * every transaction that is open at the call.
   */
  readonly pending?: readonly string[] | null;
}

/** The keys of an interval's rows in one snapshot, as a set. */
export interface KeySet {
  /** Equal for equal sets of keys, in any order; opaque. */
  readonly digest: string;
  readonly count: number;
}

/** Facts that an export of an interval saw. */
export interface EarlierExport {
  readonly snapshot: string;
  /** Null if only the count was kept. */
  readonly digest: string | null;
  readonly count: number;
}

/** The result of another look at an interval. */
export interface SecondLook {
  readonly now: EarlierExport;
  /**
   * True if rows may have come that the earlier look did not see. False is certain. True is not: the set of keys has changed,
   * and rows do not show when they were written, or other rows were only changed.
   */
  readonly mayHaveLateRows: boolean;
}

/** The state of a source's server, for operators. */
export interface SourceState {
  /**
   * Says what is wrong. With an error the source's runs fail; with a warning intervals stay unsettled longer.
   */
  readonly findings: readonly { readonly severity: 'error' | 'warning'; readonly detail: string }[];
  /** The clock of the server that gives rows their time. */
  readonly clockMs: number;
  /** The age of the oldest snapshot that a run reads; 0 if no run reads now. */
  readonly oldestSnapshotSeconds: number;
  /** The lag of a standby behind its primary; null on a primary. */
  readonly replayLagSeconds: number | null;
}

export interface Source {
  /**
   * Reads the state of a model's table, to decide whether an element can continue the one before.
   *
   * @throws SluiceError `source.model_invalid` or `model.version_without_trigger` if the model allows no export of changes
   */
  readSequence(model: string, tenantKey: string, signal: AbortSignal): Promise<SequenceReading>;
  /**
   * Waits until no transaction can add rows to the interval, or as long as `wait` says.
   *
   * @throws SluiceError `source.standby` if the server cannot prove it
   */
  settle(interval: DataInterval, signal: AbortSignal, wait?: SettleWait): Promise<Settlement>;
  /** Checks again, without waiting, what `settle` or `recheck` named as pending. */
  recheck(
    interval: DataInterval,
    pending: readonly string[],
    signal: AbortSignal,
  ): Promise<Settlement>;
  /**
   * Compares the keys that the interval has now with those of an earlier look.
   *
   * @param position of the settlement
   * @param server of the settlement: no other one is read
   */
  lookAgain(
    request: SourceRequest,
    earlier: EarlierExport,
    position: string | null,
    signal: AbortSignal,
    server?: string | null,
  ): Promise<SecondLook>;
  /**
   * Says whether a row of the interval was written, or is gone, since an earlier export. If that cannot be known, true: the rows do not
   * show their writer (a view), or a standby ends the read.
   */
  hasChanged(request: SourceRequest, earlier: EarlierExport, signal: AbortSignal): Promise<boolean>;
  /**
   * The tenant's rows with one of these keys that are in another interval than the request's, whatever its query: their
   * keys. All keys are as a request of `keys` gives them.
   *
   * @throws SluiceError `query.invalid` if a key's type cannot be compared with a text
   */
  findElsewhere(
    request: SourceRequest,
    keys: readonly (readonly (string | null)[])[],
    signal: AbortSignal,
  ): Promise<readonly (readonly (string | null)[])[]>;
  /**
   * @param position of the settlement: the snapshot shows all that was written before it
   * @param server of the settlement: no other one is read
   * @throws SluiceError `source.*` or `query.*`
   */
  open(
    request: SourceRequest,
    signal: AbortSignal,
    position?: string | null,
    server?: string | null,
  ): Promise<SourceSnapshot>;
  /**
   * Opens a request that is expected to have few rows. If it has, they are in memory, and the snapshot
   * holds no connection. Calls of one moment for the same project share a transaction.
   *
   * @param maxBytes of the rows in memory; if they have more, this is `open`
   */
  openSmall(
    request: SourceRequest,
    signal: AbortSignal,
    maxBytes: number,
    position?: string | null,
    server?: string | null,
  ): Promise<SourceSnapshot>;
  /**
   * The columns of a request's rows. Nothing is read.
   *
   * @throws SluiceError `query.*` or `source.*` if the request cannot run
   */
  describe(request: SourceRequest, signal: AbortSignal): Promise<Description>;
  /**
   * Reads the newest row of a project as a run does, and throws it away.
   *
   * @param ofOthers whether a row of another project will do
   * @param whole whether the model has no interval column: then it is any row; default false
   * @returns warnings: those of `describe`, and why none was read although there may be one
   * @throws SluiceError as a run does
   */
  tryRow(
    model: string,
    tenantKey: string,
    ofOthers: boolean,
    signal: AbortSignal,
    whole?: boolean,
  ): Promise<readonly string[]>;
  inspect(signal: AbortSignal): Promise<SourceState>;
  /** Rights of the source's role that no export needs, as clauses: `is a superuser`. */
  findExcessRights(signal: AbortSignal): Promise<readonly string[]>;
}
