import { isDeepStrictEqual } from 'node:util';
import { checkConfigSize } from '../../../foundation/domain/config-size.ts';
import { type Changes, withChanges } from '../../../foundation/domain/export-settings.ts';
import type { PluginField } from '../../../foundation/domain/plugin.ts';
import {
  invalid,
  orNotFound,
  type Problem,
  problemsIn,
  Refusal,
  refuseIfAny,
} from '../../../foundation/domain/problem.ts';
import { transforms } from '../../../rows/transforms/index.ts';
import { ownSchema } from '../../../rows/transforms/own-steps.ts';
import { stepFields } from '../../../rows/transforms/transform.ts';
import type { Sql } from '../../../state/store/database/database.ts';
import type { OffsetPage, PageRequest } from '../../../state/store/database/lists.ts';
import { changesIn, recordActivity } from '../../../state/store/exports/activity.ts';
import {
  findOwnPlugins,
  type InstalledPlugin,
  insertPlugin,
  listOwnPlugins,
  type PluginSettings,
  updatePlugin,
} from '../../../state/store/transformations/plugins.ts';
import type { Actor, Context } from '../context.ts';

const builtIns: readonly InstalledPlugin[] = transforms.map((transform) => {
  const { id, organizationId, name, description, url, configSchema, jobs } = transform;
  const facts = { id, organizationId, name, description, url, configSchema, jobs };
  return { ...facts, source: null, createdAt: null, updatedAt: null };
});

/** @param withSource whether own plugins have their source, else null */
export async function findPlugins(
  sql: Sql,
  organizationId: string,
  ids: readonly number[],
  withSource = true,
): Promise<Map<number, InstalledPlugin>> {
  const byId = new Map(builtIns.filter(({ id }) => ids.includes(id)).map((p) => [p.id, p]));
  const others = ids.filter((id) => !byId.has(id));
  if (others.length === 0) return byId;
  for (const own of await findOwnPlugins(sql, organizationId, others, withSource)) {
    byId.set(own.id, withStepFields(own));
  }
  return byId;
}

function withStepFields(own: InstalledPlugin): InstalledPlugin {
  return { ...own, configSchema: ownSchema(own.configSchema) };
}

/** Built-in ones first, then the organization's own, oldest first. */
export async function listPlugins(
  sql: Sql,
  organizationId: string,
  { limit, offset }: PageRequest,
): Promise<OffsetPage<InstalledPlugin>> {
  const first = builtIns.slice(offset, offset + limit);
  const own = await listOwnPlugins(sql, organizationId, {
    limit: limit - first.length,
    offset: Math.max(0, offset - builtIns.length),
  });
  return {
    count: builtIns.length + own.count,
    results: [...first, ...own.results.map(withStepFields)],
  };
}

/** A plugin as it is published: null is an entry of the form that is no setting. */
type PublishedPlugin = Omit<PluginSettings, 'configSchema'> & {
  readonly configSchema: readonly (PluginField | null)[];
};

/** A sandbox reads its source first. @throws Refusal also with what `OwnSteps.inspect` finds */
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

/** Live runs keep the source they began with. @throws Refusal also with what `OwnSteps.inspect` finds */
export async function changePlugin(
  context: Context,
  actor: Actor,
  id: number,
  change: Changes<PublishedPlugin>,
): Promise<InstalledPlugin> {
  // Before the transaction: it takes up to seconds.
  const faults = change.source === undefined ? [] : await context.ownSteps.inspect(change.source);
  return context.db.transaction(async (tx) => {
    const before = orNotFound((await findPlugins(tx, actor.organizationId, [id])).get(id));
    if (before.source === null) {
      throw new Refusal(invalid(null, 'A built-in plugin cannot be changed.'));
    }
    const { name, description, url, configSchema, source } = before;
    const published = { name, description, url, configSchema, source };
    const { settings, problems } = settingsOf(withChanges<PublishedPlugin>(published, change));
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
    const { key } = field;
    const attr = `config_schema__${index}__key`;
    const isOfSteps = stepFields.some((known) => known.key === key);
    const twice = 'Another setting has this key. Give each setting its own key.';
    problems.push(
      ...problemsIn(
        [isOfSteps, attr, `Every step has a setting ${key}. Choose another key.`],
        [seen.has(key), attr, twice],
      ),
    );
    seen.add(key);
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
