import type { ClaimedRun } from '../../state/store/runs/claims.ts';
import type { Sql } from '../../state/store/database/database.ts';
import {
  appendLogEntries,
  type LogLevel,
  type NewLogEntry,
} from '../../state/store/exports/log-entries.ts';

/** A run that ends within this time writes its lines with its end. */
const writeAfterMs = 2_000;

interface Line {
  readonly level: LogLevel;
  readonly message: string;
  /** By the monotonic clock. */
  readonly at: number;
}

/** The log of one run for its owner: lines are written in order and soon, without delaying the run. */
export class RunLog {
  readonly #db: Sql;
  readonly #run: ClaimedRun;
  readonly #onError: (error: unknown) => void;
  #waiting: Line[] = [];
  #writing: Promise<void> | null = null;
  #timer: NodeJS.Timeout | null = null;

  constructor(db: Sql, run: ClaimedRun, onError: (error: unknown) => void) {
    this.#db = db;
    this.#run = run;
    this.#onError = onError;
  }

  add(level: LogLevel, message: string): void {
    this.#waiting.push({ level, message, at: performance.now() });
    this.#timer ??= setTimeout(() => void this.flush(), writeAfterMs).unref();
  }

  /** Resolves once every line is written or given up. */
  async flush(): Promise<void> {
    this.#stopTimer();
    while (this.#writing || this.#waiting.length > 0) {
      this.#writing ??= this.#write();
      await this.#writing;
    }
  }

  /** Lets `write` write the lines that wait, and a last one. If it fails or gives null, those wait again. */
  async hand<T>(
    message: string,
    write: (entries: readonly NewLogEntry[]) => Promise<T | null>,
  ): Promise<T | null> {
    this.#stopTimer();
    while (this.#writing) await this.#writing;
    const handed = this.#waiting;
    this.#waiting = [];
    let written: T | null = null;
    try {
      const last = { level: 'INFO' as const, message, at: performance.now() };
      written = await write(this.#entriesOf([...handed, last]));
    } finally {
      if (written === null) this.#waiting = [...handed, ...this.#waiting];
    }
    return written;
  }

  async close(): Promise<void> {
    await this.flush();
    this.#stopTimer();
  }

  async #write(): Promise<void> {
    const lines = this.#waiting;
    this.#waiting = [];
    await appendLogEntries(this.#db, this.#entriesOf(lines)).catch(this.#onError);
    this.#writing = null;
  }

  #entriesOf(lines: readonly Line[]): NewLogEntry[] {
    const { teamId, exportId, runId } = this.#run;
    const now = performance.now();
    return lines.map(({ at, ...line }) => ({ teamId, exportId, runId, ...line, ageMs: now - at }));
  }

  #stopTimer(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
  }
}

/** Bytes of a stored line beside its text. */
const bytesPerLine = 200;

/** Lines of own plugins for the log of a run. What is above the bytes of their organization for the day is left out. */
export class PluginLines {
  readonly #log: Pick<RunLog, 'add'>;
  readonly #reserve: (bytes: number) => Promise<boolean>;
  #waiting: Pick<Line, 'level' | 'message'>[] = [];
  #work: Promise<void> | null = null;
  #omitted = 0;

  /** @param reserve counts bytes; false if the organization may not store them today */
  constructor(log: Pick<RunLog, 'add'>, reserve: (bytes: number) => Promise<boolean>) {
    this.#log = log;
    this.#reserve = reserve;
  }

  add(level: LogLevel, message: string): void {
    this.#waiting.push({ level, message });
    this.#work ??= this.#pass();
  }

  /** Resolves when every line is in the log, or left out. */
  async end(): Promise<void> {
    await this.#work;
    if (this.#omitted === 0) return;
    const detail = `${this.#omitted} lines of plugins are not in this log: the organization has stored as much as it may in a day. Ask your operator to raise MAX_STORED_MIB_PER_DAY.`;
    this.#omitted = 0;
    this.#log.add('WARNING', detail);
  }

  async #pass(): Promise<void> {
    while (this.#waiting.length > 0) {
      const lines = this.#waiting;
      this.#waiting = [];
      const texts = lines.map(({ message }) => Buffer.byteLength(message) + bytesPerLine);
      // A database that does not answer now gets the lines later, like all others.
      const may = await this.#reserve(texts.reduce((sum, one) => sum + one, 0)).catch(() => true);
      if (may) for (const { level, message } of lines) this.#log.add(level, message);
      else this.#omitted += lines.length;
    }
    this.#work = null;
  }
}
