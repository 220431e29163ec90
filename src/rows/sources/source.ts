import { SluiceError } from '../../foundation/domain/errors.ts';
import type { Column, RowBlock } from '../../foundation/domain/row-block.ts';
import type { SequencePoint, VersionType } from '../../foundation/domain/element.ts';
import type { DataInterval, Instant } from '../../foundation/domain/time.ts';

export interface SourceRequest {
  readonly model: string;
  readonly tenantKey: string;
  /** Rows whose interval column is in this half-open interval. */
  readonly interval: DataInterval;
  /** All rows of the tenant instead, by key, from one snapshot: `interval` selects nothing. */
  readonly whole?: boolean;
  readonly dslQuery: string | null;
  readonly includeEvents: readonly string[] | null;
  readonly excludeEvents: readonly string[] | null;
  /** For arrays and composites that are no keys. Text is as PostgreSQL prints them. Default JSON; only for `rows`. */
  readonly nested?: 'json' | 'text';
  /**
   * Default `rows`. `keys`: as text (`as_json` as JSON), in the order of the rows; the columns say what the keys are in
   * these, none if they lack them. `columns`: all that the model has of rows that the query's condition accepts.
   */
  readonly select?: 'rows' | 'keys' | 'columns';
  readonly element?: ElementRequest;
}

/** Instead of the rows of an interval. */
export interface ElementRequest {
  readonly number: number;
  readonly versionType: VersionType;
  /** Rows with this version or a higher one; null: all rows, as a base. */
  readonly from: string | null;
  /** Tables that the element before did not know, by id: all of their rows. */
  readonly newTables: readonly string[];
  /** An index shows that keys are unique, so rows come in any order. Default: by key, so that equal keys are found. */
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

export interface Description {
  readonly columns: readonly Column[];
  /** Of a request of keys: those whose values print names that can change without a write, such as an enum's label. */
  readonly renamable: readonly string[];
  readonly warnings: readonly string[];
}

const dayMs = 86_400_000;

export const anyInterval: DataInterval = { start: 0, end: dayMs };

/**
 * A row with a day and no time belongs to the interval with its midnight, whenever it arrives.
 * @throws SluiceError `source.model_invalid` if the interval ends within a day
 */
export function refusePartOfDay(hasDays: boolean, { end }: DataInterval): void {
  if (!hasDays || end % dayMs === 0) return;
  const detail =
    'the interval column is a date, so an interval that does not end at midnight in UTC would lose the rows of its last day that arrive later. Name a timestamptz as interval_column, or export by day or week, with timezone UTC and offset_hour 0';
  throw new SluiceError('source.model_invalid', detail);
}

/** Read separately; slices cover the interval in ascending order. */
export type Slice = DataInterval;

export const manyRows = 20_000;

/** Count and rows are from one REPEATABLE READ READ ONLY transaction. Must be closed. */
export interface SourceSnapshot {
  readonly columns: readonly Column[];
  /** True if the interval column has days, not times: all rows of a day are in the interval with its midnight. */
  readonly hasDays: boolean;
  /** Columns of another type than the model's, in words for the run's log; exports of the model allow it. */
  readonly typeChanges: readonly string[];
  /** Of the model's keys among `columns`, for those that the rows show. */
  readonly keyIndices: readonly number[];
  readonly showsKeys: boolean;
  /** Null if they are `manyRows` or more, until `countRows` has counted them. */
  readonly totalCount: number | null;
  /** Before all slices are read it takes its own connection. If that fails, call it again after the last slice. */
  countRows(signal: AbortSignal): Promise<number>;
  /** `pg_current_snapshot()` of the transaction, `@` and the start of its server; kept with the run for the look-back. */
  readonly snapshot: string;
  /** A moment before the snapshot was taken, by the clock of its server. Of a standby: it may show an earlier state. */
  readonly takenAt: Instant;
  readonly slices: readonly Slice[];
  readonly projection: Projection | null;
  /** The state of the table in this snapshot; only for a request of an element. */
  readonly sequence: SequenceReading | null;
  /**
   * Of changed rows that are no longer wanted, and of tombstones that are not in this snapshot: the model's keys and
   * `_sluice_version`. Only for an element, once its rows are read.
   * @param keys to be given as deletes instead, without a version
   */
  readDeletes?(
    signal: AbortSignal,
    keys?: readonly (readonly (string | null)[])[],
  ): AsyncIterable<RowBlock>;
  /** Of the rows read so far; null for a request of keys. */
  keySet(): KeySet | null;
  /** Without the rows; not for a request of keys, or for rows in memory. */
  readKeySet(signal: AbortSignal): Promise<KeySet>;
  /** Over the same state, or later ones if a standby ends long reads; not for rows in memory. */
  share(request: SourceRequest, signal: AbortSignal): Promise<SourceSnapshot>;
  /** Reads no further ahead than asked; then the memory of a block is reused. Throws SluiceError `source.*`. */
  read(slice: Slice, signal: AbortSignal): AsyncIterable<RowBlock>;
  close(): Promise<void>;
}

export type Unsettled = 'clock' | 'transactions' | 'unseen' | 'replay' | 'standby';

/** It may still write: PostgreSQL shows to no other session whether a transaction is READ ONLY. */
export const nothingWritten = 'nothing written so far';

export interface Settlement {
  readonly settled: boolean;
  /** Transactions and sessions that may still add rows, by names that `recheck` knows; empty if it settled. */
  readonly pending: readonly string[];
  readonly reason: Unsettled | null;
  /** The position that the server must have replayed to show all of it; null if it is not a standby. */
  readonly position: string | null;
  /** Which start of the server was waited for; null or absent if it is a standby. */
  readonly server?: string | null;
  readonly blockers?: readonly string[];
  /** 0 or absent: it must not wait. */
  readonly leftMs?: number;
}

export interface SettleWait {
  /** Later snapshots must be from after the end of the interval; no transaction is waited for. Default: false. */
  readonly onlyEnd?: boolean;
  /** Nothing is waited for that another interval has waited for as long. Default: what is left of the timeout. */
  readonly patienceMs?: number;
  readonly waitedMs?: number;
  /** Of its last wait: one look shows what is left. Null, the default: every transaction that is open at the call. */
  readonly pending?: readonly string[] | null;
}

export interface KeySet {
  /** Equal for equal sets of keys, in any order; opaque. */
  readonly digest: string;
  readonly count: number;
}

export interface EarlierExport {
  readonly snapshot: string;
  /** Null if only the count was kept. */
  readonly digest: string | null;
  readonly count: number;
}

export interface SecondLook {
  readonly now: EarlierExport;
  /** False is certain. True is not: keys have changed, and rows do not show when they were written. */
  readonly mayHaveLateRows: boolean;
}

export interface SourceState {
  /** With an error the source's runs fail; with a warning intervals stay unsettled longer. */
  readonly findings: readonly { readonly severity: 'error' | 'warning'; readonly detail: string }[];
  readonly clockMs: number;
  /** 0 if no run reads now. */
  readonly oldestSnapshotSeconds: number;
  /** Null on a primary. */
  readonly replayLagSeconds: number | null;
}

export interface Source {
  /**
   * To decide whether an element can continue the one before. @throws SluiceError `source.model_invalid` or
   * `model.version_without_trigger` if the model allows no export of changes
   */
  readSequence(model: string, tenantKey: string, signal: AbortSignal): Promise<SequenceReading>;
  /** Waits for all transactions that can add rows, or as `wait` says. @throws SluiceError `source.standby`: no proof */
  settle(interval: DataInterval, signal: AbortSignal, wait?: SettleWait): Promise<Settlement>;
  /** Checks again, without waiting, what `settle` or `recheck` named as pending. */
  recheck(
    interval: DataInterval,
    pending: readonly string[],
    signal: AbortSignal,
  ): Promise<Settlement>;
  /** By keys. @param position of the settlement @param server of the settlement: no other one is read */
  lookAgain(
    request: SourceRequest,
    earlier: EarlierExport,
    position: string | null,
    signal: AbortSignal,
    server?: string | null,
  ): Promise<SecondLook>;
  /** A row was written, or is gone. True if that cannot be known: of a view, or if a standby ends the read. */
  hasChanged(request: SourceRequest, earlier: EarlierExport, signal: AbortSignal): Promise<boolean>;
  /**
   * The keys of rows in another interval than the request's, whatever its query, as a request of `keys` gives them.
   * @throws SluiceError `query.invalid` if a key's type cannot be compared with a text
   */
  findElsewhere(
    request: SourceRequest,
    keys: readonly (readonly (string | null)[])[],
    signal: AbortSignal,
  ): Promise<readonly (readonly (string | null)[])[]>;
  /**
   * @param position the snapshot shows all that was written before it @param server no other one is read @throws
   * SluiceError `source.*` or `query.*`
   */
  open(
    request: SourceRequest,
    signal: AbortSignal,
    position?: string | null,
    server?: string | null,
  ): Promise<SourceSnapshot>;
  /**
   * If it has few rows, they are in memory, without a connection. Calls of one moment of a project share a transaction.
   * @param maxBytes of the rows in memory; if they have more, this is `open`
   */
  openSmall(
    request: SourceRequest,
    signal: AbortSignal,
    maxBytes: number,
    position?: string | null,
    server?: string | null,
  ): Promise<SourceSnapshot>;
  /** Nothing is read. @throws SluiceError `query.*` or `source.*` if the request cannot run */
  describe(request: SourceRequest, signal: AbortSignal): Promise<Description>;
  /**
   * Reads the newest row of a project as a run does, and throws it away. @param whole whether the model has no interval
   * column: then it is any row; default false @returns warnings: those of `describe`, and why none was read although
   * there may be one @throws SluiceError as a run does
   */
  tryRow(
    model: string,
    tenantKey: string,
    ofOthers: boolean,
    signal: AbortSignal,
    whole?: boolean,
  ): Promise<readonly string[]>;
  inspect(signal: AbortSignal): Promise<SourceState>;
  /** As clauses: `is a superuser`. */
  findExcessRights(signal: AbortSignal): Promise<readonly string[]>;
}
