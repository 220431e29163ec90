import type { Policy } from '../../foundation/domain/policy.ts';
import type { SecretBox } from '../../foundation/security/secret-box.ts';
import type { OwnSteps } from '../../rows/transforms/own-steps.ts';
import { joinTransaction, type Transactor } from '../../state/store/database/database.ts';

/** Notifies the workers. Never throws: they find the work in Postgres anyway, and this makes it sooner. */
export interface Doorbell {
  runsWaiting(): void;
  /** A backfill was started or has room for more runs. */
  backfillWaiting(backfillId: string): void;
}

/** Who acts: the API key of a request, or the command line (null). */
export interface Actor {
  readonly organizationId: string;
  readonly keyId: string | null;
}

export interface Context {
  readonly db: Transactor;
  readonly policy: Policy;
  readonly secrets: SecretBox;
  readonly doorbell: Doorbell;
  readonly ownSteps: OwnSteps;
}

/** Runs `work` in one transaction, and notifies the workers after the commit. */
export async function inOneTransaction<T>(
  { db, doorbell, ...rest }: Context,
  work: (context: Context) => Promise<T>,
): Promise<T> {
  const notices: (() => void)[] = [];
  const later: Doorbell = {
    runsWaiting: () => notices.push(() => doorbell.runsWaiting()),
    backfillWaiting: (id) => notices.push(() => doorbell.backfillWaiting(id)),
  };
  const result = await db.transaction((tx) =>
    work({ ...rest, db: joinTransaction(tx), doorbell: later }),
  );
  for (const notify of notices) notify();
  return result;
}
