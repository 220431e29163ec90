import { SluiceError } from '../../foundation/domain/errors.ts';
import { inSpan } from '../../foundation/domain/traces.ts';
import { failpoint } from '../../foundation/failpoints/failpoint.ts';
import type { UploadJournal } from '../../rows/destinations/destination.ts';
import type { RunPorts } from '../../rows/pipeline/interval-job.ts';
import { namedBy } from '../../rows/pipeline/leftovers.ts';
import type { ClaimedRun } from '../../state/store/runs/claims.ts';
import { knowsCommit } from '../../state/store/files/known-commits.ts';
import { confirmLease, ownsUploads, raiseGeneration } from '../../state/store/runs/leases.ts';
import { withdrawFiles } from '../../state/store/files/leftover-files.ts';
import type { RunStatements } from '../../state/store/runs/run-statements.ts';
import { type RunProgress, recordProgress } from '../../state/store/runs/runs.ts';
import { countStoredBytes } from '../../state/store/tenants/stored-bytes.ts';
import { readNow } from '../../state/store/intervals/ticks.ts';
import {
  forgetUpload,
  noteUpload,
  type OpenUpload,
  recordUpload,
  recordUploadParts,
} from '../../state/store/files/uploads.ts';
import type { Context } from '../use-cases/context.ts';
import { KnownLease } from './known-lease.ts';
import { namingOwnFaults } from './own-fault.ts';
import { PluginLines } from './plugin-lines.ts';
import type { RunLog } from './run-log.ts';

const progressEveryMs = 2_000;

/** The first part of an upload is recorded if it has at least this many bytes. The next attempt need not send it again then. */
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
  { db, policy, traces }: Pick<Context, 'db' | 'policy' | 'traces'>,
  statements: RunStatements,
  run: ClaimedRun,
  log: RunLog,
): OpenPorts {
  const lease = new KnownLease(policy.leaseMs, () => confirmLease(db, run, policy.leaseMs));
  let unwritten: RunProgress | null = null;
  let writtenAt = performance.now();
  const writeProgress = async () => {
    if (unwritten === null) return;
    const progress = { ...unwritten, cursor: readCursor() };
    unwritten = null;
    writtenAt = performance.now();
    if (!(await recordProgress(db, run, progress))) throw lost();
  };
  const perDay = policy.maxStoredBytesPerDay;
  const lines = new PluginLines(log, (bytes) => countStoredBytes(db, run.teamId, bytes, perDay));
  const { journal, readCursor } = openJournal(db, run);
  const confirmCommit: RunPorts['confirmCommit'] = async (intent) => {
    const { generation, manifestKey } = intent;
    const { destinationVersion } = run;
    const keys = namedBy(intent);
    // Nothing becomes readable. The record checks the fence.
    if (keys.length === 0) return;
    const commit = { generation, destinationVersion, manifestKey, keys };
    await lease.renewBy(() => statements.beginCommit(run, intent, commit));
  };
  const ports: RunPorts = {
    journal: namingOwnFaults(journal),
    ...namingOwnFaults({ confirmCommit }),
    async progressed({ totalRows, rows, bytes, files }) {
      unwritten = {
        recordsTotalCount: totalRows,
        recordsCompleted: rows,
        bytesExported: bytes,
        files,
        cursor: readCursor(),
      };
      if (performance.now() - writtenAt >= progressEveryMs) await writeProgress();
    },
    confirmLease: () => lease.confirm(),
    lease,
    ownsUploads: () => ownsUploads(db, run, policy.leaseMs),
    async raiseGeneration(floor) {
      const generation = await raiseGeneration(db, run, floor);
      if (generation === null) throw lost();
      return generation;
    },
    readNow: () => readNow(db),
    knowsCommit: (...commit) => knowsCommit(db, run, ...commit),
    withdraw: (keys) => withdrawFiles(db, run, keys),
    log: (level, message) => log.add(level, message),
    logOfPlugin: (level, message) => lines.add(level, message),
    step: (name, work) => inSpan(traces, name, {}, work),
  };
  return { ports, writeProgress, endPluginLines: () => lines.end() };
}

const lost = () => new SluiceError('run.lease_lost');

/** Records what a run uploads. The cursor is the file that was sent last, and how many parts of it. */
function openJournal(
  db: Context['db'],
  run: ClaimedRun,
): { readonly journal: UploadJournal; readCursor(): unknown } {
  const sent = new SentBytes(run);
  let cursor: unknown = run.cursor;
  /** The file whose parts were recorded last. */
  let begunKey: string | null = null;
  /** Keys whose note was made for the upload that is beginning. */
  const ownNotes = new Set<string>();
  const journal: UploadJournal = {
    async starting(key) {
      const note = await noteUpload(db, run, key);
      if (note === null) throw lost();
      if (note === 'new') ownNotes.add(key);
      else ownNotes.delete(key);
    },
    async started(upload, alone) {
      const isOnly = alone && ownNotes.has(upload.key);
      if (!(await recordUpload(db, run, upload, isOnly))) throw lost();
    },
    async progressed(upload) {
      const [first] = upload.parts;
      // To send a small file again costs less than to record that it was sent.
      if (upload.parts.length > 1 || (first?.bytes ?? 0) >= minRecordedBytes) {
        await recordUploadParts(db, run, upload, sent.with(upload));
      }
      cursor = { key: upload.key, parts: upload.parts.length };
      // Parts that arrive together are recorded together.
      if (begunKey !== upload.key) await failpoint('first_part');
      begunKey = upload.key;
      if (upload.parts.length > 1) await failpoint('mid_part');
    },
    ended: (upload) => forgetUpload(db, run.runId, upload),
  };
  return { journal, readCursor: () => cursor };
}

/** How much of its files a lineage has sent: what its earlier attempts recorded counts too. */
class SentBytes {
  readonly #byUpload = new Map<string, number>();

  constructor({ uploads, fileGeneration }: ClaimedRun) {
    for (const upload of uploads) if (upload.generation === fileGeneration) this.with(upload);
  }

  /** @returns the sum after parts of an upload were sent */
  with({ uploadId, parts }: Pick<OpenUpload, 'uploadId' | 'parts'>): number {
    this.#byUpload.set(
      uploadId,
      parts.reduce((sum, part) => sum + part.bytes, 0),
    );
    return [...this.#byUpload.values()].reduce((sum, bytes) => sum + bytes, 0);
  }
}
