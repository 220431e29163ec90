import type { StepCount } from '../../foundation/domain/recipe.ts';
import type { Source, SourceSnapshot } from '../sources/source.ts';
import {
  type BlockTransformer,
  blockByBlock,
  withBlocksInFlight,
} from '../transforms/block-transformer.ts';
import type { StepTally } from '../transforms/chain-step.ts';
import { type StepDefinition, withOpenSteps } from '../transforms/own-steps.ts';
import type { Step } from '../transforms/step.ts';
import { type RowsShape, RowTransformer } from '../transforms/transform-rows.ts';
import type { Pause } from '../transforms/chain.ts';
import type { IntervalJob } from './interval-job.ts';
import { showKey } from './rejection-tally.ts';

/** Opens a chain over the blocks of a run. @param toJson the form in which steps see fields */
export function openTransformer(
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
  snapshot: Pick<SourceSnapshot, 'columns' | 'projection'>,
  toJson: RowsShape['toJson'],
  signal: AbortSignal | null = null,
  turns: Pause | null = null,
): RowTransformer {
  return new RowTransformer(steps, shapeOf(snapshot, toJson), signal, turns);
}

/**
 * Opens rows, and their chain if they have one, for the duration of `use`.
 *
 * @throws SluiceError, and the reason of `signal`
 */
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

function shapeOf(
  { columns, projection }: Pick<SourceSnapshot, 'columns' | 'projection'>,
  toJson: RowsShape['toJson'],
): RowsShape {
  if (!projection) throw new Error('the snapshot has no projection');
  return { ...projection, columns, toJson };
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
export function describeSteps(steps: readonly StepTally[]): readonly {
  readonly level: 'INFO' | 'WARNING';
  readonly message: string;
}[] {
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
