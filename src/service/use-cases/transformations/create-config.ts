import { checkConfigSize } from '../../../foundation/domain/config-size.ts';
import {
  checkPluginConfig,
  type PluginConfig,
  withDefaults,
} from '../../../foundation/domain/plugin.ts';
import { type Problem, Refusal, refuseIfAny } from '../../../foundation/domain/problem.ts';
import type { InstalledPlugin } from '../../../state/store/transformations/plugins.ts';
import {
  insertTransformationConfig,
  nextTransformationConfigId,
  type TransformationConfig,
  type TransformationSettings,
} from '../../../state/store/transformations/transformation-configs.ts';
import { findTransform } from '../../../rows/transforms/index.ts';
import { readOwnConfig } from '../../../rows/transforms/own-steps.ts';
import { compileStep } from '../../../rows/transforms/step.ts';
import { InvalidSettings } from '../../../rows/transforms/transform.ts';
import type { Actor, Context } from '../context.ts';
import { recordActivity } from '../../../state/store/exports/activity.ts';
import { refuseLongChain } from './chain-size.ts';
import { findPlugins } from './plugins.ts';
import { sealPluginConfig } from './secrets.ts';

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
    const id = await nextTransformationConfigId(tx);
    const enabled = input.enabled && !input.deleted;
    if (enabled) await refuseLongChain(tx, teamId, id);
    const step = await insertTransformationConfig(
      tx,
      { id, teamId, plugin: plugin.id },
      {
        ...input,
        ...sealPluginConfig(secrets, plugin.configSchema, id, config),
        enabled,
      },
    );
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
  if (!plugin) throw new Refusal(unknownPlugin);
  refuseIfAny(configProblems(plugin, config));
  return plugin;
}

const unknownPlugin: Problem = {
  code: 'does_not_exist',
  detail: 'There is no plugin with this id.',
  attr: 'plugin',
};

/** All problems of a complete config: those that its schema finds, and those of the other values. */
export function configProblems(
  plugin: InstalledPlugin,
  config: Readonly<Record<string, unknown>>,
): Problem[] {
  const tooLarge = checkConfigSize(config, 'config');
  // To compile a large one costs too much.
  if (tooLarge.length > 0) return tooLarge;
  const problems = checkPluginConfig(plugin.configSchema, config);
  const faulty = new Set(problems.map(({ attr }) => attr));
  const sound = Object.entries(config).filter(([key]) => !faulty.has(key));
  const others = valueProblems(plugin, Object.fromEntries(sound) as PluginConfig).filter(
    ({ attr }) => !faulty.has(attr),
  );
  return [...problems, ...others].map(({ attr, ...problem }) => ({
    ...problem,
    attr: `config__${attr}`,
  }));
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
