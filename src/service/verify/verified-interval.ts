import type { Destination } from '../../rows/destinations/destination.ts';
import type { LookBackHours } from '../../foundation/domain/policy.ts';
import type { Recipe } from '../../foundation/domain/recipe.ts';
import type { ReadRows } from '../../rows/pipeline/read-back.ts';
import type { DeletesOf, RenderedInterval } from '../../rows/pipeline/render-interval.ts';
import type { Source, SourceRequest } from '../../rows/sources/source.ts';
import type { Sql } from '../../state/store/database/database.ts';
import type { Receipt } from '../../state/store/intervals/receipts.ts';
import type { VerifiedExport } from '../../state/store/intervals/verify-queries.ts';
import type { Finding } from './finding.ts';
import type { LookUp } from './source-keys.ts';

export interface VerifiedInterval {
  readonly sql: Sql;
  readonly batchExport: VerifiedExport;
  readonly destination: Destination;
  readonly source: Source;
  readonly lookUp: LookUp;
  readonly readRows: ReadRows;
  readonly renderAgain: RenderAgain;
  /** Of mode changes: its elements are replayed; null or missing: they are only counted. */
  readonly replay?: Replay | null;
  /** The hours after its end in which an interval is looked back at, if its export does not say it. */
  readonly lookBackHours: LookBackHours;
  readonly signal: AbortSignal;
}

/** The elements of a changing table, which are compared with the source together. */
export interface Replay {
  /** False: it is before the base, or came after the comparison was opened. */
  takes(receipt: Receipt): boolean;
  /** Reads the files of an element. @returns what is wrong with them */
  read(interval: VerifiedInterval, receipt: Receipt): Promise<readonly string[]>;
}

export interface RowSums {
  /** Rows that came after the interval was read, and that a look-back adds. */
  readonly late: number;
  /** Rows of the files that the source no longer has, or that the query no longer selects. */
  readonly gone: number;
  /** Rows of the files that are in another interval of the source now. */
  readonly moved: number;
  /** Rows that are gone or moved: they were too many to look up each. */
  readonly goneOrMoved: number;
  /** Rows of a changing table that changed after the newest element: the next one has them. */
  readonly pending: number;
}

export const noSums: RowSums = { late: 0, gone: 0, moved: 0, goneOrMoved: 0, pending: 0 };
export const rowSums = Object.keys(noSums) as (keyof RowSums)[];

export interface IntervalAnswers extends RowSums {
  readonly findings: readonly Finding[];
  /** Which rows the source no longer has in the interval, as a sentence each. */
  readonly remarks: readonly string[];
  /** Why its rows cannot be compared with the source; null if they were. */
  readonly unproven: string | null;
  readonly onlyCounted: boolean;
  readonly isExpired: boolean;
}

export const noAnswers: IntervalAnswers = {
  ...noSums,
  findings: [],
  remarks: [],
  unproven: null,
  onlyCounted: false,
  isExpired: false,
};

/** Makes the files again by the chain of the recipe. @throws SluiceError `transformation.invalid` if a step cannot run */
export type RenderAgain = (
  receipt: Receipt,
  recipe: Recipe,
  request: SourceRequest,
  folder: string,
  signal: AbortSignal,
  deletesOf?: DeletesOf,
) => Promise<RenderedInterval>;
