import type { Policy } from '../domain/policy.ts';
import type { SecretBox } from '../security/secret-box.ts';
import type { Database } from '../store/database.ts';

/**
 * Wakes the workers. Best effort and never throws: what was recorded in Postgres is done in any
 * case, a ring only makes it sooner.
 */
export interface Doorbell {
  /** Runs wait in the outbox. */
  runsWaiting(): void;
  /** A backfill was started or has room for more runs. */
  backfillWaiting(backfillId: string): void;
}

/** What every use case works with. */
export interface Context {
  readonly db: Database;
  readonly policy: Policy;
  readonly secrets: SecretBox;
  readonly doorbell: Doorbell;
}
