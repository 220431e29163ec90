import type { CommitNames } from '../../src/foundation/domain/receipt.ts';
import type { ClaimedRun } from '../../src/state/store/runs/claims.ts';
import type { Transactor } from '../../src/state/store/database/database.ts';
import type { Lease } from '../../src/state/store/runs/run-moves.ts';
import { RunStatements } from '../../src/state/store/runs/run-statements.ts';
import { advanceBackfill as advance } from '../../src/service/use-cases/backfills/advance-backfill.ts';
import type { Context } from '../../src/service/use-cases/context.ts';

/** A claim that shares its statement with no other. */
export const claimRun = (
  db: Transactor,
  runId: string,
  holder: string,
  leaseMs: number,
): Promise<ClaimedRun | null> => new RunStatements(db, leaseMs).claim({ runId, holder });

interface CommitKeys extends Pick<CommitNames, 'generation' | 'manifestKey'> {
  readonly destinationVersion: number;
  /** Including the manifest's. */
  readonly keys: readonly string[];
}

const namesOf = ({ keys, ...rest }: Omit<CommitKeys, 'destinationVersion'>): CommitNames => {
  const files = keys.filter((key) => key !== rest.manifestKey).map((key) => ({ key }));
  return { ...rest, files, rejectedFiles: [] };
};

export const beginCommit = (
  db: Transactor,
  lease: Lease,
  leaseMs: number,
  intent: object,
  { destinationVersion, ...keys }: CommitKeys,
): Promise<boolean> =>
  new RunStatements(db, leaseMs).beginCommit({
    run: { ...lease, destinationVersion },
    intent: { ...intent, ...namesOf(keys) },
  });

export const advanceBackfill = (context: Context, backfillId: string): Promise<number> =>
  advance(context, new RunStatements(context.db, context.policy.leaseMs), backfillId);
