import { isDeepStrictEqual } from 'node:util';
import { type Paint, plain } from '../text.ts';
import { type Api, RefusedRequest } from './api.ts';
import { isRecord, type Json } from './json.ts';
import type { CliDeps, Terminal } from '../deps.ts';
import { unknownIn } from './export-fields.ts';
import { expandVariables, type VariableNames, withoutVariablesIn } from './export-spec.ts';
import { readChain, readPlugins, type Step } from './step-verbs.ts';
import type { Plugin } from './types.ts';

export interface ApplyChoice {
  readonly prune?: boolean;
  readonly secrets?: boolean;
}

export type Action = 'create' | 'update' | 'delete' | 'unchanged';

/** A change that makes a step of the project that of a file. */
export interface Change {
  readonly action: Action;
  readonly name: string;
  readonly id: number | null;
  readonly fields: readonly string[];
  readonly body: Json;
}

/** For a log: without the body, which can have secrets. */
export const shownChange = <C extends { readonly body: Json }>({ body: _, ...change }: C) => change;

const deletionOf = (id: number, name: string): Change => {
  return { action: 'delete', name, id, fields: [], body: {} };
};

const marks = { create: '+', update: '~', delete: '-', unchanged: '=' } as const;
const colours = { create: 'green', update: 'yellow', delete: 'red', unchanged: 'dim' } as const;

/** `~ update     step Mask (7): enabled` */
export function changeLine(
  paint: Paint,
  { action, name, id }: Pick<Change, 'action' | 'name'> & { readonly id: string | number | null },
  what = '',
  fields: readonly string[] = [],
): string {
  const which = id === null ? '' : ` (${id})`;
  const changed = fields.length === 0 ? '' : `: ${fields.join(', ')}`;
  const line = `${marks[action]} ${action.padEnd(9)}  ${what}${plain(name)}${which}${changed}`;
  return paint(line, colours[action]);
}

/**
 * `1 created, 0 updated, …`; of a dry run `1 to create, 0 to update, …`.
 *
 * @param created what stands for the number of new ones
 */
export function countsOf(
  changes: readonly { readonly action: Action }[],
  isDryRun: boolean,
  created: (count: number) => string = String,
): string {
  const number = (action: Action) => changes.filter((change) => change.action === action).length;
  const [made, updated, deleted] = [created(number('create')), number('update'), number('delete')];
  const counts = isDryRun
    ? `${made} to create, ${updated} to update, ${deleted} to delete`
    : `${made} created, ${updated} updated, ${deleted} deleted`;
  return `${counts}, ${number('unchanged')} unchanged.`;
}

/** Goes on after a refusal, so that all faults are known at once. @param refused gets a line for each problem */
export async function sendChanges(
  api: Api,
  changes: readonly Change[],
  refused: string[],
): Promise<void> {
  const path = 'pipeline_transformation_configs';
  for (const change of changes) {
    const { action, name, id, body } = change;
    // A step that would take its place was refused.
    if (action === 'delete' && refused.length > 0) continue;
    const one = { path: { id } };
    try {
      if (action === 'create') await api.send('post', path, { body });
      if (action === 'update') await api.send('patch', `${path}/{id}`, { ...one, body });
      if (action === 'delete') await api.send('delete', `${path}/{id}`, one);
    } catch (error) {
      if (!(error instanceof RefusedRequest)) throw error;
      refused.push(...error.message.split('\n').map((line) => `${plain(`step ${name}`)}: ${line}`));
    }
  }
}

/** A step of the list `transformations` of a file; its position in the list is its order. */
interface WantedStep {
  readonly name: string;
  readonly plugin: string;
  readonly enabled: boolean;
  readonly config: Json;
  readonly where: string;
}

const fields = ['name', 'plugin', 'enabled', 'config'];

function readSteps(listed: readonly unknown[], problems: string[]): readonly WantedStep[] {
  const names = new Set<string>();
  const wantedSteps = listed.flatMap((entry, n): WantedStep[] => {
    const where = `transformations[${n}]`;
    if (!isRecord(entry)) {
      problems.push(`${where} must have name, plugin, enabled and config.`);
      return [];
    }
    problems.push(...unknownIn(entry, fields, `${where}.`));
    const { name, plugin, enabled, config = {} } = entry;
    if (typeof name !== 'string' || typeof plugin !== 'string') {
      problems.push(`${where}: a step needs a name, and the name of its plugin.`);
      return [];
    }
    if (typeof enabled !== 'boolean') {
      problems.push(`${where} (${plain(name)}): enabled must be true or false.`);
    }
    if (!isRecord(config)) problems.push(`${where} (${plain(name)}): config must have settings.`);
    if (names.has(name)) problems.push(`${where}.name: two steps are named ${plain(name)}.`);
    names.add(name);
    return [
      { name, plugin, enabled: enabled === true, config: isRecord(config) ? config : {}, where },
    ];
  });
  return wantedSteps;
}

/** Makes the chain of the project that of a file. Other steps stay, unless it is pruned. */
export async function planChain(
  deps: CliDeps,
  api: Api,
  listed: readonly unknown[],
  { problems, ...options }: ApplyChoice & { readonly problems: string[] },
): Promise<readonly Change[]> {
  const wantedSteps = readSteps(listed, problems);
  const [{ results: stored }, plugins] = [await readChain(api), await readPlugins(api)];
  const resendsSecrets = options.secrets ?? false;
  const comparing = { terminal: deps.terminal, resendsSecrets, problems };
  const changes = wantedSteps.map((step, n): Change => {
    const plugin = plugins.find(({ name }) => name === step.plugin);
    if (!plugin) problems.push(`${step.where}: there is no plugin ${plain(step.plugin)}.`);
    const storedStep = stored.find(({ name }) => name === step.name);
    if (plugin && storedStep && storedStep.plugin !== plugin.id) {
      problems.push(
        `${step.where}: the plugin of a step cannot change. Give the new step another name.`,
      );
    }
    return changeOf(step, n + 1, { stored: storedStep, plugin }, comparing);
  });
  const names = new Set(wantedSteps.map(({ name }) => name));
  const others = options.prune ? stored.filter(({ name }) => !names.has(name ?? '')) : [];
  return [...changes, ...others.map(({ id, name }) => deletionOf(id, name ?? `step ${id}`))];
}

interface Comparing {
  readonly terminal: Terminal;
  readonly resendsSecrets: boolean;
  readonly problems: string[];
}

function changeOf(
  { name, enabled, config, where }: WantedStep,
  order: number,
  { stored, plugin }: { readonly stored: Step | undefined; readonly plugin: Plugin | undefined },
  { terminal, resendsSecrets, problems }: Comparing,
): Change {
  const settings = plugin?.config_schema ?? [];
  const secret = new Set(settings.flatMap((one) => (one.secret ? [one.key] : [])));
  const missing: string[] = [];
  if (plugin) {
    const keys = settings.map(({ key }) => key);
    problems.push(...unknownIn(config, keys, `${where}.config.`));
  }
  const expanded = expandVariables(config, terminal.env, (field, variable) =>
    missing.push(`${where}.config.${field}: the environment variable ${variable} is not set.`),
  ) as Json;
  const before = stored?.details.config ?? {};
  const isSame = (key: string) =>
    secret.has(key)
      ? !resendsSecrets
      : isDeepStrictEqual(String(before[key] ?? ''), String(expanded[key] ?? ''));
  const changed = Object.keys(expanded).filter((key) => stored === undefined || !isSame(key));
  const others = { enabled, order };
  const differing = stored
    ? Object.entries(others).filter(([key, value]) => stored[key as 'enabled' | 'order'] !== value)
    : Object.entries(others);
  if (changed.length > 0) problems.push(...missing);
  const body = {
    ...Object.fromEntries(differing),
    ...(changed.length > 0
      ? { config: Object.fromEntries(changed.map((key) => [key, String(expanded[key])])) }
      : {}),
  };
  const named = [...differing.map(([key]) => key), ...changed];
  if (stored) {
    const action = named.length === 0 ? 'unchanged' : 'update';
    return { action, name, id: stored.id, fields: named, body };
  }
  return {
    action: 'create',
    name,
    id: null,
    fields: [],
    body: { ...body, name, plugin: plugin?.id },
  };
}

/** The chain as a list for a file, with a variable in place of each secret; empty for a key that may not read it. */
export async function chainOfFile(api: Api, variables: VariableNames): Promise<readonly Json[]> {
  const { scopes } = await api.call('get', '/api/me');
  if (!scopes.includes('plugin:read')) return [];
  const { results } = await readChain(api);
  if (results.length === 0) return [];
  const plugins = await readPlugins(api);
  return results.map((step) => {
    const plugin = plugins.find(({ id }) => id === step.plugin);
    const secret = new Set(plugin?.config_schema.flatMap((one) => (one.secret ? [one.key] : [])));
    const name = step.name ?? `step ${step.id}`;
    const prefix = variables.prefixOf(name);
    const config = Object.entries(step.details.config).map(([key, value]): [string, unknown] => [
      key,
      secret.has(key) ? `\${${prefix}_${key.toUpperCase()}}` : withoutVariablesIn(value),
    ]);
    return {
      name,
      plugin: plugin?.name ?? String(step.plugin),
      enabled: step.enabled,
      config: Object.fromEntries(config),
    };
  });
}
