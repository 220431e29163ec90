import type { Destination } from '../destinations/destination.ts';
import { findDecimalFault } from '../domain/decimal-columns.ts';
import { SluiceError, StepFault, toSluiceError } from '../domain/errors.ts';
import { settingsForRecipe } from '../domain/format-settings.ts';
import { manifestKey, mayFollow } from '../domain/object-keys.ts';
import type { Recipe } from '../domain/recipe.ts';
import type { Column } from '../domain/row-block.ts';
import { failpoint } from '../failpoints/failpoint.ts';
import { withOpenSteps } from '../sandbox/open-steps.ts';
import type { Settlement, Source, SourceRequest, SourceSnapshot } from '../sources/source.ts';
import type { TableState } from '../table-formats/iceberg/held-files.ts';
import type { BlockTransformer } from '../transforms/block-transformer.ts';
import { findExcess, type StepTally } from '../transforms/chain-step.ts';
import type { Step } from '../transforms/step.ts';
import { commitFiles, findAdoptable, findUnchanged, withManifestDigest } from './commit.ts';
import { describeUnsettled } from './describe-unsettled.ts';
import { FileSet } from './file-set.ts';
import { findManifest } from './found-manifest.ts';
import type {
  CommitIntent,
  IntervalJob,
  IntervalResult,
  LeftoverFile,
  RunPorts,
} from './interval-job.ts';
import { replacedBy } from './leftovers.ts';
import { type FoundManifest, generationOf } from './manifest.ts';
import { describeRejections } from './rejection-tally.ts';
import { checkColumns, findTableState, isInTable } from './table.ts';
import {
  countSteps,
  describeSteps,
  keyPlacesOf,
  openTransformer,
  type ThreadChoice,
} from './transform-blocks.ts';

/** What is at the destination before the attempt. */
interface FoundCommit extends FoundManifest {
  readonly table: TableState | null;
}

/** The result of an interval, and what its commit replaced. */
export interface ExportedInterval {
  readonly result: IntervalResult;
  readonly replaced: readonly LeftoverFile[];
}

/**
 * Exports one interval: the rows of one snapshot into files, then the manifest that makes them current.
 * Nothing is readable before the commit. After a failure only what the journal and the intent name is left.
 * May be repeated for the same interval with the same effect.
 *
 * @throws SluiceError, and the reason of `signal`
 */
export async function exportInterval(
  given: IntervalJob,
  source: Source,
  destination: Destination,
  ports: RunPorts,
  signal: AbortSignal,
): Promise<ExportedInterval> {
  const found = await findManifest(destination, given, signal);
  const adopted = findAdoptable(given, found);
  if (adopted) return { result: adopted, replaced: replacedBy(given, adopted, found) };
  const table = await findTableState(destination, given, signal);
  const generation = await chooseGeneration(given, found, table, ports);
  const job = { ...given, generation };
  const result = await copyInterval(job, source, destination, ports, { ...found, table }, signal);
  return { result, replaced: replacedBy(job, result, found) };
}

/**
 * The generation to write under. An export without a manifest replaces its files at their keys. A bucket
 * that is ahead of our database (which was restored from a backup) has used more generations.
 *
 * @throws SluiceError `destination.key_taken` or `destination.table_damaged` if the bucket names one that none can follow
 */
async function chooseGeneration(
  { writesManifest, current, generation, prefix, interval }: IntervalJob,
  { manifest }: FoundManifest,
  table: TableState | null,
  ports: RunPorts,
): Promise<number> {
  if (!writesManifest && current?.manifestKey === null) return current.generation;
  const inManifest = manifest === null ? 0 : generationOf(manifest);
  if (!mayFollow(inManifest)) {
    const detail = `${manifestKey(prefix, interval)} has generation ${inManifest}`;
    throw new SluiceError('destination.key_taken', detail);
  }
  const inTable = table?.generation ?? 0;
  if (!mayFollow(inTable)) {
    const detail = `a file of the interval has generation ${inTable}`;
    throw new SluiceError('destination.table_damaged', detail);
  }
  const floor = Math.max(inManifest, inTable);
  return floor < generation ? generation : ports.raiseGeneration(floor);
}

async function copyInterval(
  job: IntervalJob,
  source: Source,
  destination: Destination,
  ports: RunPorts,
  found: FoundCommit,
  signal: AbortSignal,
): Promise<IntervalResult> {
  const settlement = job.settlement ?? (await source.settle(job.interval, signal));
  if (settlement.reason !== null) ports.log('WARNING', describeUnsettled(settlement.reason));
  // Before reading begins: what ends a sandbox is no proof that the run crashes workers.
  const options = { intervalEndMs: job.interval.end, signal, log: ports.log };
  return withOpenSteps(job.chain?.steps ?? [], options, (steps) =>
    copySettled(job, steps, settlement, source, destination, ports, found, signal),
  );
}

async function copySettled(
  job: IntervalJob,
  steps: readonly Step[],
  { settled, pending, position, server }: Settlement,
  source: Source,
  destination: Destination,
  ports: RunPorts,
  found: FoundCommit,
  signal: AbortSignal,
): Promise<IntervalResult> {
  await failpoint('before_open');
  const { chain } = job;
  const request = requestOf(job);
  const snapshot = await ports.step('source', () => source.open(request, signal, position, server));
  const transformer =
    chain && openTransformer(steps, snapshot, job.encoding.toJson, threadOf(job), signal);
  const { columns } = transformer ?? snapshot;
  const keyPlaces = keyPlacesOf(snapshot);
  const confirm = () => ports.confirmLease();
  const files = new FileSet({
    ...job,
    destination,
    journal: ports.journal,
    columns,
    keyPlaces,
    signal,
    confirm,
  });
  let closing: Promise<void> | null = null;
  try {
    checkDecimals(job, columns);
    checkColumns(found.table, job, columns);
    // Beside the reading. What fails there may be for want of a connection.
    const counting = snapshot.countRows(signal).catch(() => null);
    const { droppedRows, made, rejectedFiles } = await ports.step('write', async () => {
      const dropped = await copyRows(snapshot, transformer, files, ports, signal);
      if (transformer) logSteps(transformer.steps, ports);
      const finished = await files.finish();
      return { ...finished, made: finished.files, droppedRows: dropped };
    });
    const readRows = files.rows + files.rejectedRows + droppedRows;
    const countAgain = () => ports.step('source', () => snapshot.countRows(signal));
    const totalCount = (await counting) ?? (await countAgain());
    if (readRows !== totalCount) {
      const text = `${totalCount} rows were counted, but ${readRows} were read`;
      throw new SluiceError('source.count_mismatch', text);
    }
    judgeRejected(files, job, ports);
    const intent: CommitIntent = {
      generation: job.generation,
      era: job.era,
      totalRows: totalCount,
      rows: files.rows,
      rejectedRows: files.rejectedRows,
      ...(transformer && { droppedRows, steps: countSteps(transformer.steps) }),
      bytes: files.bytes,
      files: made,
      rejectedFiles,
      manifestKey: job.writesManifest ? manifestKey(job.prefix, job.interval) : null,
      recipe: recipeOf(job),
      snapshot: snapshot.snapshot,
      settled,
      pending,
      keyDigest: snapshot.keySet()?.digest ?? null,
    };
    // The source's transaction is as short as it can be, and nothing waits for its end.
    closing = snapshot.close();
    signal.throwIfAborted();
    const unchanged = await findUnchanged(destination, job, intent, columns, found, signal);
    if (unchanged && (await isInTable(destination, job, unchanged.files, signal))) {
      await endUploads(files, ports);
      ports.log('INFO', 'The rows produce the same files again, so the current files stay.');
      return unchanged;
    }
    return await ports.step('commit', async () => {
      await ports.confirmCommit(withManifestDigest(job, intent, columns));
      return commitFiles(destination, job, files, intent, columns, found, ports, signal);
    });
  } catch (error) {
    await (leavesUploads(error, signal) ? files.suspend() : endUploads(files, ports));
    throw error;
  } finally {
    await transformer?.close();
    await (closing ?? snapshot.close());
  }
}

/** What the rows are read with: steps work on all columns, and on text. */
function requestOf({ chain, encoding, request }: IntervalJob): SourceRequest {
  if (chain) return { ...request, select: 'columns' };
  return encoding.takesNumerics ? { ...request, numerics: 'binary' } : request;
}

function threadOf({ attempt, encoding: { threadEntry: entry } }: IntervalJob): ThreadChoice {
  return { entry, attempt };
}

function recipeOf({ chain, encoding, maxFileBytes, request }: IntervalJob): Recipe {
  const { format, compression, settings } = encoding;
  const { dslQuery, includeEvents, excludeEvents } = request;
  return {
    format,
    compression,
    ...settingsForRecipe(settings),
    dslQuery,
    includeEvents,
    excludeEvents,
    ...(chain && { chain: chain.recipe, maxFileBytes }),
  };
}

/** Before rows are read: @throws SluiceError `destination.decimal_mismatch` if a chosen column is not one of numeric */
function checkDecimals({ encoding }: IntervalJob, columns: readonly Column[]): void {
  const fault = findDecimalFault(encoding.settings.decimalColumns, columns);
  if (fault !== null) throw new SluiceError('destination.decimal_mismatch', fault);
}

/** @throws SluiceError `run.rows_rejected` if the export allows no rejected row */
function judgeRejected(files: FileSet, { onRejected }: IntervalJob, ports: RunPorts): void {
  const { rejections } = files;
  // Steps have logged theirs.
  for (const found of rejections.filter(({ isOfFormat }) => isOfFormat)) {
    ports.log(
      'WARNING',
      `${describeRejections(found)}. Rejected rows are in files that end in _rejected.jsonl.`,
    );
  }
  const [first] = rejections;
  if (!first || onRejected !== 'fail') return;
  const others = rejections.length - 1;
  const rest =
    others === 0 ? '' : ` There are ${others} more reasons, ${files.rejectedRows} rows in all.`;
  throw new SluiceError('run.rows_rejected', `${describeRejections(first)}.${rest}`);
}

/** @throws StepFault if a step had errors in too many rows */
function logSteps(steps: readonly StepTally[], ports: RunPorts): void {
  for (const { level, message } of describeSteps(steps)) ports.log(level, message);
  const excess = findExcess(steps);
  if (excess) throw new StepFault('transformation.too_many_errors', excess.step, excess.reason);
}

/** @returns how many rows the chain dropped */
async function copyRows(
  snapshot: SourceSnapshot,
  transformer: BlockTransformer | null,
  files: FileSet,
  ports: RunPorts,
  signal: AbortSignal,
): Promise<number> {
  let dropped = 0;
  const tell = () =>
    ports.progressed({
      totalRows: snapshot.totalCount,
      rows: files.rows,
      bytes: files.bytes,
      files: files.count,
    });
  await tell();
  for (const slice of snapshot.slices) {
    for await (const block of snapshot.read(slice, signal)) {
      signal.throwIfAborted();
      dropped += await files.writeRows(block, transformer);
    }
    await tell();
  }
  dropped += await files.finishRows(transformer);
  await tell();
  return dropped;
}

/**
 * Aborts the attempt's uploads, unless another attempt may have them: on some stores an abort that races
 * its Complete destroys the object. Then that attempt, or the sweep, aborts them.
 */
async function endUploads(files: FileSet, ports: RunPorts): Promise<void> {
  const owns = await ports.ownsUploads().catch(() => false);
  await (owns ? files.abort() : files.suspend());
}

/** Whether uploads are kept because another attempt will follow. */
function leavesUploads(error: unknown, signal: AbortSignal): boolean {
  const { code, spec } = toSluiceError(signal.aborted ? signal.reason : error);
  // With the lease the uploads went to another worker. A lost upload, or a part that another worker
  // replaced, cannot be used.
  if (code === 'run.lease_lost') return true;
  return spec.retryable && code !== 'destination.upload_lost' && code !== 'destination.conflict';
}
