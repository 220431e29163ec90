import type { Changes } from '../../../foundation/domain/export-settings.ts';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import { type PluginConfig, withDefaults } from '../../../foundation/domain/plugin.ts';
import {
  notFound,
  type Problem,
  Refusal,
  refuseIfAny,
  withAllProblems,
} from '../../../foundation/domain/problem.ts';
import type { SecretBox } from '../../../foundation/security/secret-box.ts';
import { changesIn, recordActivity } from '../../../state/store/exports/activity.ts';
import type { InstalledPlugin } from '../../../state/store/transformations/plugins.ts';
import { healTransformed } from '../../../state/store/healing/healing.ts';
import {
  deleteTransformationConfig,
  findTransformationConfig,
  type TransformationConfig,
  type TransformationSettings,
  updateTransformationConfig,
} from '../../../state/store/transformations/transformation-configs.ts';
import type { Actor, Context } from '../context.ts';
import { refuseLongChain } from './chain-size.ts';
import { configProblems, type CreateTransformationInput, type Step } from './create-config.ts';
import { findPlugins } from './plugins.ts';
import { openPluginConfig, sealPluginConfig, secretMask } from './secrets.ts';

/** The changes of a request; an undefined field keeps its value. */
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
    const before = await findTransformationConfig(tx, teamId, id, 'for update');
    if (!before) throw notFound();
    const plugins = await findPlugins(tx, actor.organizationId, [before.plugin]);
    const plugin = plugins.get(before.plugin) ?? null;
    const changed = checkChange(context, { step: before, plugin }, input);
    const deleted = input.deleted ?? before.deleted;
    const enabled = (input.enabled ?? before.enabled) && !deleted;
    if (enabled && !before.enabled) await refuseLongChain(tx, teamId, id);
    const settings: TransformationSettings = {
      ...changed,
      enabled,
      order: input.order ?? before.order,
      name: input.name === undefined ? before.name : input.name,
      description: input.description === undefined ? before.description : input.description,
      matchAction: input.matchAction === undefined ? before.matchAction : input.matchAction,
      deleted,
    };
    const step = await updateTransformationConfig(tx, id, settings);
    await healTransformed(tx, teamId);
    const changes = changesIn(fields, before, step);
    await recordActivity(tx, actor, 'updated', 'transformation_config', step, changes);
    return { step, plugin };
  });
}

const fixedPlugin: Problem = {
  code: 'invalid_input',
  detail: 'The plugin of a config cannot change. Create another config.',
  attr: 'plugin',
};

const missingPlugin: Problem = {
  code: 'does_not_exist',
  detail: 'The plugin is no longer installed, so its config cannot be checked. Install it again.',
  attr: 'plugin',
};

/** The config after a change. @throws Refusal with every problem of the change */
export function checkChange(
  context: Context,
  { step: before, plugin }: Step,
  input: UpdateTransformationInput,
): Pick<TransformationSettings, 'config' | 'secrets'> {
  const isOther = input.plugin !== undefined && input.plugin !== before.plugin;
  const [, changed] = withAllProblems(
    () => refuseIfAny(isOther ? [fixedPlugin] : []),
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
  if (!plugin) throw new Refusal(missingPlugin);
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
  'enabled',
  'order',
  'config',
  'name',
  'description',
  'matchAction',
  'deleted',
] as const;

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
