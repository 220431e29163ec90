import { StepFault } from '../../../foundation/domain/errors.ts';
import type { DestinationConfig } from '../../../foundation/domain/file-settings.ts';
import { type PluginConfig, withDefaults } from '../../../foundation/domain/plugin.ts';
import { type Problem, Refusal } from '../../../foundation/domain/problem.ts';
import type { OpenStepsOptions } from '../../../rows/sandbox/open-steps.ts';
import type { StepTally } from '../../../rows/transforms/chain-step.ts';
import { findTransform } from '../../../rows/transforms/index.ts';
import { compileStep, defineOwnStep, type StepDefinition } from '../../../rows/transforms/step.ts';
import { findChain } from '../../../state/store/transformations/chains.ts';
import type { InstalledPlugin } from '../../../state/store/transformations/plugins.ts';
import type { Actor, Context } from '../context.ts';
import { configProblems } from './create-config.ts';
import { openChain } from './open-chain.ts';
import { findPlugins } from './plugins.ts';

/** Which rows are shown, and through which steps. */
export interface PreviewedRows extends Pick<OpenStepsOptions, 'limits'> {
  readonly teamId: number;
  readonly model: string;
  readonly dslQuery: string | null;
  /** Its event filters and file settings count. */
  readonly config: DestinationConfig;
  /** Rows of the caller; null: the newest rows of the source. */
  readonly given: readonly Readonly<Record<string, unknown>>[] | null;
  readonly steps: readonly StepDefinition[];
  readonly limit: number;
  /** Whether to show what each step makes of each row. */
  readonly trace: boolean;
}

/**
 * Shows rows as files would contain them, in the order of a run. Throws SluiceError.
 *
 * @param inSlot runs what needs a connection to the source
 */
export type PreviewRows = (
  asked: PreviewedRows,
  inSlot: <T>(work: () => Promise<T>) => Promise<T>,
  signal: AbortSignal,
) => Promise<{
  readonly columns: readonly { readonly name: string; readonly type: string }[];
  /** JSON: for each row a list of its values, in the order of the columns. Empty with a trace. */
  readonly rows: readonly string[];
  /** JSON: each row before, in and after the chain; null without a trace. */
  readonly trace: readonly string[] | null;
  /** What is left out, in a sentence or more; null: nothing. */
  readonly leftOut: string | null;
  /** What the steps counted. */
  readonly steps: readonly StepTally[];
}>;

/** A step that is tried without being stored. */
export interface TrialStep {
  readonly plugin: number;
  readonly config: Readonly<Record<string, unknown>>;
  readonly name: string | null;
}

/** The stored, enabled chain of a project. @throws SluiceError `transformation.invalid` */
export async function storedSteps(
  context: Context,
  teamId: number,
): Promise<readonly StepDefinition[]> {
  const chain = await openChain(context, teamId, await findChain(context.db, teamId));
  return chain?.steps ?? [];
}

/** Steps from the request itself; they are numbered from 1. @throws Refusal with every problem */
export async function trialSteps(
  context: Context,
  { organizationId }: Actor,
  given: readonly TrialStep[],
): Promise<readonly StepDefinition[]> {
  const ids = given.map(({ plugin }) => plugin);
  const plugins = await findPlugins(context.db, organizationId, ids);
  const problems: Problem[] = [];
  const steps = given.flatMap(({ plugin: id, config, name }, index): StepDefinition[] => {
    const plugin = plugins.get(id);
    if (!plugin) {
      const detail = 'There is no plugin with this id that can run.';
      problems.push({ code: 'does_not_exist', detail, attr: `configs__${index}__plugin` });
      return [];
    }
    const found = configProblems(plugin, config);
    if (found.length > 0) {
      problems.push(...found.map((each) => ({ ...each, attr: `configs__${index}__${each.attr}` })));
      return [];
    }
    const texts = config as Readonly<Record<string, string>>;
    return [trialStep(plugin, { id: index + 1, name, config: texts })];
  });
  if (problems.length > 0) throw new Refusal(...problems);
  return steps;
}

function trialStep(
  { id, name: pluginName, source, configSchema }: InstalledPlugin,
  given: { readonly id: number; readonly name: string | null; readonly config: PluginConfig },
): StepDefinition {
  const transform = findTransform(id);
  if (transform) return compileStep(given, transform);
  const isSecret = new Set(configSchema.filter(({ secret }) => secret).map(({ key }) => key));
  const config = withDefaults(configSchema, given.config);
  const secrets = Object.entries(config).flatMap(([key, value]) =>
    isSecret.has(key) ? [value] : [],
  );
  const name = given.name ?? pluginName;
  return defineOwnStep({ id: given.id, name, source: source ?? '', config, secrets });
}

/** Steps with an own plugin that one request may try: each has a process in the API's machine. */
const maxOwnSteps = 4;

/** @returns whether the steps need a sandbox. @throws Refusal if they need too many */
export function refuseManySandboxes(
  steps: readonly StepDefinition[],
  attr: string | null,
): boolean {
  const own = steps.filter(({ kind }) => kind === 'own').length;
  if (own <= maxOwnSteps) return own > 0;
  const detail = `At most ${maxOwnSteps} steps with your own plugins can be tried at a time. Try the chain in parts.`;
  throw new Refusal({ code: 'invalid_input', detail, attr });
}

/** For the rows and the steps. */
const patienceMs = 30_000;

/**
 * Shows rows and stores nothing.
 *
 * @param attr what a refusal names if the steps cannot run
 * @throws Refusal if a plugin cannot be set up, or the steps take too long
 */
export async function previewPatiently(
  previewRows: PreviewRows,
  asked: PreviewedRows,
  attr: string | null,
  inSlot: Parameters<PreviewRows>[1],
  signal: AbortSignal,
): ReturnType<PreviewRows> {
  const late = AbortSignal.timeout(patienceMs);
  const refuse = (detail: string) => new Refusal({ code: 'invalid_input', detail, attr });
  try {
    return await previewRows(asked, inSlot, AbortSignal.any([signal, late]));
  } catch (error) {
    if (error instanceof StepFault && attr) throw refuse(`${error.spec.means} ${error.detail}`);
    if (late.aborted && !signal.aborted) {
      const detail = `The rows and their steps took more than ${patienceMs / 1_000} seconds. Ask for fewer rows.`;
      throw refuse(detail);
    }
    throw error;
  }
}
