import type { Column, RowBlock } from '../domain/row-block.ts';
import type { DataInterval, Instant } from '../domain/time.ts';

/** What a run asks of a source. */
export interface SourceRequest {
  readonly model: string;
  readonly teamId: number;
  /** Rows whose interval column lies in this half-open interval. */
  readonly interval: DataInterval;
  readonly dslQuery: string | null;
  readonly includeEvents: readonly string[] | null;
  readonly excludeEvents: readonly string[] | null;
  /**
   * `rows` by default. `keys`: instead of the rows their keys as text (those of type `as_json` as JSON), in the order of
   * the rows, under columns that say what the keys are in the rows; none where the rows do not hold the keys.
   */
  readonly select?: 'rows' | 'keys';
}

/** A part of the interval, read on its own; slices tile the interval in ascending order. */
export type Slice = DataInterval;

/**
 * One consistent view of an interval's rows: count and rows come from one REPEATABLE READ READ ONLY
 * transaction. Must be closed.
 */
export interface SourceSnapshot {
  readonly columns: readonly Column[];
  /** Rows of the interval in this snapshot. */
  readonly totalCount: number;
  /** `pg_current_snapshot()` of the transaction, kept with the run for the look-back. */
  readonly snapshot: string;
  readonly slices: readonly Slice[];
  /** Rows of the slices in this snapshot that end at or before `end`. */
  countUntil(end: Instant): Promise<number>;
  /**
   * Pull-based: reads no further ahead than the consumer asks. A block may be read until the next one
   * is asked for; its memory is used again. Throws SluiceError `source.*`.
   */
  read(slice: Slice, signal: AbortSignal): AsyncIterable<RowBlock>;
  close(): Promise<void>;
}

/** Whether all rows of an interval can be seen. */
export interface Settlement {
  readonly settled: boolean;
  /** The transactions still alive at the bound; none where it settled. */
  readonly pending: readonly string[];
}

export interface Source {
  /**
   * Waits until every transaction that could still add rows to an interval that ended at `end` has
   * ended, or until the bound.
   */
  settle(end: Instant, signal: AbortSignal): Promise<Settlement>;
  /**
   * Whether every transaction that an interval was not settled for has ended since. Never, where
   * the server cannot tell.
   */
  hasEnded(pending: readonly string[], signal: AbortSignal): Promise<boolean>;
  /**
   * Whether rows came into the interval after `snapshot`, that a snapshot taken now would export.
   *
   * @param totalCount rows of the interval in `snapshot`
   */
  hasLateRows(
    request: SourceRequest,
    snapshot: string,
    totalCount: number,
    signal: AbortSignal,
  ): Promise<boolean>;
  /** Throws SluiceError `source.*` or `query.*`. */
  open(request: SourceRequest, signal: AbortSignal): Promise<SourceSnapshot>;
}
