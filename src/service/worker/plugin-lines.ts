import type { LogLevel } from '../../state/store/exports/log-entries.ts';
import type { RunLog } from './run-log.ts';

/** What a stored line takes beside its text. */
const bytesPerLine = 200;

interface Line {
  readonly level: LogLevel;
  readonly message: string;
}

/**
 * Lines that own plugins write to the log of a run. They count as what their organization stores in a day; once that is
 * used up, they are left out.
 */
export class PluginLines {
  readonly #log: Pick<RunLog, 'add'>;
  readonly #reserve: (bytes: number) => Promise<boolean>;
  #waiting: Line[] = [];
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
