import { systemClock } from '../../foundation/domain/clock.ts';
import { SluiceError } from '../../foundation/domain/errors.ts';
import { namedBy, type Progress } from '../../foundation/domain/receipt.ts';
import { failpoint } from '../../foundation/failpoints/failpoint.ts';
import type { PutLease, UploadJournal } from '../../rows/destinations/destination.ts';
import type { RunPorts } from '../../rows/pipeline/interval-job.ts';
import type { Database } from '../../state/store/database/database.ts';
import type { LogLevel } from '../../state/store/exports/log-entries.ts';
import { knowsCommit } from '../../state/store/files/known-commits.ts';
import { withdrawFiles } from '../../state/store/files/leftover-files.ts';
import { noteUploads } from '../../state/store/files/upload-places.ts';
import { readElements } from '../../state/store/intervals/elements.ts';
import { readNow } from '../../state/store/intervals/ticks.ts';
import type { ClaimedRun } from '../../state/store/runs/claims.ts';
import type { Lease } from '../../state/store/runs/lease.ts';
import {
  confirmLease,
  raiseGeneration,
  renewLeases,
  whyLost,
} from '../../state/store/runs/leases.ts';
import type { RunStatements } from '../../state/store/runs/run-statements.ts';
import { recordProgress, recordSent } from '../../state/store/runs/runs.ts';
import { countStoredBytes } from '../../state/store/tenants/budgets.ts';
import type { Context } from '../use-cases/context.ts';
import { nameOwnFault, namingOwnFaults } from './own-fault.ts';
import type { RunLog } from './run-log.ts';
import { StepWatch } from './step-watch.ts';

const progressEveryMs = 2_000;

/** A file with fewer bytes than this, which is sent as one part, is not worth a record. */
const minRecordedBytes = 256 * 1024;

export interface OpenPorts {
  readonly ports: RunPorts;
  /** Writes the progress that waits, for a run that does not complete. @throws SluiceError `run.lease_lost` */
  writeProgress(): Promise<void>;
  /** Resolves when the lines of own plugins are in the log, or left out. */
  endPluginLines(): Promise<void>;
}

/** What the pipeline asks of a run. Progress is written by time: a run that ends before costs no write. */
export function openPorts(
  { db, policy }: Pick<Context, 'db' | 'policy'>,
  statements: RunStatements,
  run: ClaimedRun,
  log: RunLog,
  watch = new StepWatch(),
): OpenPorts {
  const lease = new KnownLease(policy.leaseMs, () => confirmLease(db, run, policy.leaseMs));
  let unwritten: Progress | null = null;
  let writtenAt = performance.now();
  const writeProgress = async () => {
    if (unwritten === null) return;
    const progress = unwritten;
    unwritten = null;
    writtenAt = performance.now();
    if (!(await recordProgress(db, run, progress, readCursor()))) throw lost();
  };
  const perDay = policy.maxStoredBytesPerDay;
  const lines = new PluginLines(log, (bytes) => countStoredBytes(db, run.teamId, bytes, perDay));
  const { journal, readCursor } = openJournal({ db, policy }, run, lease);
  const { marker, ...calls } = journal;
  const confirmCommit: RunPorts['confirmCommit'] = async (intent) => {
    // Nothing becomes readable. The record checks the fence.
    if (namedBy(intent).length === 0) return;
    await lease.renewBy(() => statements.beginCommit({ run, intent }));
  };
  const ports: RunPorts = {
    journal: { marker, ...namingOwnFaults(calls) },
    ...namingOwnFaults({ confirmCommit }),
    async progressed(progress) {
      unwritten = progress;
      if (performance.now() - writtenAt >= progressEveryMs) await writeProgress();
    },
    lease,
    async raiseGeneration(floor) {
      const generation = await raiseGeneration(db, run, floor);
      if (generation === null) throw lost();
      return generation;
    },
    readElements: () => readElements(db, run.exportId, run.destinationVersion),
    readNow: () => readNow(db),
    knowsCommit: (...commit) => knowsCommit(db, run, ...commit),
    withdraw: (keys) => withdrawFiles(db, run, keys),
    log: (level, message) => log.add(level, message),
    logOfPlugin: (level, message) => lines.add(level, message),
    at: (step) => watch.enter(step),
  };
  return { ports, writeProgress, endPluginLines: () => lines.end() };
}

const lost = () => new SluiceError('run.lease_lost');

/** Notes that a run uploads, and counts what it has sent. The cursor is the file that was sent last, and how many parts of it. */
function openJournal(
  { db, policy }: Pick<Context, 'db' | 'policy'>,
  run: ClaimedRun,
  lease: KnownLease,
): { readonly journal: UploadJournal; readCursor(): unknown } {
  let cursor: { readonly key: string; readonly parts: number } | null = null;
  let sentBytes = 0;
  let isNoted = false;
  const journal: UploadJournal = {
    marker: `${run.runId}.`,
    async starting() {
      if (isNoted) return lease.extend(false);
      await lease.renewBy(() => noteUploads(db, run, policy.leaseMs));
      isNoted = true;
    },
    async sent(key, part, bytes) {
      sentBytes += bytes;
      if (part > 1 || bytes >= minRecordedBytes) await recordSent(db, run, sentBytes);
      const isFirst = cursor?.key !== key;
      cursor = { key, parts: part };
      if (isFirst) await failpoint('first_part');
      if (part > 1) await failpoint('mid_part');
    },
  };
  return { journal, readCursor: () => cursor };
}

/** What a stored line takes beside its text. */
const bytesPerLine = 200;

interface Line {
  readonly level: LogLevel;
  readonly message: string;
}

/** Lines of own plugins for the log of a run. What is above the bytes of their organization for the day is left out. */
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

interface LeaseKeeperOptions {
  readonly db: Database;
  readonly leaseMs: number;
  readonly onError: (error: unknown) => void;
}

interface Held {
  readonly lease: Lease;
  readonly abort: AbortController;
  /** What its attempt is doing; null: it does not say it. */
  readonly watch: Pick<StepWatch, 'current'> | null;
  /** When the lease has certainly expired, by the monotonic clock of this process. */
  expiresAt: number;
}

/**
 * Renews the leases of all runs of this worker with one heartbeat. The signal of a run says that its lease is lost,
 * cancelled, or could not be renewed before another worker may take it.
 */
export class LeaseKeeper {
  readonly #options: LeaseKeeperOptions;
  readonly #held = new Map<string, Held>();
  readonly #timer: NodeJS.Timeout;
  readonly #everyMs: number;
  #beating = false;
  #released = false;

  constructor(options: LeaseKeeperOptions) {
    this.#options = options;
    // Often enough that a cancellation is noticed within two seconds.
    this.#everyMs = Math.min(options.leaseMs / 4, 2_000);
    this.#timer = setInterval(() => void this.#beat(), this.#everyMs);
  }

  /**
   * @param claimedAt `performance.now()` before the claim
   * @param watch the heartbeat says what it sees
   * @returns aborted, with the SluiceError as its reason, when the lease is lost
   */
  keep(lease: Lease, claimedAt: number, watch: Held['watch'] = null): AbortSignal {
    const abort = new AbortController();
    const expiresAt = claimedAt + this.#options.leaseMs;
    this.#held.set(lease.runId, { lease, abort, watch, expiresAt });
    if (this.#released) abort.abort(new SluiceError('run.released'));
    return abort.signal;
  }

  release(lease: Lease): void {
    const held = this.#held.get(lease.runId);
    if (held?.lease.fence === lease.fence) this.#held.delete(lease.runId);
  }

  /** Makes every run stop and hand itself back, including those claimed from now on. */
  releaseAll(): void {
    this.#released = true;
    for (const { abort } of this.#held.values()) abort.abort(new SluiceError('run.released'));
  }

  close(): void {
    clearInterval(this.#timer);
  }

  async #beat(): Promise<void> {
    // Also while an answer is awaited: a Postgres that hangs renews nothing.
    this.#expire();
    if (this.#beating || this.#held.size === 0) return;
    this.#beating = true;
    try {
      await this.#renew();
    } catch (error) {
      this.#options.onError(error);
    } finally {
      this.#beating = false;
    }
  }

  async #renew(): Promise<void> {
    const { db, leaseMs } = this.#options;
    const all = [...this.#held.values()];
    const askedAt = performance.now();
    const beats = all.map(({ lease, watch }) => ({ ...lease, step: watch?.current() ?? null }));
    const renewed = await renewLeases(db, beats, leaseMs);
    for (const held of all) {
      if (renewed.has(held.lease.runId)) {
        held.expiresAt = askedAt + leaseMs;
      } else if (this.#held.get(held.lease.runId) === held) {
        const why = await whyLost(db, held.lease);
        held.abort.abort(new SluiceError(why === 'cancelled' ? 'run.cancelled' : 'run.lease_lost'));
      }
    }
  }

  /** Also expires leases that would run out before the next check; that check may itself be late. */
  #expire(): void {
    const soon = performance.now() + 1.5 * this.#everyMs;
    for (const held of this.#held.values()) {
      if (soon >= held.expiresAt) held.abort.abort(new SluiceError('run.lease_lost'));
    }
  }
}

/** The monotonic clock stops while a machine sleeps or is paused. The clock of the host may be set back. */
const clocks = [() => performance.now(), () => systemClock.now()];

/** Less than this share of a lease may be too little for a put. */
const enough = 0.5;

/** A run's lease, as far as this process knows it without a question to our database. */
export class KnownLease implements PutLease {
  readonly #leaseMs: number;
  readonly #ask: () => Promise<boolean>;
  readonly #clocks: readonly (() => number)[];
  /** When it ends, by each clock. */
  #ends: readonly number[];

  /**
   * @param ask extends the lease in our database for `leaseMs`; false: it is lost
   * @param readers clocks in ms
   */
  constructor(leaseMs: number, ask: () => Promise<boolean>, readers = clocks) {
    this.#leaseMs = leaseMs;
    this.#ask = ask;
    this.#clocks = readers;
    this.#ends = readers.map(() => Number.NEGATIVE_INFINITY);
  }

  holds(): boolean {
    return this.#lasts(0);
  }

  async extend(always: boolean): Promise<void> {
    if (!always && this.#lasts(enough * this.#leaseMs)) return;
    await this.renewBy(this.#ask).catch((error: unknown) => {
      throw nameOwnFault(error);
    });
  }

  /**
   * @param ask as of the constructor
   * @throws SluiceError `run.lease_lost`
   */
  async renewBy(ask: () => Promise<boolean>): Promise<void> {
    const times = this.#clocks.map((read) => read());
    if (!(await ask())) throw new SluiceError('run.lease_lost');
    this.#ends = times.map((at) => at + this.#leaseMs);
  }

  #lasts(ms: number): boolean {
    return this.#clocks.every((read, index) => read() + ms < (this.#ends[index] ?? 0));
  }
}
