import { StepFault } from '../domain/errors.ts';
import { eventsModel } from '../domain/events-model.ts';
import type { RawSample } from '../pipeline/preview-rows.ts';
import { countSteps } from '../pipeline/transform-blocks.ts';
import {
  findChainUpTo,
  findTransformedModel,
  recordStepError,
  recordSteps,
} from '../store/chains.ts';
import {
  deleteTransformationJob,
  type TakenJob,
  takeTransformationJob,
} from '../store/transformation-configs.ts';
import { Chain } from '../transforms/chain.ts';
import { chainColumnsOf } from '../transforms/column-values.ts';
import { readRow } from '../transforms/transform-rows.ts';
import type { Context } from '../use-cases/context.ts';
import { openChain } from '../use-cases/transformations/open-chain.ts';

const sampledRows = 1_000;
const patienceMs = 30_000;

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
  { context, sampleRows }: SampleOptions,
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
  const chain = new Chain(opened.steps, chainColumnsOf(columns, fixedColumns), keyColumns);
  for (const line of lines) chain.apply(readRow(line));
  await recordSteps(db, countSteps(chain));
}
