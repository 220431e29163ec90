import { findDecimalFault } from '../../foundation/domain/decimal-columns.ts';
import { SluiceError, StepFault } from '../../foundation/domain/errors.ts';
import type { StepCount } from '../../foundation/domain/recipe.ts';
import type { Column, RowBlock } from '../../foundation/domain/row-block.ts';
import { deletedBlock } from '../changes/deleted-block.ts';
import type { Destination } from '../destinations/destination.ts';
import type { Source, SourceSnapshot } from '../sources/source.ts';
import {
  blockByBlock,
  type BlockTransformer,
  type RowsShape,
  RowTransformer,
  withBlocksInFlight,
} from '../transforms/transform-rows.ts';
import { findExcess, type StepTally } from '../transforms/chain-step.ts';
import type { Pause } from '../transforms/chain.ts';
import { type StepDefinition, withOpenSteps } from '../transforms/own-steps.ts';
import type { Step } from '../transforms/step.ts';
import type { DeliveredKeys } from './delivered-keys.ts';
import { DistinctKeys } from './row-keys.ts';
import { FileSet } from './file-set.ts';
import type { IntervalJob, RunPorts } from './interval-job.ts';
import type { KeySpool } from './key-spool.ts';
import type { ManifestFile } from '../../foundation/domain/receipt.ts';
import { openPartitions } from './partitioned-rows.ts';
import { describeRejections, showKey } from './rejection-tally.ts';
import type { OpenTable } from './table-format.ts';

interface Writing {
  readonly job: IntervalJob;
  readonly snapshot: SourceSnapshot;
  /** Opened, in the order of the job's chain. */
  readonly steps: readonly Step[];
  readonly destination: Destination;
  readonly ports: RunPorts;
  readonly table: OpenTable | null;
  /** Gets the keys of all rows that are written or rejected. */
  readonly keys?: KeySpool | null;
  /** The rows of a block that are wanted; default: all. Called for each block, in order. */
  readonly pick?: (block: RowBlock) => RowBlock;
  /** Rows of the interval that are not wanted: a share of errors is that of all rows; default: none. */
  readonly besides?: number;
  /** The number of the element whose deletes are written too; null or missing: no element. */
  readonly element?: number | null;
  /** The keys that its deletes are found by; null or missing: the source says what is gone. */
  readonly delivered?: DeliveredKeys | null;
  readonly signal: AbortSignal;
}

/** Files at the destination that nothing can read yet. */
export interface WrittenRows {
  readonly files: FileSet;
  readonly columns: readonly Column[];
  readonly made: readonly ManifestFile[];
  readonly rejectedFiles: readonly ManifestFile[];
  /** Rows that were picked. */
  readonly readRows: number;
  readonly droppedRows: number;
  /** Keys of an element that are gone, beside the rows. */
  readonly deletes: number;
  readonly steps: readonly StepTally[] | null;
}

/** Writes the rows of a snapshot to files for `work`. If anything fails, their uploads are aborted. */
export async function writeRows<T>(
  writing: Writing,
  work: (written: WrittenRows) => Promise<T>,
): Promise<T> {
  const { job, snapshot, destination, ports, table, signal, keys = null } = writing;
  const { toJson } = job.encoding;
  const transformer = job.chain && openTransformer(writing.steps, snapshot, toJson, signal);
  const { columns } = transformer ?? snapshot;
  checkDecimals(job, columns);
  table?.checkColumns(columns);
  const files = new FileSet({
    ...job,
    destination,
    journal: ports.journal,
    columns,
    keyIndices: keyIndicesOf(snapshot),
    partitions: openPartitions(job, columns),
    keys,
    signal,
  });
  try {
    const droppedRows = await copyRows(writing, transformer, files);
    const deletes = await writeDeletes(writing, files, columns);
    if (transformer) logSteps(transformer.steps, ports, writing.besides);
    const finished = await files.finish();
    judgeRejected(files, job, ports);
    const readRows = files.rows + files.rejectedRows + droppedRows - deletes;
    const { files: made, rejectedFiles } = finished;
    const steps = transformer?.steps ?? null;
    const counts = { readRows, droppedRows, deletes };
    return await work({ files, columns, made, rejectedFiles, ...counts, steps });
  } catch (error) {
    await files.abort();
    throw error;
  }
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
  for (const tally of rejections.filter(({ isOfFormat }) => isOfFormat)) {
    const where = 'Rejected rows are in files that end in _rejected.jsonl.';
    ports.log('WARNING', `${describeRejections(tally)}. ${where}`);
  }
  const [first] = rejections;
  if (!first || onRejected !== 'fail') return;
  const others = rejections.length - 1;
  const rest =
    others === 0 ? '' : ` There are ${others} more reasons, ${files.rejectedRows} rows in all.`;
  throw new SluiceError('run.rows_rejected', `${describeRejections(first)}.${rest}`);
}

/** @throws StepFault if a step had errors in too many rows */
function logSteps(steps: readonly StepTally[], ports: RunPorts, besides = 0): void {
  for (const { level, message } of describeSteps(steps)) ports.log(level, message);
  const excess = findExcess(steps, besides);
  if (excess) throw new StepFault('transformation.too_many_errors', excess.step, excess.reason);
}

async function copyRows(
  { job, snapshot, element = null, ports, signal, pick = (block) => block }: Writing,
  transformer: BlockTransformer | null,
  files: FileSet,
): Promise<number> {
  let dropped = 0;
  const { columns, keyIndices } = snapshot;
  const keys = element === null ? null : new DistinctKeys(columns, keyIndices, job.encoding.toJson);
  const tell = () => {
    const { rows, bytes, count } = files;
    return ports.progressed({ totalRows: snapshot.totalCount, rows, bytes, files: count });
  };
  await tell();
  for (const slice of snapshot.slices) {
    for await (const block of snapshot.read(slice, signal)) {
      signal.throwIfAborted();
      ports.at('write');
      keys?.check(block);
      const picked = pick(block);
      if (picked.rowCount > 0) dropped += await files.writeRows(picked, transformer);
      ports.at('read');
    }
    await tell();
  }
  ports.at('write');
  dropped += await files.finishRows(transformer);
  await tell();
  return dropped;
}

/** Writes the deletes of an element after its rows. No step sees them. @returns how many there are */
export async function writeDeletes(
  {
    snapshot,
    element = null,
    delivered = null,
    signal,
  }: Pick<Writing, 'snapshot' | 'element' | 'delivered' | 'signal'>,
  files: FileSet,
  columns: readonly Column[],
): Promise<number> {
  if (element === null || !snapshot.readDeletes) return 0;
  const keyIndices = allKeyIndicesOf(snapshot);
  if (keyIndices === null) throw new Error('the rows of an element do not show their keys');
  let deletes = 0;
  for await (const block of delivered?.missingFrom(snapshot) ?? snapshot.readDeletes(signal)) {
    signal.throwIfAborted();
    await files.write(deletedBlock(block, { columns, keyIndices }, element));
    deletes += block.rowCount;
  }
  return deletes;
}

/** Opens a chain over the blocks of a run. @param toJson the form in which steps see fields */
function openTransformer(
  steps: readonly Step[],
  snapshot: SourceSnapshot,
  toJson: RowsShape['toJson'],
  signal: AbortSignal | null = null,
): BlockTransformer {
  const transformer = openRowTransformer(steps, snapshot, toJson, signal);
  const waits = steps.some(({ kind }) => kind === 'batch');
  return waits ? withBlocksInFlight(transformer) : blockByBlock(transformer);
}

/** Opens a chain that works row by row. @param turns called between the steps of each row */
export function openRowTransformer(
  steps: readonly Step[],
  { columns, projection }: Pick<SourceSnapshot, 'columns' | 'projection'>,
  toJson: RowsShape['toJson'],
  signal: AbortSignal | null = null,
  turns: Pause | null = null,
): RowTransformer {
  if (!projection) throw new Error('the snapshot has no projection');
  return new RowTransformer(steps, { ...projection, columns, toJson }, signal, turns);
}

/** Opens rows, with their chain if they have one, for the duration of `use`. */
export async function withChain<Result>(
  { steps: definitions, interval, request, encoding }: ChainedRows,
  source: Source,
  signal: AbortSignal,
  use: (snapshot: SourceSnapshot, transformer: BlockTransformer | null) => Promise<Result>,
): Promise<Result> {
  const options = { intervalEndMs: interval.end, signal };
  return withOpenSteps(definitions, options, async (steps) => {
    const select = steps.length > 0 ? { select: 'columns' as const } : {};
    const snapshot = await source.open({ ...request, ...select }, signal);
    try {
      const transformer =
        steps.length > 0 ? openTransformer(steps, snapshot, encoding.toJson) : null;
      return await use(snapshot, transformer);
    } finally {
      await snapshot.close();
    }
  });
}

interface ChainedRows extends Pick<IntervalJob, 'interval' | 'request' | 'encoding'> {
  readonly steps: readonly StepDefinition[];
}

/** The indices of the keys among the columns of the files, for those that they have. */
export function keyIndicesOf({
  projection,
  keyIndices,
}: Pick<SourceSnapshot, 'projection' | 'keyIndices'>): readonly number[] {
  if (!projection) return keyIndices;
  const { outputs, keyColumns } = projection;
  const indices = keyColumns.map((key) =>
    outputs.findIndex(({ column, path }) => column === key && path.length === 0),
  );
  return indices.filter((index) => index >= 0);
}

/** The indices of all keys; null if the files do not have all of them. */
export function allKeyIndicesOf(snapshot: SourceSnapshot): readonly number[] | null {
  const indices = keyIndicesOf(snapshot);
  const { projection, showsKeys } = snapshot;
  const isWhole = showsKeys && (!projection || indices.length === projection.keyColumns.length);
  return isWhole ? indices : null;
}

/** Counts the rows in each step, for the run's record. */
export function countSteps(steps: readonly StepTally[]): readonly StepCount[] {
  return steps.map(({ step, counters, timeMs, errors }) => ({
    config: step.id,
    ...counters,
    timeMs: Math.round(timeMs),
    error: errors[0]?.reason ?? null,
  }));
}

/** One line per step and one per kind of error, for the run's log. */
function describeSteps(steps: readonly StepTally[]) {
  return steps.flatMap(({ step: { id, name, onError }, counters, timeMs, errors }) => {
    const { in: rows, out, dropped, errored } = counters;
    const message = `Step ${id} (${name}): ${rows} rows in, ${out} out, ${dropped} dropped, ${errored} with errors, in ${Math.round(timeMs)} ms.`;
    const fate = onError === 'reject' ? 'were rejected' : 'went on without this step';
    return [
      { level: 'INFO' as const, message },
      ...errors.map(({ reason, rows: count, firstKey }) => ({
        level: 'WARNING' as const,
        message: `Step ${id} (${name}): ${count} rows ${fate}. ${reason} The first: ${showKey(Object.entries(firstKey))}`,
      })),
    ];
  });
}
