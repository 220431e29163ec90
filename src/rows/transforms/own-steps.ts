import {
  checkPluginConfig,
  type PluginConfig,
  type PluginField,
  withDefaults,
} from '../../foundation/domain/plugin.ts';
import type { Problem } from '../../foundation/domain/problem.ts';
import { readAll, readNumber, stepFields } from './transform.ts';
import {
  type BatchStep,
  errorShares,
  filledIn,
  type RowStep,
  type Step,
  type StepFacts,
} from './step.ts';

/** A chain without them takes no step in it. */
export interface OwnSteps {
  /** Runs the text of the module, but no hook. @throws SluiceError `transformation.sandbox_ended`: not known now */
  inspect(source: string): Promise<readonly Problem[]>;
  /** @throws StepFault if the plugin cannot be set up; SluiceError `transformation.sandbox_ended`; the signal's reason */
  open(settings: OwnStepSettings, options: OpenStepsOptions): Promise<OpenOwnStep>;
}

export interface OpenOwnStep {
  /** Throws as `open` does, also if the plugin exceeds a limit: no row of that batch has a result. */
  readonly step: BatchStep;
  /** @param hasFailed whether the run did: then no hook of the plugin runs */
  close(hasFailed: boolean): Promise<void>;
}

export interface OpenStepsOptions {
  readonly intervalEndMs: number;
  /** An abort ends every plugin at once. */
  readonly signal: AbortSignal;
  /** Gets lines that plugins write: bounded, without the secrets of their configs. */
  readonly log?: (level: 'DEBUG' | 'INFO' | 'WARNING', message: string) => void;
}

/** A run reserves it, and the process of one own step may not exceed it. */
export const ownStepMib = 224;

export interface OwnStepSettings extends StepFacts {
  readonly source: string;
  readonly config: PluginConfig;
  /** No log may show them. */
  readonly secrets: readonly string[];
}

interface OwnStep extends StepFacts {
  readonly kind: 'own';
  open(options: OpenStepsOptions): Promise<OpenOwnStep>;
}

export type StepDefinition = RowStep | OwnStep;

export function ownSchema(fields: readonly PluginField[]): readonly PluginField[] {
  const keys = new Set(fields.map(({ key }) => key));
  return [...fields, ...stepFields.filter(({ key }) => !keys.has(key))];
}

/** From its config with the secrets. @throws InvalidSettings as `readOwnConfig` */
export function defineOwnStep(
  ownSteps: OwnSteps,
  given: Omit<OwnStepSettings, 'onError' | 'maxErrorShare'>,
): OwnStep {
  const settings = { ...given, ...readOwnConfig(given.config) };
  const { id, name, onError, maxErrorShare } = settings;
  const open: OwnStep['open'] = (options) => ownSteps.open(settings, options);
  return { kind: 'own', id, name, onError, maxErrorShare, open };
}

export function readOwnConfig(
  given: PluginConfig,
): Pick<OwnStepSettings, 'config' | 'onError' | 'maxErrorShare'> {
  const { on_error: onError, max_error_share: _, ...config } = given;
  const problems = checkPluginConfig(stepFields, { ...(onError && { on_error: onError }) });
  const settings = withDefaults(stepFields, filledIn(given));
  const read = { maxErrorShare: () => readNumber(settings, 'max_error_share', errorShares) };
  return { config, onError: onError === 'reject' ? 'reject' : 'keep', ...readAll(read, problems) };
}

/** All its plugins have ended when this returns or throws, however `use` ends. */
export async function withOpenSteps<Result>(
  definitions: readonly StepDefinition[],
  options: OpenStepsOptions,
  use: (steps: readonly Step[]) => Promise<Result>,
): Promise<Result> {
  const opened: OpenOwnStep[] = [];
  const steps: Step[] = [];
  let hasFailed = true;
  try {
    for (const definition of definitions) {
      options.signal.throwIfAborted();
      if (definition.kind === 'row') {
        steps.push(definition);
        continue;
      }
      const own = await definition.open(options);
      opened.push(own);
      steps.push(own.step);
    }
    const result = await use(steps);
    hasFailed = false;
    return result;
  } finally {
    await Promise.all(opened.map((own) => own.close(hasFailed)));
  }
}
