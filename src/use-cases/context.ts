import type { Config } from '../config/config.ts';
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
  backfillStarted(backfillId: string): void;
  /** A run is to be cancelled wherever it is executed. */
  runCancelled(runId: string): void;
}

/** What every use case works with. */
export interface Context {
  readonly db: Database;
  readonly config: Config;
  readonly secrets: SecretBox;
  readonly doorbell: Doorbell;
}
