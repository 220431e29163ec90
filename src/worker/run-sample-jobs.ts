import { SluiceError, StepFault } from '../domain/errors.ts';
import { eventsModel } from '../domain/events-model.ts';
import { ownStepsOf } from '../domain/recipe.ts';
import { sandboxMemory } from '../pipeline/memory-budget.ts';
import type { RawSample } from '../pipeline/preview-rows.ts';
import { countSteps } from '../pipeline/transform-blocks.ts';
import { withOpenSteps } from '../sandbox/open-steps.ts';
import {
  findChainUpTo,
  findTransformedModel,
  recordStepError,
  recordSteps,
} from '../store/chains.ts';
import { readNow } from '../store/ticks.ts';
import {
  deleteTransformationJob,
  type TakenJob,
  takeTransformationJob,
} from '../store/transformation-configs.ts';
import { Chain } from '../transforms/chain.ts';
import { chainColumnsOf } from '../transforms/column-values.ts';
import { readRow } from '../transforms/transform-rows.ts';
import { takeTurns } from '../transforms/turns.ts';
import type { Context } from '../use-cases/context.ts';
import { openChain } from '../use-cases/transformations/open-chain.ts';
import type { MemoryGate } from './memory-gate.ts';

const sampledRows = 1_000;
const patienceMs = 30_000;
/** Of processor time, for all rows in one own plugin. */
const sampleBatchMs = 10_000;
/** For all steps. The job is taken again by another worker after five minutes. */
const chainPatienceMs = 120_000;

export interface SampleOptions {
  readonly context: Context;
  /** Some of the newest rows of a model. Throws SluiceError. */
  readonly sampleRows: (
    model: string,
    teamId: number,
    limit: number,
    signal: AbortSignal,
  ) => Promise<RawSample>;
  readonly onSampleError: (error: unknown) => void;
  /** The worker's: sandboxes count in it. */
  readonly memory: MemoryGate;
}

/**
 * Runs the `sample` jobs that users have started: applies the chain up to a step to some of the newest
 * rows, and records the errors and rates of its steps. A job whose worker dies is taken again.
 */
export async function runSampleJobs(options: SampleOptions): Promise<void> {
  const { db } = options.context;
  for (;;) {
    const job = await takeTransformationJob(db);
    if (!job) return;
    try {
      await runSample(options, job);
    } catch (error) {
      if (!(error instanceof StepFault)) {
        // It is taken again in some minutes.
        options.onSampleError(error);
        continue;
      }
      await recordStepError(db, job.teamId, error.step, error.detail ?? error.message);
    }
    await deleteTransformationJob(db, job.id);
  }
}

async function runSample(
  { context, sampleRows, memory }: SampleOptions,
  { configId, teamId }: TakenJob,
): Promise<void> {
  const { db } = context;
  const pinned = await findChainUpTo(db, teamId, configId);
  const opened = await openChain(context, teamId, pinned);
  if (!opened) return;
  const model = (await findTransformedModel(db, teamId)) ?? eventsModel.name;
  const signal = AbortSignal.timeout(patienceMs);
  const sample = await sampleRows(model, teamId, sampledRows, signal);
  const { lines, columns, keyColumns, fixedColumns } = sample;
  const bytes = sandboxMemory(ownStepsOf(pinned));
  if (bytes > memory.totalBytes) {
    const detail = 'the plugins of the chain need more memory than WORKER_MEMORY_MB allows';
    throw new StepFault('transformation.invalid', configId, detail);
  }
  const leave = bytes === 0 ? () => {} : await memory.enter(bytes);
  // The worker ends. Another one takes the job again.
  if (!leave) throw new SluiceError('run.released');
  const limits = { batchMs: sampleBatchMs };
  const patience = AbortSignal.timeout(chainPatienceMs);
  const options = { intervalEndMs: await readNow(db), signal: patience, limits };
  try {
    const chain = await withOpenSteps(opened.steps, options, async (steps) => {
      const all = new Chain(steps, chainColumnsOf(columns, fixedColumns), keyColumns);
      await all.applyBlock(lines.map(readRow), takeTurns(patience));
      return all;
    });
    await recordSteps(db, countSteps(chain.steps));
  } finally {
    leave();
  }
}
