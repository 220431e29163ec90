import { beginCommits, beginReadings } from '../store/attempt-steps.ts';
import { completeRuns } from '../store/completions.ts';
import type { Sql } from '../store/database.ts';
import type { JointStatements } from '../store/joint.ts';
import { claimFree } from '../store/leases.ts';
import { Grouped } from './grouped.ts';

/** Lets the runs of a process share statements. Each run keeps its own lease, fence and outcome. */
export function openJointStatements(db: Sql, leaseMs: number): JointStatements {
  return {
    claims: new Grouped((requests) => claimFree(db, requests, leaseMs)),
    readings: new Grouped((leases) => beginReadings(db, leases)),
    commits: new Grouped((requests) => beginCommits(db, requests, leaseMs)),
    completions: new Grouped((runs) => completeRuns(db, runs)),
  };
}
