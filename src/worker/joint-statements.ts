import { Grouped } from '../domain/grouped.ts';
import { beginCommits, type CommitRequest } from '../store/attempt-steps.ts';
import { findAdvancing, planFreeRuns } from '../store/backfill-pages.ts';
import { completeRuns } from '../store/completions.ts';
import type { Sql, Transactor } from '../store/database.ts';
import type { Joint } from '../store/joint.ts';
import { type ClaimedRun, type ClaimRequest, claimFree } from '../store/leases.ts';
import { isDatabaseUnavailable } from '../store/unavailable.ts';
import type { JointPages } from '../use-cases/backfills/advance-backfill.ts';
import { type JointCompletions, lockedCompletions } from '../use-cases/runs/complete-run.ts';

/** The statements that the runs of a worker share. */
export interface JointStatements {
  /** As `claimFree`. */
  readonly claims: Joint<ClaimRequest, ClaimedRun>;
  /** As `beginCommits`. */
  readonly commits: Joint<CommitRequest, boolean>;
  readonly completions: JointCompletions;
}

/** Lets the runs of a process share statements. Each run keeps its own lease, fence and outcome. */
export function openJointStatements(db: Transactor, leaseMs: number): JointStatements {
  return {
    claims: new Grouped((requests) => claimFree(db, requests, leaseMs), isDatabaseUnavailable),
    commits: new Grouped((requests) => beginCommits(db, requests, leaseMs), isDatabaseUnavailable),
    completions: {
      free: new Grouped((runs) => completeRuns(db, runs), isDatabaseUnavailable),
      locked: lockedCompletions(db),
    },
  };
}

/** Lets backfills that go on at the same moment share statements. */
export function openJointPages(db: Sql): JointPages {
  return {
    backfills: new Grouped((ids) => findAdvancing(db, ids), isDatabaseUnavailable),
    pages: new Grouped((pages) => planFreeRuns(db, pages), isDatabaseUnavailable),
  };
}
