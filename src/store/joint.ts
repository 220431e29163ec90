import type { CommitRequest } from './attempt-steps.ts';
import type { CompletedRun, CompletionOutcome } from './completions.ts';
import type { Lease } from './lease.ts';
import type { ClaimedRun, ClaimRequest } from './leases.ts';

/** Sends what runs of one moment ask for in one statement, which waits for no lock. */
export interface Joint<Item, Result> {
  /** @returns null if the item's rows are locked or change at this moment: send it alone */
  take(item: Item): Promise<Result | null>;
}

/** The statements that the runs of a worker share. */
export interface JointStatements {
  /** As `claimFree`. */
  readonly claims: Joint<ClaimRequest, ClaimedRun>;
  /** As `beginReadings`. */
  readonly readings: Joint<Lease, boolean>;
  /** As `beginCommits`. */
  readonly commits: Joint<CommitRequest, boolean>;
  /** As `completeRuns`. */
  readonly completions: Joint<CompletedRun, CompletionOutcome>;
}
