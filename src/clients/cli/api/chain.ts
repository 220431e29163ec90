import { type CliDeps, CliError, misused } from '../deps.ts';
import { type Cell, paintFor, plural, tableLines } from '../text.ts';
import { type Api, quoted, readAll } from './api.ts';
import { confirm } from './confirm.ts';
import { expandVariables } from './export-spec.ts';
import type { Json } from './json.ts';
import { type ApiOptions, openApi } from './open-api.ts';
import { print } from './print.ts';
import type { AnswerOf } from './types.ts';

const path = '/pipeline_transformation_configs';
type Chain = AnswerOf<'get', '/pipeline_transformation_configs'>;
export type Step = Chain['results'][number];

/** The whole chain of the project, in its order. */
export async function readChain(api: Api): Promise<Chain> {
  const readPage = (offset: number) => api.call('get', path, { query: { limit: 1_000, offset } });
  const first = await readPage(0);
  const results = await readAll((offset) =>
    offset === 0 ? Promise.resolve(first) : readPage(offset),
  );
  return { ...first, results: [...results] };
}

/** `sluice transformations list`: the steps, and which exports apply them. */
export async function list(deps: CliDeps, options: ApiOptions): Promise<void> {
  const chain = await readChain(openApi(deps, options));
  print(deps, options, chain.results, () => {
    const rows = chain.results.map((step): (Cell | string)[] => [
      { text: String(step.id), atEnd: true },
      step.name ?? '',
      String(step.details.plugin_info.name ?? `plugin ${step.plugin}`),
      step.enabled ? { text: 'enabled', colour: 'green' } : { text: 'disabled', colour: 'dim' },
      step.error ?? '',
    ]);
    const head = ['ID', 'NAME', 'PLUGIN', 'STATE', 'ERROR'];
    const steps =
      rows.length === 0 ? ['No steps.'] : tableLines(head, rows, paintFor(deps.terminal));
    return [...steps, appliedBy(chain)];
  });
}

function appliedBy({ applied_by: { count, exports, results } }: Chain): string {
  if (count === 0) {
    return `No export applies the chain. Turn it on: sluice exports update <export> --set transformations=true`;
  }
  const names = results.map(({ name }) => quoted(name)).join(', ');
  const more = count > results.length ? `, and ${count - results.length} more` : '';
  return `Applied by ${count} of ${plural(exports, 'export')}: ${names}${more}.`;
}

/** `sluice transformations plugins`: what a step can be made from. */
export async function plugins(deps: CliDeps, options: ApiOptions): Promise<void> {
  const found = await openApi(deps, options).readPlugins();
  print(deps, options, found, () => {
    const rows = found.map(({ id, name, config_schema: fields }): (Cell | string)[] => [
      { text: String(id), atEnd: true },
      name,
      fields.map(({ key, required }) => (required ? `${key}*` : key)).join(', '),
    ]);
    return tableLines(['ID', 'PLUGIN', 'SETTINGS (* required)'], rows, paintFor(deps.terminal));
  });
}

const optionOf = { name: '--name', order: '--order' };

export interface StepOptions extends ApiOptions {
  readonly set?: readonly string[];
  readonly name?: string;
  readonly order?: number;
  readonly enabled?: boolean;
  readonly disabled?: boolean;
}

/** `sluice transformations create`: a new step says whether it is enabled, so that no mask is taken for one that works. */
export async function create(deps: CliDeps, plugin: string, options: StepOptions): Promise<void> {
  if (options.enabled === undefined && options.disabled === undefined) {
    throw misused('Say whether the step changes rows from now on: --enabled or --disabled.');
  }
  const api = openApi(deps, options);
  const pluginId = await findPlugin(api, plugin);
  const chain = await readChain(api);
  const last = Math.max(0, ...chain.results.map(({ order }) => order));
  const body = { plugin: pluginId, order: last + 1, ...bodyOf(deps, options) };
  const step = await api.call('post', path, { body, optionOf });
  print(deps, options, step, () => [
    `Created step ${step.id}, ${stateOf(step)}. ${appliedBy(chain)}`,
  ]);
}

async function findPlugin(api: Api, nameOrId: string): Promise<number> {
  if (/^\d+$/.test(nameOrId)) return Number(nameOrId);
  const known = await api.readPlugins();
  const found = known.find(({ name }) => name === nameOrId);
  if (found) return found.id;
  const names = known.map(({ name }) => quoted(name)).join(', ');
  throw new CliError(`There is no plugin ${quoted(nameOrId)}. There are ${names}.`);
}

const at = (id: number) => ({
  path: { id: String(id) },
  notFound: `There is no step ${id}. \`sluice transformations list\` lists them.`,
});

export async function update(deps: CliDeps, id: number, options: StepOptions): Promise<void> {
  const body = bodyOf(deps, options);
  if (Object.keys(body).length === 0) {
    throw misused('Nothing is set. Use --set, --name, --order, --enabled or --disabled.');
  }
  const api = openApi(deps, options);
  const step = await api.call('patch', `${path}/{id}`, {
    ...at(id),
    body,
    optionOf,
  });
  print(deps, options, step, () => [`Changed step ${step.id}, ${stateOf(step)}.`]);
}

export async function remove(
  deps: CliDeps,
  id: number,
  options: ApiOptions & { readonly yes?: boolean },
): Promise<void> {
  const api = openApi(deps, options);
  const step = await api.call('get', `${path}/{id}`, at(id));
  const what = `Delete the step ${quoted(step.name ?? String(id))}? Runs that start from now on do not apply it.`;
  await confirm(deps.terminal, what, options.yes ?? false);
  await api.call('delete', `${path}/{id}`, at(id));
  print(deps, options, { id, deleted: true }, () => [`Deleted step ${id}.`]);
}

const stateOf = ({ enabled }: Step) => (enabled ? 'enabled' : 'disabled: it changes no rows');

/** The settings of a step are texts, as plugins take them. `${NAME}` is an environment variable: a secret is in no history. */
function bodyOf(
  { terminal }: CliDeps,
  { set = [], name, order, enabled, disabled }: StepOptions,
): Json {
  if (enabled && disabled) {
    throw misused('Use --enabled or --disabled, not both.');
  }
  const problems: string[] = [];
  const config = Object.fromEntries(
    set.map((assignment) => {
      const [, key = '', value = ''] = /^([^=]+)=(.*)$/s.exec(assignment) ?? [];
      if (key === '') problems.push(`--set takes setting=value, not ${assignment}.`);
      return [key, value];
    }),
  );
  const expanded = expandVariables(config, terminal.env, (field, variable) =>
    problems.push(`${field}: the environment variable ${variable} is not set.`),
  );
  if (problems.length > 0) throw misused(problems.join('\n'));
  return {
    ...(set.length === 0 ? {} : { config: expanded }),
    ...(name === undefined ? {} : { name }),
    ...(order === undefined ? {} : { order }),
    ...(enabled === undefined && disabled === undefined ? {} : { enabled: enabled === true }),
  };
}
