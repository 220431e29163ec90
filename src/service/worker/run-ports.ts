import { SluiceError } from '../../foundation/domain/errors.ts';
import { failpoint } from '../../foundation/failpoints/failpoint.ts';
import type { UploadJournal } from '../../rows/destinations/destination.ts';
import type { RunPorts } from '../../rows/pipeline/interval-job.ts';
import { namedBy, type Progress } from '../../foundation/domain/receipt.ts';
import type { ClaimedRun } from '../../state/store/runs/claims.ts';
import { knowsCommit } from '../../state/store/files/known-commits.ts';
import { confirmLease, raiseGeneration } from '../../state/store/runs/leases.ts';
import { withdrawFiles } from '../../state/store/files/leftover-files.ts';
import type { RunStatements } from '../../state/store/runs/run-statements.ts';
import { recordProgress, recordSent } from '../../state/store/runs/runs.ts';
import { countStoredBytes } from '../../state/store/tenants/budgets.ts';
import { readElements } from '../../state/store/intervals/elements.ts';
import { readNow } from '../../state/store/intervals/ticks.ts';
import { noteUploads } from '../../state/store/files/upload-places.ts';
import type { Context } from '../use-cases/context.ts';
import { KnownLease } from './lease-keeper.ts';
import { namingOwnFaults } from './own-fault.ts';
import type { RunLog } from './run-log.ts';
import type { LogLevel } from '../../state/store/exports/log-entries.ts';
import { StepWatch } from './step-watch.ts';

const progressEveryMs = 2_000;

/** A file with fewer bytes than this, which is sent as one part, is not worth a record. */
const minRecordedBytes = 256 * 1024;

export interface OpenPorts {
  readonly ports: RunPorts;
  /**
   * Writes the progress that was not written yet, for a run that does not complete.
   *
   * @throws SluiceError `run.lease_lost`
   */
  writeProgress(): Promise<void>;
  /** Resolves when the lines of own plugins are in the log, or left out. */
  endPluginLines(): Promise<void>;
}

/**
 * What the pipeline asks of a run. Progress is for people who look, so it is written by time; a run that ends
 * before costs no write.
 */
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
    confirmLease: () => lease.confirm(),
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
