import { SluiceError, StepFault } from '../../foundation/domain/errors.ts';
import type { Step, StepDefinition, StepFacts, StepResults } from '../transforms/step.ts';
import { defaultLimits, processMemoryMib, SandboxError, type SandboxLimits } from './limits.ts';
import { openSandbox, type Sandbox } from './sandbox.ts';
import { StepLog } from './step-log.ts';

/** Memory of the process of one own step: what its worker sets aside for it. */
export const stepMemoryBytes = processMemoryMib(defaultLimits) * 1024 ** 2;

export interface OpenStepsOptions {
  /** What the clock shows to plugins. */
  readonly intervalEndMs: number;
  /** An abort ends every sandbox at once. */
  readonly signal: AbortSignal;
  readonly limits?: Partial<SandboxLimits>;
  /** Lines that plugins write to `console`: bounded, without the secrets of their configs. */
  readonly log?: (level: 'DEBUG' | 'INFO' | 'WARNING', message: string) => void;
}

/**
 * Opens a chain for the duration of `use`: each own plugin gets a sandbox of its own, which has ended
 * when this returns or throws, however `use` ends.
 *
 * @throws StepFault if a plugin cannot be set up, exceeds a limit or crashes its sandbox: no row of that
 *   batch has a result, and the sandbox has ended. SluiceError `transformation.sandbox_ended` if something
 *   else ended it. The reason of the signal if it aborts
 */
export async function withOpenSteps<Result>(
  definitions: readonly StepDefinition[],
  options: OpenStepsOptions,
  use: (steps: readonly Step[]) => Promise<Result>,
): Promise<Result> {
  const failed = new AbortController();
  const signal = AbortSignal.any([options.signal, failed.signal]);
  const closing: (() => Promise<void>)[] = [];
  const steps: Step[] = [];
  try {
    for (const definition of definitions) {
      options.signal.throwIfAborted();
      if (definition.kind === 'row') {
        steps.push(definition);
        continue;
      }
      const { source, config, secrets, ...facts } = definition;
      const log = new StepLog(facts, secrets, options.log ?? (() => {}));
      const { intervalEndMs, limits = {} } = options;
      const onLog = log.add.bind(log);
      const given = { source, config, intervalEndMs, limits, signal, onLog };
      const sandbox = await explained(facts, log, options.signal, () => openSandbox(given));
      closing.push(async () => {
        await sandbox.close();
        log.end();
      });
      steps.push({ ...facts, kind: 'batch', applyBatch: batchOf(sandbox, facts, log, options) });
    }
    return await use(steps);
  } catch (error) {
    // Nothing waits for the hooks of a run that failed.
    failed.abort();
    throw error;
  } finally {
    await Promise.all(closing.map((close) => close()));
  }
}

function batchOf(
  sandbox: Sandbox,
  facts: StepFacts,
  log: StepLog,
  { signal }: OpenStepsOptions,
): Extract<Step, { kind: 'batch' }>['applyBatch'] {
  return async (rows) => {
    const results = await explained(facts, log, signal, () => sandbox.apply(rows));
    const at: StepResults['at'] = (index, row) => {
      try {
        return results.at(index, row);
      } catch (error) {
        throw explain(facts, log, signal, error);
      }
    };
    return { length: results.length, at };
  };
}

async function explained<Result>(
  facts: StepFacts,
  log: StepLog,
  signal: AbortSignal,
  work: () => Promise<Result>,
): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    throw explain(facts, log, signal, error);
  }
}

/** Names the step in what ends its sandbox. @throws the reason of the signal */
function explain({ id, name }: StepFacts, log: StepLog, signal: AbortSignal, error: unknown) {
  signal.throwIfAborted();
  if (!(error instanceof SandboxError)) return error;
  const { fault } = error;
  const detail = `step ${id} (${name}): ${log.withoutSecrets(error.message)}`;
  if (fault === 'unavailable')
    return new SluiceError('transformation.sandbox_ended', detail, error);
  const isUnfit = fault === 'invalid' || fault === 'setup';
  const code = isUnfit ? 'transformation.invalid' : 'transformation.plugin_failed';
  return new StepFault(code, id, detail, error);
}
