import { checkConfigSize } from '../../../foundation/domain/config-size.ts';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import { type Changes, withChanges } from '../../../foundation/domain/export-settings.ts';
import {
  checkPluginConfig,
  type PluginConfig,
  sampleJob,
  withDefaults,
} from '../../../foundation/domain/plugin.ts';
import {
  invalid,
  notFound,
  orNotFound,
  type Problem,
  problemsIn,
  Refusal,
  refuseIfAny,
  withAllProblems,
} from '../../../foundation/domain/problem.ts';
import type { SecretBox } from '../../../foundation/security/secret-box.ts';
import { findTransform } from '../../../rows/transforms/index.ts';
import { readOwnConfig } from '../../../rows/transforms/own-steps.ts';
import { compileStep } from '../../../rows/transforms/step.ts';
import { InvalidSettings } from '../../../rows/transforms/transform.ts';
import type { Sql } from '../../../state/store/database/database.ts';
import { changesIn, recordActivity } from '../../../state/store/exports/activity.ts';
import { healTransformed } from '../../../state/store/healing/healing.ts';
import type { InstalledPlugin } from '../../../state/store/transformations/plugins.ts';
import {
  askForSample,
  type ChainStepPosition,
  countEnabledSteps,
  deleteTransformationConfig,
  findTransformationConfig,
  insertTransformationConfig,
  lockChain,
  moveSteps,
  nextTransformationConfigId,
  type TransformationConfig,
  type TransformationSettings,
  updateTransformationConfig,
} from '../../../state/store/transformations/transformation-configs.ts';
import type { Actor, Context } from '../context.ts';
import { openPluginConfig, sealPluginConfig, secretMask } from './open-chain.ts';
import { findPlugins } from './plugins.ts';

export interface CreateTransformationInput
  extends Omit<TransformationSettings, 'config' | 'secrets'> {
  readonly plugin: number;
  readonly config: Readonly<Record<string, unknown>>;
}

/** A step and the plugin that it uses; null if the plugin is no longer installed. */
export interface Step {
  readonly step: TransformationConfig;
  readonly plugin: InstalledPlugin | null;
}

/** Adds a step to a project's chain. A deleted step is never enabled. */
export async function createTransformationConfig(
  context: Context,
  actor: Actor,
  teamId: number,
  input: CreateTransformationInput,
): Promise<Step> {
  const { db, secrets } = context;
  const plugin = await checkNewStep(context, actor, input);
  const config = withDefaults(plugin.configSchema, input.config as Record<string, string>);
  return db.transaction(async (tx) => {
    const { id } = await nextTransformationConfigId(tx);
    const enabled = input.enabled && !input.deleted;
    if (enabled) await refuseLongChain(tx, teamId, id);
    const sealed = sealPluginConfig(secrets, plugin.configSchema, id, config);
    const settings = { ...input, ...sealed, enabled };
    const step = await insertTransformationConfig(tx, { id, teamId, plugin: plugin.id }, settings);
    const change = { field: 'plugin', before: null, after: plugin.id };
    await recordActivity(tx, actor, 'created', 'transformation_config', step, [change]);
    return { step, plugin };
  });
}

/** The plugin of a new step. @throws Refusal if there is none, or with every problem of its config */
export async function checkNewStep(
  { db }: Context,
  { organizationId }: Actor,
  { plugin: id, config }: Pick<CreateTransformationInput, 'plugin' | 'config'>,
): Promise<InstalledPlugin> {
  const plugin = (await findPlugins(db, organizationId, [id])).get(id);
  if (!plugin) {
    const detail = 'There is no plugin with this id.';
    throw new Refusal({ code: 'does_not_exist', detail, attr: 'plugin' });
  }
  refuseIfAny(configProblems(plugin, config));
  return plugin;
}

/** All problems of a complete config: those that its schema finds, and those of the other values. */
export function configProblems(plugin: InstalledPlugin, config: Readonly<Record<string, unknown>>) {
  const tooLarge = checkConfigSize(config, 'config');
  // To compile a large one costs too much.
  if (tooLarge.length > 0) return tooLarge;
  const problems = checkPluginConfig(plugin.configSchema, config);
  const faulty = new Set(problems.map(({ attr }) => attr));
  const sound = Object.entries(config).filter(([key]) => !faulty.has(key));
  const ofValues = valueProblems(plugin, Object.fromEntries(sound) as PluginConfig);
  const others = ofValues.filter(({ attr }) => !faulty.has(attr));
  return [...problems, ...others].map((one) => ({ ...one, attr: `config__${one.attr}` }));
}

/** @param config texts, some of which may be missing */
function valueProblems({ id }: InstalledPlugin, config: PluginConfig): readonly Problem[] {
  const transform = findTransform(id);
  try {
    if (transform) compileStep({ id, name: null, config }, transform);
    else readOwnConfig(config);
    return [];
  } catch (error) {
    if (!(error instanceof InvalidSettings)) throw error;
    return error.problems;
  }
}

export type UpdateTransformationInput = Changes<CreateTransformationInput>;

/** Changes a step. `deleted: true` also disables it; `deleted: false` undoes the deletion. */
export async function changeTransformationConfig(
  context: Context,
  actor: Actor,
  teamId: number,
  id: number,
  input: UpdateTransformationInput,
): Promise<Step> {
  return context.db.transaction(async (tx) => {
    const before = orNotFound(await findTransformationConfig(tx, teamId, id, 'for update'));
    const plugins = await findPlugins(tx, actor.organizationId, [before.plugin]);
    const plugin = plugins.get(before.plugin) ?? null;
    const changed = checkChange(context, { step: before, plugin }, input);
    const deleted = input.deleted ?? before.deleted;
    const enabled = (input.enabled ?? before.enabled) && !deleted;
    if (enabled && !before.enabled) await refuseLongChain(tx, teamId, id);
    const { config: _, plugin: __, ...others } = input;
    const settings = { ...withChanges(before, others), ...changed, enabled, deleted };
    const step = await updateTransformationConfig(tx, id, settings);
    await healTransformed(tx, teamId);
    const changes = changesIn(fields, before, step);
    await recordActivity(tx, actor, 'updated', 'transformation_config', step, changes);
    return { step, plugin };
  });
}

/** The config after a change. @throws Refusal with every problem of the change */
export function checkChange(
  context: Context,
  { step: before, plugin }: Step,
  input: UpdateTransformationInput,
): Pick<TransformationSettings, 'config' | 'secrets'> {
  const isOther = input.plugin !== undefined && input.plugin !== before.plugin;
  const detail = 'The plugin of a config cannot change. Create another config.';
  const [, changed] = withAllProblems(
    () => refuseIfAny(problemsIn([isOther, 'plugin', detail])),
    () => changeConfig(context, plugin, before, input.config),
  );
  return changed;
}

/**
 * Merges the change into the config: null removes a setting, the mask keeps a secret. A value that was
 * encrypted becomes plain only if the request sends it again.
 */
function changeConfig(
  { secrets }: Context,
  plugin: InstalledPlugin | null,
  before: TransformationConfig,
  change: UpdateTransformationInput['config'],
): Pick<TransformationSettings, 'config' | 'secrets'> {
  if (change === undefined) return { config: before.config, secrets: before.secrets };
  if (!plugin) {
    const detail =
      'The plugin is no longer installed, so its config cannot be checked. Install it again.';
    throw new Refusal({ code: 'does_not_exist', detail, attr: 'plugin' });
  }
  const sent = Object.entries(change).filter(([, value]) => value !== secretMask);
  const current = openUnlessReplaced(secrets, plugin, before, new Map(sent));
  const merged: Record<string, unknown> = { ...current };
  for (const [key, value] of sent) {
    if (value === null) delete merged[key];
    else merged[key] = value;
  }
  refuseIfAny(configProblems(plugin, merged));
  const whole = withDefaults(plugin.configSchema, merged as Record<string, string>);
  const keptSealed = Object.keys(current).filter(
    (key) => !Object.hasOwn(before.config, key) && !sent.some(([name]) => name === key),
  );
  return sealPluginConfig(secrets, plugin.configSchema, before.id, whole, keptSealed);
}

/**
 * The current config. If its secrets are damaged, only the plain settings: then the request must send every
 * secret setting, since which of them had a value is unknown.
 */
function openUnlessReplaced(
  secrets: SecretBox,
  { configSchema }: InstalledPlugin,
  before: TransformationConfig,
  sent: ReadonlyMap<string, unknown>,
): PluginConfig {
  try {
    return openPluginConfig(secrets, before);
  } catch (error) {
    if (!(error instanceof SluiceError) || error.code !== 'secrets.undecryptable') throw error;
    const missing = configSchema.filter(({ key, secret }) => secret && !sent.has(key));
    refuseIfAny(
      missing.map(({ key }) => ({
        code: 'required',
        detail: `The stored secrets cannot be decrypted. Send ${key} again, or null if there is none.`,
        attr: `config__${key}`,
      })),
    );
    return before.config;
  }
}

const fields = [
  ...(['enabled', 'order', 'config', 'name', 'description', 'matchAction', 'deleted'] as const),
];

export async function removeTransformationConfig(
  context: Context,
  actor: Actor,
  teamId: number,
  id: number,
): Promise<void> {
  return context.db.transaction(async (tx) => {
    if (!(await deleteTransformationConfig(tx, teamId, id))) throw notFound();
    await recordActivity(tx, actor, 'deleted', 'transformation_config', { teamId, id });
  });
}

/**
 * Maximum enabled steps of a project. Every run holds all their configs, and each row goes through all of them, in
 * a process that has runs of others too.
 */
export const maxSteps = 50;

/** Before a step is enabled. @throws Refusal if the chain is full */
async function refuseLongChain(tx: Sql, teamId: number, id: number): Promise<void> {
  if ((await countEnabledSteps(tx, teamId, id)) < maxSteps) return;
  const detail = `The project has ${maxSteps} enabled steps, the maximum. Disable one first, or create this one with enabled false.`;
  throw new Refusal(invalid('enabled', detail));
}

/** Records a job of a step's plugin; it runs in the background. */
export async function startTransformationJob(
  context: Context,
  actor: Actor,
  teamId: number,
  id: number,
  job: { readonly type: string; readonly payload: Readonly<Record<string, unknown>> },
): Promise<Step> {
  refuseIfAny(checkConfigSize(job.payload, 'job__payload'));
  return context.db.transaction(async (tx) => {
    const step = orNotFound(await findTransformationConfig(tx, teamId, id, 'for update'));
    const plugin = (await findPlugins(tx, actor.organizationId, [step.plugin])).get(step.plugin);
    const offered = [sampleJob, ...(plugin?.jobs ?? [])].map(({ type }) => type);
    if (!offered.includes(job.type)) {
      const detail = `Unknown job. The jobs of the plugin are ${offered.join(', ')}.`;
      throw new Refusal({ code: 'invalid_choice', detail, attr: 'job__type' });
    }
    await askForSample(tx, id);
    const change = { field: 'job', before: null, after: job.type };
    await recordActivity(tx, actor, 'job started', 'transformation_config', step, [change]);
    return { step, plugin: plugin ?? null };
  });
}

/** New orders by the id of the step, or the new order of a plugin's only step. */
export type Rearrangement =
  | { readonly orders: ReadonlyMap<number, number> }
  | { readonly plugin: number; readonly order: number };

/** Moves all steps, or none if one is refused. @returns the first of them */
export async function rearrangeTransformationConfigs(
  context: Context,
  actor: Actor,
  teamId: number,
  asked: Rearrangement,
): Promise<TransformationConfig> {
  return context.db.transaction(async (tx) => {
    const chain = await lockChain(tx, teamId);
    const orders =
      'orders' in asked ? ordersById(chain, asked.orders) : orderOfPlugin(chain, asked);
    await moveSteps(tx, teamId, orders);
    const [first = 0] = orders.keys();
    const moved = await findTransformationConfig(tx, teamId, first);
    if (!moved) throw new Error('a locked step is missing');
    await recordMoves(tx, actor, chain, orders);
    return moved;
  });
}

function ordersById(
  chain: readonly ChainStepPosition[],
  orders: ReadonlyMap<number, number>,
): ReadonlyMap<number, number> {
  const own = new Set(chain.map(({ id }) => id));
  const problems = [...orders.keys()]
    .filter((id) => !own.has(id))
    .map((id): Problem => {
      const detail = 'The project has no transformation config with this id.';
      return { code: 'does_not_exist', detail, attr: `orders__${id}` };
    });
  refuseIfAny(problems);
  return orders;
}

function orderOfPlugin(
  chain: readonly ChainStepPosition[],
  { plugin, order }: { readonly plugin: number; readonly order: number },
): ReadonlyMap<number, number> {
  const [step, ...others] = chain.filter((candidate) => candidate.plugin === plugin);
  if (!step) {
    const detail = 'The project has no transformation config of this plugin.';
    throw new Refusal({ code: 'does_not_exist', detail, attr: 'plugin' });
  }
  if (others.length > 0) {
    const detail = 'The project has several configs of this plugin. Use orders and name their ids.';
    throw new Refusal({ code: 'invalid_input', detail, attr: 'plugin' });
  }
  return new Map([[step.id, order]]);
}

/** One activity for all steps that move: a chain may have thousands. Its subject is the first of them. */
async function recordMoves(
  tx: Sql,
  actor: Actor,
  chain: readonly ChainStepPosition[],
  orders: ReadonlyMap<number, number>,
): Promise<void> {
  const moved = chain.filter(({ id, order }) => (orders.get(id) ?? order) !== order);
  const [first] = moved;
  if (!first) return;
  const before = Object.fromEntries(moved.map(({ id, order }) => [id, order]));
  const after = Object.fromEntries(moved.map(({ id }) => [id, orders.get(id)]));
  const change = { field: 'order', before, after };
  await recordActivity(tx, actor, 'moved', 'transformation_config', first, [change]);
}
