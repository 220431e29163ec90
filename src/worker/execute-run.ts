import { randomUUID } from 'node:crypto';
import type { Destination, DestinationOwner, StoreTraits } from '../destinations/destination.ts';
import type { StoredDestination } from '../domain/batch-export.ts';
import { SluiceError, StepFault, toSluiceError } from '../domain/errors.ts';
import type { DestinationConfig, FileSettings } from '../domain/file-settings.ts';
import type { FormatSettings } from '../domain/format-settings.ts';
import { ownStepsOf } from '../domain/recipe.ts';
import { describeInterval } from '../domain/time.ts';
import { inSpan } from '../domain/traces.ts';
import { failpoint } from '../failpoints/failpoint.ts';
import { exportInterval } from '../pipeline/export-interval.ts';
import type { Encoding, IntervalResult, LeftoverFile } from '../pipeline/interval-job.ts';
import type { ReadRows, WithoutRows } from '../pipeline/read-back.ts';
import type { ReadingTurns } from '../pipeline/reading-turns.ts';
import type { Settlement, Source } from '../sources/source.ts';
import { recordStepError } from '../store/chains.ts';
import type { ClaimedRun } from '../store/claims.ts';
import type { NewLogEntry } from '../store/log-entries.ts';
import type { LookBack } from '../store/look-backs.ts';
import type { RunStatements } from '../store/run-statements.ts';
import { isDatabaseUnavailable } from '../store/unavailable.ts';
import { releaseUploads } from '../store/uploads.ts';
import type { Context } from '../use-cases/context.ts';
import { type Completion, recordCompletion } from '../use-cases/runs/complete-run.ts';
import {
  endDeleted,
  recordFault,
  releaseOutgrown,
  releaseRun,
} from '../use-cases/runs/finish-run.ts';
import type { DescribedPlace } from '../use-cases/tenants/advance-offboarding.ts';
import type { AttemptEnd, AttemptReport } from './attempt-report.ts';
import { checkMemory, type RunMemory } from './check-memory.ts';
import type { LeaseKeeper } from './lease-keeper.ts';
import { makeJob } from './make-job.ts';
import { removeReplaced } from './remove-files.ts';
import { retryUntilRecorded } from './retry-until-recorded.ts';
import { type ChildProgram, runAlone } from './run-alone.ts';
import { RunLog } from './run-log.ts';
import { type OpenPorts, openPorts } from './run-ports.ts';
import type { SmallRun } from './small-run.ts';
import type { UriOf } from './table-of.ts';
import { keepNewTraits, tryStore } from './try-store.ts';

/** For the removal of replaced files within a run. */
const removalPatienceMs = 5_000;

/** An export's destination as stored in our tables. */
export interface ExportDestination extends DestinationOwner {
  readonly exportId: string;
  readonly destination: StoredDestination;
}

/** The connectors, joined by the composition root. */
export interface Connectors {
  /** Decrypts the secrets and opens the destination. @param traits what an earlier probe found */
  openDestination(stored: ExportDestination, traits?: StoreTraits | null): Destination;
  readonly uriOf: UriOf;
  /** @throws SluiceError `source.unknown_model` */
  sourceOf(model: string): Source;
  encodingOf(
    files: Pick<FileSettings, 'format' | 'compression'> & Partial<FormatSettings>,
  ): Encoding;
  /** Reads delivered files. */
  readonly readRows: ReadRows;
  /** Makes delivered files again without some of their rows. */
  readonly withoutRows: WithoutRows;
  /** Whether files that a run makes at such a destination can be read again. */
  keepsFiles(type: string): boolean;
  /** Where files go, without secrets; null if such a destination keeps none. */
  placeOf(type: string, config: DestinationConfig): DescribedPlace | null;
  /**
   * Bytes that a run to such a destination may need.
   *
   * @param transforms whether a chain changes its rows
   * @param ownSteps how many steps of it have an organization's own plugin
   */
  memoryOf(
    type: string,
    files: Pick<FileSettings, 'format' | 'compression'>,
    transforms?: boolean,
    ownSteps?: number,
  ): number;
}

/** What an attempt needs, in the worker's process or in one of its own. */
export interface AttemptOptions extends RunMemory {
  readonly context: Context;
  readonly connectors: Connectors;
  /** Between the runs of an organization; none in a process of its own. */
  readonly turns?: ReadingTurns;
  readonly statements: RunStatements;
  readonly onError: (error: unknown, run: ClaimedRun) => void;
}

export interface ExecutorOptions extends AttemptOptions {
  readonly leases: LeaseKeeper;
  /** The worker's name in the lease. */
  readonly workerId: string;
  /** Aborted when the worker shuts down. */
  readonly stopping: AbortSignal;
  /** For runs that get a process of their own. */
  readonly program: ChildProgram;
  readonly onSweepError: (error: unknown) => void;
  readonly onLookBackError: (error: unknown, item: LookBack) => void;
}

/** What a run was admitted by. */
export interface Admission {
  readonly organizationId: string;
  /** For how many steps with an own plugin memory is set aside; a run with more is handed back. */
  readonly ownSteps: number;
  /** What was found before the run was claimed; null: it settles within its attempt. */
  readonly settlement: Settlement | null;
  /** Of a run that got the memory of a small one. */
  readonly small?: SmallRun;
}

/**
 * Executes one attempt of a run: claim, export, record. A run that has ended, was deleted or is held by
 * another worker is skipped, so the same job may be delivered any number of times. A run during which
 * workers have crashed gets a process of its own.
 */
export async function executeRun(
  options: ExecutorOptions,
  runId: string,
  admission: Admission | null = null,
): Promise<AttemptReport> {
  const { context, leases, program } = options;
  const claimedAt = performance.now();
  const run = await inSpan(context.traces, 'claim', {}, () => claim(options, runId));
  if (!run) return { run, end: 'skipped', fault: null, rows: 0, bytes: 0, rejectedRows: 0 };
  if (admission && ownStepsOf(run.chain) > admission.ownSteps) {
    // A config was enabled between the admission and the claim, which pinned it: there is no memory set aside.
    await retryUntilRecorded(() => releaseRun(context, run), AbortSignal.timeout(5_000));
    return { run, end: 'released', fault: null, rows: 0, bytes: 0, rejectedRows: 0 };
  }
  await failpoint('claim');
  const signal = leases.keep(run, claimedAt);
  try {
    return run.crashes >= context.policy.maxSharedCrashes
      ? await runAlone(context, program, run, signal)
      : await executeClaimed(options, run, signal, admission);
  } finally {
    leases.release(run);
  }
}

/**
 * Executes a claimed run in this process.
 *
 * @param signal aborted with the reason when the lease is lost
 */
export async function executeClaimed(
  options: AttemptOptions,
  run: ClaimedRun,
  signal: AbortSignal,
  admission: Admission | null = null,
): Promise<AttemptReport> {
  const { context } = options;
  const nothing = { run, fault: null, rows: 0, bytes: 0, rejectedRows: 0 };
  const log = new RunLog(context.db, run, (error) => options.onError(error, run));
  const open = openPorts(context, options.statements, run, log);
  try {
    log.add('INFO', `Attempt ${run.attempt} started for ${describeInterval(run.interval)}.`);
    if (run.crashes >= context.policy.maxSharedCrashes) {
      log.add(
        'WARNING',
        `Workers crashed ${run.crashes} times while they read for this run, so the next attempt uses a separate process.`,
      );
    }
    const result = await attempt(options, run, open, log, signal, admission);
    if (!result) return { ...nothing, end: 'lost' };
    const { rows, bytes, rejectedRows } = result;
    return { ...nothing, end: 'completed', rows, bytes, rejectedRows };
  } catch (thrown) {
    // The reason of an abort says more than the error that it caused.
    const error = nameFault(signal.aborted ? signal.reason : thrown);
    const outgrown = admission?.small?.hasOutgrown === true;
    const end = await conclude(options, run, error, open, log, signal, outgrown);
    await releaseUploads(context.db, run).catch((caught: unknown) => options.onError(caught, run));
    return { ...nothing, end, fault: end === 'failed' ? error.code : null };
  } finally {
    await open.endPluginLines();
    await log.close();
  }
}

/**
 * If the answer to a claim was lost, the claim is repeated under the same name: no other worker would renew
 * it.
 */
function claim(
  { context: { policy }, statements, workerId }: ExecutorOptions,
  runId: string,
): Promise<ClaimedRun | null> {
  const holder = `${workerId}/${randomUUID()}`;
  return retryUntilRecorded(
    () => statements.claim({ runId, holder }),
    AbortSignal.timeout(policy.leaseMs / 2),
  );
}

/** @returns what is current now, or null if the lease was lost before that was recorded */
async function attempt(
  options: AttemptOptions,
  run: ClaimedRun,
  { ports }: OpenPorts,
  log: RunLog,
  signal: AbortSignal,
  admission: Admission | null,
): Promise<IntervalResult | null> {
  const { context, connectors, turns } = options;
  const opened = connectors.openDestination(run, run.storeTraits);
  const destination = admission?.small?.at(opened) ?? opened;
  let { traits } = destination;
  const keepTraits = async () => {
    const before = traits;
    traits = destination.traits;
    await keepNewTraits(context.db, run, before, destination, log).catch((error: unknown) =>
      options.onError(error, run),
    );
  };
  try {
    // An erasure runs no plugin and reads no source.
    if (run.purpose !== 'erase') checkMemory(options, run);
    const job = { ...(await makeJob(options, run)), settlement: admission?.settlement ?? null };
    const shared = connectors.sourceOf(run.model);
    const read = admission?.small?.of(shared) ?? shared;
    const source = turns && admission ? turns.of(admission.organizationId, read) : read;
    await tryStore(context.db, run, destination, ports.journal, log, signal);
    traits = destination.traits;
    const { result, replaced } = await exportInterval(job, source, destination, ports, signal);
    await keepTraits();
    await failpoint('before_record');
    const completion = await log.hand((entries) =>
      retryUntilRecorded(
        () =>
          inSpan(context.traces, 'record', {}, () =>
            record(options, run, result, replaced, entries),
          ),
        signal,
      ),
    );
    if (!completion) return null;
    await failpoint('before_removal');
    if (!completion.leavesFiles) return result;
    const current = { ...run, ...job, ...result };
    // The run is recorded, but holds its slot. The sweep removes what is left.
    const patience = AbortSignal.any([signal, AbortSignal.timeout(removalPatienceMs)]);
    await removeReplaced(context, destination, current, log, patience).catch((error: unknown) =>
      options.onError(error, run),
    );
    return result;
  } finally {
    await keepTraits();
    await destination.close();
  }
}

function record(
  { statements }: AttemptOptions,
  run: ClaimedRun,
  result: IntervalResult,
  replaced: readonly LeftoverFile[],
  entries: readonly NewLogEntry[],
): Promise<Completion | null> {
  return recordCompletion(statements, run, {
    result: {
      recordsTotalCount: result.totalRows,
      recordsCompleted: result.rows,
      recordsDropped: result.droppedRows ?? 0,
      steps: result.steps ?? [],
      recordsRejected: result.rejectedRows,
      bytesExported: result.bytes,
      files: result.madeFiles,
      cursor: null,
      snapshot: result.snapshot,
      settled: result.settled,
      pending: result.pending,
      keyDigest: result.keyDigest,
      keyCount: result.keyCount,
    },
    receipt: {
      exportId: run.exportId,
      interval: run.interval,
      runId: run.runId,
      destinationVersion: run.destinationVersion,
      generation: result.generation,
      era: result.era,
      manifestKey: result.manifestKey,
      manifestEtag: result.manifestEtag,
      recipe: result.recipe,
      files: result.files,
      rejectedFiles: result.rejectedFiles,
      deliveredDigest: result.deliveredDigest,
      rows: sum(result.files, ({ rows }) => rows),
      bytes: sum(result.files, ({ bytes }) => bytes),
    },
    replaced,
    entries,
  });
}

const sum = <T>(items: readonly T[], value: (item: T) => number): number =>
  items.reduce((total, item) => total + value(item), 0);

/** Sources and destinations throw SluiceErrors, so a bare database error is from our own database. */
function nameFault(thrown: unknown): SluiceError {
  return isDatabaseUnavailable(thrown)
    ? new SluiceError('internal.database_unavailable', undefined, thrown)
    : toSluiceError(thrown);
}

async function conclude(
  options: AttemptOptions,
  run: ClaimedRun,
  error: SluiceError,
  open: OpenPorts,
  log: RunLog,
  signal: AbortSignal,
  outgrown: boolean,
): Promise<AttemptEnd> {
  const { context } = options;
  if (error.code === 'run.cancelled' && run.isDeleted) {
    await retryUntilRecorded(() => endDeleted(context, run), signal);
  }
  if (error.code === 'run.lease_lost' || error.code === 'run.cancelled') return 'lost';
  // Before its end is logged.
  await log.flush();
  if (error.code !== 'internal.database_unavailable') {
    await open.writeProgress().catch((caught: unknown) => options.onError(caught, run));
  }
  if (error.code === 'run.released') {
    const release = outgrown ? releaseOutgrown : releaseRun;
    await retryUntilRecorded(() => release(context, run), AbortSignal.timeout(5_000));
    return 'released';
  }
  options.onError(error, run);
  if (error instanceof StepFault) {
    const { step, detail = '' } = error;
    await retryUntilRecorded(() => recordStepError(context.db, run.teamId, step, detail), signal);
  }
  await retryUntilRecorded(() => recordFault(context, run, error, Math.random()), signal);
  return 'failed';
}
