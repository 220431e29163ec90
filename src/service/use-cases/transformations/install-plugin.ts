import { isDeepStrictEqual } from 'node:util';
import { checkConfigSize } from '../../../foundation/domain/config-size.ts';
import type { Changes } from '../../../foundation/domain/export-settings.ts';
import type { PluginField } from '../../../foundation/domain/plugin.ts';
import {
  notFound,
  type Problem,
  Refusal,
  refuseIfAny,
} from '../../../foundation/domain/problem.ts';
import { changesIn, recordActivity } from '../../../state/store/exports/activity.ts';
import {
  type InstalledPlugin,
  insertPlugin,
  type PluginSettings,
  updatePlugin,
} from '../../../state/store/transformations/plugins.ts';
import { stepFields } from '../../../rows/transforms/transform.ts';
import type { Actor, Context } from '../context.ts';
import { findPlugins, withStepFields } from './plugins.ts';

/** A plugin as it is published: null is an entry of the form that is no setting. */
type PublishedPlugin = Omit<PluginSettings, 'configSchema'> & {
  readonly configSchema: readonly (PluginField | null)[];
};

/**
 * Installs a plugin of the organization's own. A sandbox reads its source first.
 *
 * @throws Refusal also with what `OwnSteps.inspect` finds
 */
export async function installPlugin(
  context: Context,
  actor: Actor,
  plugin: PublishedPlugin,
): Promise<InstalledPlugin> {
  const { settings, problems } = settingsOf(plugin);
  refuseIfAny(problems);
  refuseIfAny(await context.ownSteps.inspect(settings.source));
  return context.db.transaction(async (tx) => {
    const installed = withStepFields(await insertPlugin(tx, actor.organizationId, settings));
    const change = { field: 'name', before: null, after: installed.name };
    await recordActivity(tx, actor, 'created', 'plugin', { id: installed.id }, [change]);
    return installed;
  });
}

/**
 * Changes a plugin of the organization's own; live runs keep the source they began with.
 *
 * @throws Refusal also with what `OwnSteps.inspect` finds in a new source
 */
export async function changePlugin(
  context: Context,
  actor: Actor,
  id: number,
  change: Changes<PublishedPlugin>,
): Promise<InstalledPlugin> {
  // Before the transaction: it takes up to seconds.
  const faults = change.source === undefined ? [] : await context.ownSteps.inspect(change.source);
  return context.db.transaction(async (tx) => {
    const before = (await findPlugins(tx, actor.organizationId, [id])).get(id);
    if (!before) throw notFound();
    if (before.source === null) throw new Refusal(isBuiltIn);
    const { settings, problems } = settingsOf({
      name: change.name ?? before.name,
      description: change.description === undefined ? before.description : change.description,
      url: change.url === undefined ? before.url : change.url,
      configSchema: change.configSchema ?? before.configSchema,
      source: change.source ?? before.source,
    });
    refuseIfAny(problems);
    refuseIfAny(faults);
    const after = withStepFields(await updatePlugin(tx, id, settings));
    const fields = ['name', 'description', 'url', 'configSchema', 'source'] as const;
    await recordActivity(tx, actor, 'updated', 'plugin', { id }, changesIn(fields, before, after));
    return after;
  });
}

/** Without the settings that every step has: a client sends back what it was shown. */
function settingsOf(plugin: PublishedPlugin) {
  const own = plugin.configSchema.map((field) => {
    const isOfSteps = stepFields.some((known) => isDeepStrictEqual(known, field));
    return isOfSteps ? null : field;
  });
  const settings: PluginSettings = { ...plugin, configSchema: own.flatMap((one) => one ?? []) };
  const problems: Problem[] = checkConfigSize(settings.configSchema, 'config_schema');
  const seen = new Set<string>();
  for (const [index, field] of own.entries()) {
    if (field === null) continue;
    problems.push(...fieldProblems(field, `config_schema__${index}`));
    if (stepFields.some(({ key }) => key === field.key)) {
      const detail = `Every step has a setting ${field.key}. Choose another key.`;
      problems.push({ code: 'invalid_input', detail, attr: `config_schema__${index}__key` });
    }
    if (seen.has(field.key)) {
      const detail = 'Another setting has this key. Give each setting its own key.';
      problems.push({ code: 'invalid_input', detail, attr: `config_schema__${index}__key` });
    }
    seen.add(field.key);
  }
  return { settings, problems };
}

function fieldProblems({ type, choices, default: value }: PluginField, attr: string): Problem[] {
  if (type !== 'choice') return [];
  if (choices.length === 0) {
    const detail = 'A setting of type choice needs choices.';
    return [{ code: 'required', detail, attr: `${attr}__choices` }];
  }
  if (value === null || choices.includes(value)) return [];
  const detail = `Must be one of ${choices.join(', ')}.`;
  return [{ code: 'invalid_choice', detail, attr: `${attr}__default` }];
}

const isBuiltIn: Problem = {
  code: 'invalid_input',
  detail: 'A built-in plugin cannot be changed.',
  attr: null,
};
