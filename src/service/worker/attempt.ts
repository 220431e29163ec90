import type { Destination, UploadJournal } from '../../rows/destinations/destination.ts';
import {
  errorCatalogue,
  isErrorCode,
  SluiceError,
  toSluiceError,
} from '../../foundation/domain/errors.ts';
import { namedBy, type Progress } from '../../foundation/domain/receipt.ts';
import { readsSource } from '../../foundation/domain/run.ts';
import { isKept } from '../../state/store/intervals/kept-snapshots.ts';
import { describeInterval } from '../../foundation/domain/time.ts';
import { failpoint } from '../../foundation/failpoints/failpoint.ts';
import { type ExportedInterval, exportInterval } from '../../rows/pipeline/export-interval.ts';
import type { IntervalJob, IntervalSource, RunPorts } from '../../rows/pipeline/interval-job.ts';
import type { Settlement } from '../../rows/sources/source.ts';
import type { ClaimedRun } from '../../state/store/runs/claims.ts';
import type { NewLogEntry } from '../../state/store/exports/log-entries.ts';
import type { CompletionOutcome } from '../../state/store/runs/completions.ts';
import type { RunStatements } from '../../state/store/runs/run-statements.ts';
import type { Context } from '../use-cases/context.ts';
import { handOver } from '../use-cases/runs/finish-run.ts';
import { type AttemptReport, endAfter } from './attempt-end.ts';
import { checkMemory, type Connectors } from './connectors.ts';
import { KnownLease } from './leases.ts';
import { nameOwnFault, namingOwnFaults, retryUntilRecorded } from './own-fault.ts';
import { removeReplaced } from './remove-files.ts';
import { PluginLines, RunLog } from './run-log.ts';
import { StepWatch } from './step-watch.ts';
import type { Ticket } from '../admission/admission.ts';
import { keepNewTraits, tryStore } from './try-store.ts';
import { type FileSettings, readFileSettings } from '../../foundation/domain/file-settings.ts';
import { type KeyNames, keyNames, tailOf } from '../../foundation/domain/file-name.ts';
import { settingsOfRecipe } from '../../foundation/domain/format-settings.ts';
import { renderKeyTemplate } from '../../foundation/domain/key-template.ts';
import { stemOf } from '../../foundation/domain/object-keys.ts';
import { knowsCommit } from '../../state/store/files/known-commits.ts';
import { listFormerManifests, withdrawFiles } from '../../state/store/files/leftover-files.ts';
import { noteUploads } from '../../state/store/files/upload-places.ts';
import { readElements } from '../../state/store/intervals/elements.ts';
import { readNow } from '../../state/store/intervals/ticks.ts';
import { confirmLease, raiseGeneration } from '../../state/store/runs/leases.ts';
import { recordProgress, recordSent } from '../../state/store/runs/runs.ts';
import { countStoredBytes } from '../../state/store/tenants/budgets.ts';
import { readSigner } from '../use-cases/installation/signing.ts';
import { openErased } from '../use-cases/runs/erase-intervals.ts';
import { sequenceOf, sourceRequestOf } from '../use-cases/runs/source-request.ts';
import { openChain } from '../use-cases/transformations/open-chain.ts';

/** For the removal of replaced files within a run. */
const removalPatienceMs = 5_000;

const lookEveryMs = 10_000;

/** All that an attempt needs, in the worker's process or in one of its own. */
export interface AttemptOptions {
  readonly context: Context;
  readonly statements: RunStatements;
  readonly connectors: Connectors;
  /** Memory of all runs of a worker together, without that of the worker itself. */
  readonly memoryBytes: number;
  readonly onError: (error: unknown, run: ClaimedRun) => void;
}

export interface Admitted {
  readonly ticket: Ticket;
  /** The settlement that was found before the run was claimed; null: it settles within its attempt. */
  readonly settlement: Settlement | null;
}

/** One attempt of a claimed run: `prepare`, `exportInterval`, `record`, `clean`; after a fault `endAfter`. */
export class Attempt {
  readonly #options: AttemptOptions;
  readonly #run: ClaimedRun;
  readonly #signal: AbortSignal;
  readonly #admitted: Admitted | null;
  readonly #log: RunLog;
  readonly #open: ReturnType<typeof openPorts>;
  readonly #watch: StepWatch;

  /** @param signal aborted with the reason when the lease is lost @param admitted null in a process of its own */
  constructor(
    options: AttemptOptions,
    run: ClaimedRun,
    signal: AbortSignal,
    admitted: Admitted | null,
    watch = new StepWatch(),
  ) {
    this.#options = options;
    this.#run = run;
    this.#signal = signal;
    this.#admitted = admitted;
    this.#log = new RunLog(options.context.db, run, (error) => options.onError(error, run));
    this.#open = openPorts(options.context, options.statements, run, this.#log, watch);
    this.#watch = watch;
  }

  async execute(): Promise<AttemptReport> {
    const run = this.#run;
    const nothing = { run, fault: null, rows: 0, bytes: 0, rejectedRows: 0 };
    const looking = setInterval(() => this.#logLongStep(), lookEveryMs).unref();
    try {
      const { heldUpBy } = run;
      if (heldUpBy !== null && isErrorCode(heldUpBy) && errorCatalogue[heldUpBy].retryable) {
        const end = () => handOver(this.#options.context, run, heldUpBy);
        await retryUntilRecorded(end, this.#signal);
        return { ...nothing, end: 'failed', fault: heldUpBy };
      }
      this.#begin();
      const destination = this.#openDestination();
      try {
        const job = await this.#prepare(destination);
        const exported = await this.#withTraits(destination, () =>
          exportInterval(job, this.#openSource(), destination, this.#open.ports, this.#signal),
        );
        const completion = await this.#record(exported);
        if (!completion) return { ...nothing, end: 'lost' };
        await failpoint('before_removal');
        if (completion.leavesFiles) await this.#clean(job, destination, exported);
        const { rows, bytes, rejectedRows } = exported.result;
        return { ...nothing, end: 'completed', rows, bytes, rejectedRows };
      } finally {
        await destination.close();
      }
    } catch (thrown) {
      // The reason of an abort says more than the error that it caused.
      const error = toSluiceError(
        nameOwnFault(this.#signal.aborted ? this.#signal.reason : thrown),
      );
      const failed = { run, log: this.#log, signal: this.#signal, ticket: this.#admitted?.ticket };
      const { writeProgress } = this.#open;
      const report = (caught: unknown) => this.#report(caught);
      const end = await endAfter(error, { ...this.#options, ...failed, writeProgress, report });
      return { ...nothing, end, fault: end === 'failed' ? error.code : null };
    } finally {
      clearInterval(looking);
      await this.#open.endPluginLines();
      await this.#log.close();
    }
  }

  #logLongStep(): void {
    const line = this.#watch.nextLine();
    if (line !== null) this.#log.add('WARNING', line);
  }

  #report(error: unknown): void {
    this.#options.onError(error, this.#run);
  }

  #begin(): void {
    const { attempt, crashes, interval } = this.#run;
    this.#log.add('INFO', `Attempt ${attempt} started for ${describeInterval(interval)}.`);
    if (crashes < this.#options.context.policy.maxSharedCrashes) return;
    const text = `Workers crashed ${crashes} times while they read for this run, so the next attempt uses a separate process.`;
    this.#log.add('WARNING', text);
  }

  #openDestination(): Destination {
    const run = this.#run;
    // An export that has failed for long asks its store once.
    const isTried = run.heals && run.exportFails;
    const opened = this.#options.connectors.openDestination(run, run.storeTraits, isTried);
    return this.#admitted?.ticket.destination(opened) ?? opened;
  }

  #openSource(): IntervalSource {
    const source = this.#options.connectors.sourceOf(this.#run.model);
    return this.#admitted?.ticket.source(source) ?? source;
  }

  /** Makes the job, and probes a store that is not known. */
  async #prepare(destination: Destination): Promise<IntervalJob> {
    const run = this.#run;
    // A run that only changes files runs no plugin and reads no source.
    const { connectors, memoryBytes } = this.#options;
    if (readsSource(run.purpose)) checkMemory(connectors, memoryBytes, run);
    const job = await makeJob(this.#options, run);
    const { journal } = this.#open.ports;
    const { db } = this.#options.context;
    await tryStore(db, run, destination, { journal, log: this.#log, signal: this.#signal });
    const { settlement = null, ticket } = this.#admitted ?? {};
    return { ...job, settlement, isSmall: ticket?.isSmall === true };
  }

  /** Keeps what `work` finds out about the store, also if it fails. */
  async #withTraits<T>(destination: Destination, work: () => Promise<T>): Promise<T> {
    const before = destination.traits;
    try {
      return await work();
    } finally {
      const { db } = this.#options.context;
      await keepNewTraits(db, this.#run, before, destination, this.#log).catch((error: unknown) =>
        this.#report(error),
      );
    }
  }

  /** @returns null if the lease was lost before */
  async #record(exported: ExportedInterval): Promise<CompletionOutcome | null> {
    await failpoint('before_record');
    const { statements } = this.#options;
    const { rows, bytes, madeFiles, rejectedRows } = exported.result;
    const rejected = rejectedRows === 0 ? '' : ` ${plural(rejectedRows, 'row')} rejected.`;
    const message = `Completed: ${plural(rows, 'row')}, ${plural(bytes, 'byte')} in ${plural(madeFiles, 'file')}.${rejected}`;
    const record = (entries: readonly NewLogEntry[]) =>
      statements.complete({ ...exported, run: this.#run, entries });
    return this.#log.hand(message, (entries) =>
      retryUntilRecorded(() => record(entries), this.#signal),
    );
  }

  /** The run is recorded, but holds its slot. The sweep removes what is left. */
  async #clean(
    job: IntervalJob,
    destination: Destination,
    { result }: ExportedInterval,
  ): Promise<void> {
    const current = { ...this.#run, ...job, ...result };
    const patience = AbortSignal.any([this.#signal, AbortSignal.timeout(removalPatienceMs)]);
    const { context } = this.#options;
    const remove = () => removeReplaced(context, destination, current, this.#log, patience);
    await this.#withTraits(destination, remove).catch((error: unknown) => this.#report(error));
  }
}

/** `1 file`, `3 files` */
const plural = (count: number, what: string) => `${count} ${what}${count === 1 ? '' : 's'}`;

async function makeJob(
  { context, connectors }: AttemptOptions,
  run: ClaimedRun,
): Promise<IntervalJob> {
  const { interval, receipt, purpose } = run;
  const reads = readsSource(purpose);
  const stored = readFileSettings(run.destination.config);
  // Files at a place that the export has left stay there.
  const keepsFiles = connectors.keepsFiles(run.destination.type);
  const isHere = keepsFiles && receipt?.destinationVersion === run.destinationVersion;
  const current = isHere ? receipt : null;
  // Rows that are added to files are made as those were.
  const recipe = purpose === 'whole' ? null : (current?.recipe ?? null);
  const files = recipe
    ? { ...stored, partitionBy: [], ...recipe, ...settingsOfRecipe(recipe) }
    : stored;
  const requested = { ...run, ...files, ...(recipe && { dslQuery: recipe.dslQuery }) };
  const writesManifest = recipe && current ? current.manifestKey !== null : files.writesManifest;
  return {
    ...run,
    ...files,
    sequence: sequenceOf(run),
    // A run that only changes files reads what the chain made.
    chain: reads ? await openChain(context, run.teamId, run.chain) : null,
    request: {
      ...sourceRequestOf(requested, interval),
      ...(files.csvArrays === 'postgres' && { nested: 'text' as const }),
    },
    names: namesOf(run, files),
    encoding: connectors.encodingOf(files),
    readRows: connectors.readRows,
    withoutRows: connectors.withoutRows,
    erased: openErased(context, run),
    isKept: purpose === 'expire' && (await isKept(context.db, run.exportId, interval)),
    writesManifest: writesManifest && keepsFiles,
    // Files that were made before the export had a table are not in it, nor are snapshots that are removed.
    table: files.tableFormat && purpose !== 'expire' ? connectors.tableOf(run) : null,
    generation: run.fileGeneration,
    intent: run.commitIntent,
    sign: await readSigner(context),
    current,
    formerManifests: run.destinationVersion === 0 ? [] : await listFormerManifests(context.db, run),
  };
}

/** A run that only changes files keeps the manifest's key, even if the export has another prefix or file_name now. */
function namesOf(
  { purpose, receipt, interval, model, exportId }: ClaimedRun,
  { prefix, fileName }: FileSettings,
): KeyNames {
  const manifest = receipt?.manifestKey ?? null;
  if (!readsSource(purpose) && manifest !== null) {
    return { stem: stemOf(manifest), tail: tailOf(fileName) };
  }
  const values = { interval, table: model, batchExportId: exportId };
  return keyNames(renderKeyTemplate(prefix, values), fileName, interval);
}

const progressEveryMs = 2_000;

/** A file with fewer bytes than this, which is sent as one part, is not worth a record. */
const minRecordedBytes = 256 * 1024;

/** The pipeline asks this of a run. Progress is written by time: a run that ends before costs no write. */
export function openPorts(
  { db, policy }: Pick<Context, 'db' | 'policy'>,
  statements: RunStatements,
  run: ClaimedRun,
  log: RunLog,
  watch = new StepWatch(),
) {
  const lease = new KnownLease(policy.leaseMs, () => confirmLease(db, run, policy.leaseMs));
  let unwritten: Progress | null = null;
  let writtenAt = performance.now();
  /** Writes the progress that waits. @throws SluiceError `run.lease_lost` */
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
