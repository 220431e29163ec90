import { Grouped } from '../domain/grouped.ts';
import { beginCommits, beginReadings } from '../store/attempt-steps.ts';
import { completeRuns } from '../store/completions.ts';
import type { Sql } from '../store/database.ts';
import type { JointStatements } from '../store/joint.ts';
import { claimFree } from '../store/leases.ts';
import { isDatabaseUnavailable } from '../store/unavailable.ts';

/** Lets the runs of a process share statements. Each run keeps its own lease, fence and outcome. */
export function openJointStatements(db: Sql, leaseMs: number): JointStatements {
  return {
    claims: new Grouped((requests) => claimFree(db, requests, leaseMs), isDatabaseUnavailable),
    readings: new Grouped((leases) => beginReadings(db, leases), isDatabaseUnavailable),
    commits: new Grouped((requests) => beginCommits(db, requests, leaseMs), isDatabaseUnavailable),
    completions: new Grouped((runs) => completeRuns(db, runs), isDatabaseUnavailable),
  };
}
