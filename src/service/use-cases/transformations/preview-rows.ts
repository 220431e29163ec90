import type { BatchExport } from '../../../foundation/domain/batch-export.ts';
import { StepFault } from '../../../foundation/domain/errors.ts';
import type { ExportMode } from '../../../foundation/domain/export-settings.ts';
import type { DestinationConfig } from '../../../foundation/domain/file-settings.ts';
import { type PluginConfig, withDefaults } from '../../../foundation/domain/plugin.ts';
import {
  invalid,
  type Problem,
  problemsIn,
  Refusal,
  refuseIfAny,
} from '../../../foundation/domain/problem.ts';
import type { PropertyFilter } from '../../../foundation/domain/property-filter.ts';
import type { StepTally } from '../../../rows/transforms/chain-step.ts';
import { findTransform } from '../../../rows/transforms/index.ts';
import { defineOwnStep, type StepDefinition } from '../../../rows/transforms/own-steps.ts';
import { compileStep } from '../../../rows/transforms/step.ts';
import { findChain } from '../../../state/store/transformations/chains.ts';
import type { InstalledPlugin } from '../../../state/store/transformations/plugins.ts';
import type { Actor, Context } from '../context.ts';
import { refuseRows } from '../exports/destination.ts';
import { changeFilters, checkFixed, type ExportRules } from '../exports/rules.ts';
import { openChain } from './open-chain.ts';
import { findPlugins } from './plugins.ts';
import { configProblems } from './steps.ts';

/** The rows and their chain as a request has them. A field that it does not have is as in the saved export. */
export interface PreviewInput {
  readonly saved: BatchExport | null;
  readonly teamId: number;
  readonly model: string | undefined;
  readonly mode: ExportMode | undefined;
  readonly dslQuery: string | null | undefined;
  readonly filters: readonly PropertyFilter[] | null | undefined;
  readonly transformations: boolean | undefined;
  readonly config: DestinationConfig | undefined;
  readonly configs: readonly TrialStep[] | undefined;
  /** Rows of the caller; null: the newest rows of the source. */
  readonly given: readonly Readonly<Record<string, unknown>>[] | null;
  readonly limit: number;
  /** True if the answer shows what each step makes of each row. */
  readonly trace: boolean;
}

export interface PreviewedRows extends Pick<PreviewInput, 'teamId' | 'given' | 'limit' | 'trace'> {
  readonly model: string;
  /** Missing: append, if the model has a time of arrival. */
  readonly mode?: ExportMode | undefined;
  readonly dslQuery: string | null;
  /** Its event filters and file settings count. */
  readonly config: DestinationConfig;
  readonly steps: readonly StepDefinition[];
}

interface ChosenRows extends Omit<PreviewedRows, 'steps'> {
  readonly configs: readonly TrialStep[] | null;
  readonly transformations: boolean;
}

export function choosePreview(rules: ExportRules, input: PreviewInput): ChosenRows {
  const { saved, teamId, configs = null, given, limit, trace } = input;
  const model = saved?.model ?? input.model ?? '';
  const config = { ...saved?.destination.config, ...input.config };
  const transformations = input.transformations ?? (saved?.transformations && !configs) ?? false;
  const before = saved ?? { model, dslQuery: null, filters: null };
  const { dslQuery, problems } = changeFilters(rules, before, input);
  const mode = input.mode ?? saved?.mode;
  const chosen = { teamId, model, mode, config, configs, transformations, given, limit, trace };
  refuseIfAny([
    ...(saved ? checkFixed('model', saved.model, input.model) : []),
    ...problemsIn([configs !== null && transformations, 'transformations', bothChains]),
    ...(given ? [...choicesOf(input), ...columnsOf(given)] : problems),
  ]);
  if (given) return { ...chosen, dslQuery: null };
  refuseRows(rules, { model, dslQuery, transformations }, config);
  return { ...chosen, dslQuery };
}

const bothChains = 'configs are in place of the stored chain. Send one of the two.';

function choicesOf({ dslQuery, filters, config }: PreviewInput): readonly Problem[] {
  const choices = Object.entries({ dsl_query: dslQuery, filters, destination: config });
  const remedy = 'chooses rows of the source. Remove it, or remove rows.';
  return problemsIn(
    ...choices.map(
      ([attr, value]) => [(value ?? null) !== null, attr, `${attr} ${remedy}`] as const,
    ),
  );
}

/** As many as a table of PostgreSQL has. Each row has the columns of all. */
const maxColumns = 1_600;

function columnsOf(given: NonNullable<PreviewInput['given']>): readonly Problem[] {
  const { size } = new Set(given.flatMap((row) => Object.keys(row)));
  const detail = `The rows have ${size} columns. The maximum is ${maxColumns}.`;
  return size > maxColumns ? [{ code: 'max_length', detail, attr: 'rows' }] : [];
}

/** The steps of a preview. @throws SluiceError `transformation.invalid`, Refusal with every problem */
export async function openPreviewSteps(
  context: Context,
  actor: Actor,
  { teamId, configs, transformations }: ChosenRows,
): Promise<readonly StepDefinition[]> {
  if (configs) return trialSteps(context, actor, configs);
  if (!transformations) return [];
  const chain = await openChain(context, teamId, await findChain(context.db, teamId));
  return chain?.steps ?? [];
}

/** Shows rows as files would contain them. Throws SluiceError. @param inSlot runs what needs a connection */
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
  /** A sentence or more about the rows that are left out; null: none are. */
  readonly leftOut: string | null;
  readonly steps: readonly StepTally[];
}>;

export interface TrialStep {
  readonly plugin: number;
  readonly config: Readonly<Record<string, unknown>>;
  readonly name: string | null;
}

/** Steps from the request itself; they are numbered from 1. @throws Refusal with every problem */
async function trialSteps(
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
    const faults = configProblems(plugin, config);
    problems.push(...faults.map((each) => ({ ...each, attr: `configs__${index}__${each.attr}` })));
    if (faults.length > 0) return [];
    const texts = config as Readonly<Record<string, string>>;
    return [trialStep(context, plugin, { id: index + 1, name, config: texts })];
  });
  if (problems.length > 0) throw new Refusal(...problems);
  return steps;
}

function trialStep(
  { ownSteps }: Pick<Context, 'ownSteps'>,
  { id, name: pluginName, source, configSchema }: InstalledPlugin,
  given: { readonly id: number; readonly name: string | null; readonly config: PluginConfig },
): StepDefinition {
  const transform = findTransform(id);
  if (transform) return compileStep(given, transform);
  const isSecret = new Set(configSchema.filter(({ secret }) => secret).map(({ key }) => key));
  const config = withDefaults(configSchema, given.config);
  const secrets = Object.entries(config).flatMap(([key, text]) => (isSecret.has(key) ? text : []));
  const name = given.name ?? pluginName;
  return defineOwnStep(ownSteps, { id: given.id, name, source: source ?? '', config, secrets });
}

/** Steps with an own plugin that one request may try: each has a process in the API's machine. */
const maxOwnSteps = 4;

/**
 * @param attr the field that has the steps; null: they are stored
 * @returns whether the steps need a sandbox
 * @throws Refusal if they need too many
 */
export function refuseManySandboxes(steps: readonly StepDefinition[], attr: string | null) {
  const own = steps.filter(({ kind }) => kind === 'own').length;
  if (own <= maxOwnSteps) return own > 0;
  const detail = `At most ${maxOwnSteps} steps with your own plugins can be tried at a time. Try the chain in parts.`;
  throw new Refusal(invalid(attr, detail));
}

const patienceMs = 30_000;

/**
 * Shows rows and stores nothing.
 *
 * @param attr the field that has the steps; null: they are stored
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
  const refuse = (detail: string) => new Refusal(invalid(attr, detail));
  try {
    return await previewRows(asked, inSlot, AbortSignal.any([signal, late]));
  } catch (error) {
    if (error instanceof StepFault && attr) throw refuse(`${error.spec.means} ${error.detail}`);
    if (late.aborted && !signal.aborted) {
      throw refuse(
        `The rows and their steps took more than ${patienceMs / 1_000} seconds. Ask for fewer rows.`,
      );
    }
    throw error;
  }
}
