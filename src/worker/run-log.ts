import type { Sql } from '../store/database.ts';
import type { ClaimedRun } from '../store/leases.ts';
import { appendLogEntries, type LogLevel, type NewLogEntry } from '../store/log-entries.ts';

/** The log of one run for its owner: lines are written in order and soon, without delaying the run. */
export class RunLog {
  readonly #db: Sql;
  readonly #run: ClaimedRun;
  readonly #onError: (error: unknown) => void;
  #waiting: NewLogEntry[] = [];
  #writing: Promise<void> | null = null;

  constructor(db: Sql, run: ClaimedRun, onError: (error: unknown) => void) {
    this.#db = db;
    this.#run = run;
    this.#onError = onError;
  }

  add(level: LogLevel, message: string): void {
    const { teamId, exportId, runId } = this.#run;
    this.#waiting.push({ teamId, exportId, runId, level, message });
    this.#writing ??= this.#write();
  }

  /** Resolves once every line is written or given up. */
  async flush(): Promise<void> {
    while (this.#writing) await this.#writing;
  }

  async #write(): Promise<void> {
    // Lines added in the same turn are written together.
    await Promise.resolve();
    while (this.#waiting.length > 0) {
      const entries = this.#waiting;
      this.#waiting = [];
      await appendLogEntries(this.#db, entries).catch(this.#onError);
    }
    this.#writing = null;
  }
}
