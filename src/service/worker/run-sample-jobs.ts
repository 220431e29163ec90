import { SluiceError, StepFault } from '../../foundation/domain/errors.ts';
import { ownStepsOf } from '../../foundation/domain/recipe.ts';
import { sandboxMemory } from '../admission/memory-budget.ts';
import { countSteps } from '../../rows/pipeline/write-rows.ts';
import type { StepDefinition } from '../../rows/transforms/own-steps.ts';
import {
  findChainUpTo,
  findTransformedModel,
  recordStepError,
  recordSteps,
} from '../../state/store/transformations/chains.ts';
import {
  endSample,
  takeSample,
  type TakenSample,
} from '../../state/store/transformations/transformation-configs.ts';
import type { Context } from '../use-cases/context.ts';
import type { WorkGuard } from '../use-cases/work-guard.ts';
import { openChain } from '../use-cases/transformations/open-chain.ts';
import type { PreviewRows } from '../use-cases/transformations/preview-rows.ts';
import type { MemoryGate } from '../admission/memory-gate.ts';
import { skipWhileBusy } from './shared-work.ts';

const sampledRows = 1_000;
/** Time limit for rows and steps. Another worker takes the job again after five minutes. */
const patienceMs = 150_000;

const setAside =
  'workers died while they applied it to sampled rows, so Sluice stopped trying; ask your operator to run `sluice work retry`';

export interface SampleOptions {
  readonly context: Context;
  readonly previewRows: PreviewRows;
  /** For a project that has no export with transformations; null: nothing is sampled. */
  readonly defaultModel: string | null;
  readonly onSampleError: (error: unknown) => void;
  readonly guard: WorkGuard;
  /** The worker's: sandboxes count in it. */
  readonly memory: MemoryGate;
}

/** Organizations of a worker's last jobs: they come after the others. */
const rememberedTurns = 1_000;

/** Jobs at a time in a worker, each of another organization. */
const lanes = 2;

/**
 * Runs the `sample` jobs that users have started: applies the chain up to a step to some of the newest
 * rows, and records the errors and rates of its steps. A job whose worker dies is taken again.
 *
 * Organizations take turns, and one has at most one job at a time here. So an organization does not wait behind all jobs of another.
 *
 * @returns what each call does: it begins jobs until none waits
 */
export function sampleJobs(options: SampleOptions): () => Promise<void> {
  const { db } = options.context;
  let served: readonly string[] = [];
  const inProgress = new Set<string>();
  let taking: Promise<TakenSample | null> = Promise.resolve(null);
  const next = async () => {
    const job = await takeSample(db, served, [...inProgress]);
    if (!job) return null;
    const { organizationId: id } = job;
    served = [...served.filter((other) => other !== id), id].slice(-rememberedTurns);
    inProgress.add(id);
    return job;
  };
  /** One after the other: each must see what the one before has taken. */
  const take = () => {
    taking = taking.catch(() => null).then(next);
    return taking;
  };
  const lane = async () => {
    for (let job = await take(); job !== null; job = await take()) {
      const { organizationId } = job;
      await runJob(options, job).finally(() => inProgress.delete(organizationId));
    }
  };
  const all = Array.from({ length: lanes }, () => skipWhileBusy(lane));
  return async () => {
    await Promise.all(all.map((one) => one()));
  };
}

async function runJob(options: SampleOptions, job: TakenSample): Promise<void> {
  const { db } = options.context;
  try {
    await runSample(options, job);
  } catch (error) {
    // It is taken again in some minutes.
    if (!(error instanceof StepFault)) return options.onSampleError(error);
    await recordStepError(db, job.teamId, error.step, error.detail ?? error.message);
  }
  await endSample(db, job);
}

async function runSample(
  options: SampleOptions,
  { configId, teamId, organizationId }: TakenSample,
): Promise<void> {
  const { context, guard, memory } = options;
  const pinned = await findChainUpTo(context.db, teamId, configId);
  const opened = await openChain(context, teamId, pinned);
  if (!opened) return;
  const bytes = sandboxMemory(ownStepsOf(pinned));
  if (bytes > memory.totalBytes) {
    const detail = 'the plugins of the chain need more memory than WORKER_MEMORY_MB allows';
    throw new StepFault('transformation.invalid', configId, detail);
  }
  const leave = bytes === 0 ? () => {} : await memory.enter(bytes, organizationId);
  // The worker ends. Another one takes the job again.
  if (!leave) throw new SluiceError('run.released');
  try {
    const what = { kind: 'sample', id: String(configId) } as const;
    const end = await guard.do(what, patienceMs, () => applySample(options, teamId, opened.steps));
    if (end === 'done') return;
    // Another worker is at it, or an operator has to allow it. It is taken again in some minutes.
    if (end === 'busy') throw new SluiceError('run.released');
    throw new StepFault('transformation.invalid', configId, setAside);
  } finally {
    leave();
  }
}

async function applySample(
  { context: { db }, previewRows, defaultModel }: SampleOptions,
  teamId: number,
  opened: readonly StepDefinition[],
): Promise<void> {
  const model = (await findTransformedModel(db, teamId)) ?? defaultModel;
  if (model === null) return;
  const sample = { teamId, model, dslQuery: null, config: {}, given: null, steps: opened };
  const signal = AbortSignal.timeout(patienceMs);
  const request = { ...sample, limit: sampledRows, trace: false };
  const { steps } = await previewRows(request, (work) => work(), signal);
  await recordSteps(db, countSteps(steps));
}
