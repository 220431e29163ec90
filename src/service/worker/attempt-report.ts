import type { ErrorCode } from '../../foundation/domain/errors.ts';
import type { ClaimedRun } from '../../state/store/runs/claims.ts';

/** How an attempt ended. `skipped`: there was nothing to claim. */
export type AttemptEnd = 'completed' | 'failed' | 'released' | 'lost' | 'skipped';

/** The result of a job that asked for an attempt. */
export interface AttemptReport {
  readonly end: AttemptEnd;
  /** The run that was claimed. */
  readonly run: ClaimedRun | null;
  /** Why it failed. */
  readonly fault: ErrorCode | null;
  /** What it committed. */
  readonly rows: number;
  readonly bytes: number;
  /** Rows that it left out of the data files. */
  readonly rejectedRows: number;
}
