import { print } from '../answer.ts';
import { readWholeNumber } from '../arguments.ts';
import { type CliDeps, CliError, misused } from '../deps.ts';
import { type Cell, plural, tableLines } from '../text.ts';
import { type Api, quoted, readAll } from './api.ts';
import type { Json } from './json.ts';
import type { AnswerOf, Plugin } from './types.ts';
import { type Field, get, list, patch, post, remove, tableOf, type Verbs, yes } from './verb.ts';

const path = 'pipeline_transformation_configs';
const oneStep = `${path}/{id}` as const;
type Chain = AnswerOf<'get', typeof path>;
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

export const readPlugins = (api: Api): Promise<readonly Plugin[]> =>
  readAll((offset) => api.call('get', 'plugins', { query: { limit: 1_000, offset } }));

function appliedBy({ applied_by: { count, exports, results } }: Chain): string {
  if (count === 0) {
    return `No export applies the chain. Turn it on: \`sluice exports update <export> --set transformations=true\``;
  }
  const names = results.map(({ name }) => quoted(name)).join(', ');
  const more = count > results.length ? `, and ${count - results.length} more` : '';
  return `Applied by ${count} of ${plural(exports, 'export')}: ${names}${more}.`;
}

async function findPlugin(api: Api, nameOrId: string): Promise<number> {
  if (/^\d+$/.test(nameOrId)) return Number(nameOrId);
  const plugins = await readPlugins(api);
  const plugin = plugins.find(({ name }) => name === nameOrId);
  if (plugin) return plugin.id;
  const names = plugins.map(({ name }) => quoted(name)).join(', ');
  throw new CliError(`There is no plugin ${quoted(nameOrId)}. There are ${names}.`);
}

const stateOf = ({ enabled }: Step) => (enabled ? 'enabled' : 'disabled: it changes no rows');

const settings = {
  options: {
    name: ['--name <name>', 'name of the step'],
    order: ['--order <n>', 'its order in the chain', readWholeNumber],
  },
  flags: {
    set: [
      '--set <setting=value>',
      'a setting of its plugin; may be repeated',
      (text: string, before: readonly string[] = []) => [...before, text],
    ],
    isEnabled: ['--enabled', 'it changes rows from the next run on'],
    isDisabled: ['--disabled', 'it changes nothing'],
  },
} as const satisfies Readonly<Record<string, Readonly<Record<string, Field>>>>;

const ofStep = {
  args: { id: ['<id>', 'id of the step', readWholeNumber] },
  notFound: 'There is no step {id}. `sluice transformations list` lists them.',
} as const;

/** The settings of a step are texts, as plugins take them. `${NAME}` is an environment variable: a secret is in no history. */
async function settingsOf({ terminal }: CliDeps, given: Json): Promise<Json> {
  const { set, isEnabled, isDisabled } = given;
  if (isEnabled && isDisabled) throw misused('Use --enabled or --disabled, not both.');
  const problems: string[] = [];
  const config = ((set ?? []) as readonly string[]).map((assignment) => {
    const [, key = '', value = ''] = /^([^=]+)=(.*)$/s.exec(assignment) ?? [];
    if (key === '') problems.push(`--set takes setting=value, not ${assignment}.`);
    return [key, value] as const;
  });
  const { expandVariables } = await import('./export-spec.ts');
  const expanded = expandVariables(Object.fromEntries(config), terminal.env, (field, variable) =>
    problems.push(`${field}: the environment variable ${variable} is not set.`),
  );
  if (problems.length > 0) throw misused(problems.join('\n'));
  return {
    ...(set !== undefined && { config: expanded }),
    ...((isEnabled ?? isDisabled) !== undefined && { enabled: isEnabled === true }),
  };
}

export const stepVerbs: Verbs = {
  'transformations list': get(path, {
    about: 'list the steps, and which exports apply them',
    run: ({ api }) => readChain(api),
    lines(chain, { paint }) {
      const rows = chain.results.map((step): (Cell | string)[] => [
        { text: String(step.id), atEnd: true },
        step.name ?? '',
        String(step.details.plugin_info.name ?? `plugin ${step.plugin}`),
        step.enabled ? { text: 'enabled', colour: 'green' } : { text: 'disabled', colour: 'dim' },
        step.error ?? '',
      ]);
      const head = ['ID', 'NAME', 'PLUGIN', 'STATE', 'ERROR'];
      return [
        ...(rows.length === 0 ? ['No steps.'] : tableLines(head, rows, paint)),
        appliedBy(chain),
      ];
    },
  }),
  'transformations plugins': list('plugins', {
    about: 'list the plugins that a step can use',
    list: 'all',
    lines: tableOf(
      'none',
      ['ID', 'PLUGIN', 'SETTINGS (* required)'],
      ({ id, name, config_schema: fields }) => [
        { text: String(id), atEnd: true },
        name,
        fields.map(({ key, required }) => (required ? `${key}*` : key)).join(', '),
      ],
    ),
  }),
  'transformations create': post(path, {
    about: 'add a step at the end of the chain',
    ...settings,
    args: { plugin: ['<plugin>', 'name or id of the plugin'] },
    async run({ api, deps, given, isJson, send }) {
      // So that no mask is taken for one that works.
      if (!given.isEnabled && !given.isDisabled) {
        throw misused('Say whether the step changes rows from now on: --enabled or --disabled.');
      }
      const body = await settingsOf(deps, given);
      const plugin = await findPlugin(api, String(given.plugin));
      const chain = await readChain(api);
      const last = Math.max(0, ...chain.results.map(({ order }) => order));
      const step = await send({ ...body, plugin, order: given.order ?? last + 1 });
      print(deps, { json: isJson }, step, () => [
        `Created step ${step.id}, ${stateOf(step)}. ${appliedBy(chain)}`,
      ]);
      return null;
    },
  }),
  'transformations update': patch(oneStep, {
    about: 'change a step; what is not set stays',
    ...settings,
    ...ofStep,
    async prepare({ deps, given }) {
      const body = { ...(await settingsOf(deps, given)), name: given.name, order: given.order };
      if (Object.values(body).some((value) => value !== undefined)) return { ...given, ...body };
      throw misused('Nothing is set. Use --set, --name, --order, --enabled or --disabled.');
    },
    lines: (step) => [`Changed step ${step.id}, ${stateOf(step)}.`],
  }),
  'transformations delete': remove(oneStep, {
    about: 'delete a step; files that were exported with it stay',
    ...ofStep,
    flags: { yes },
    async confirm({ api, given }) {
      const { id, name } = await api.call('get', oneStep, {
        path: given,
        notFound: ofStep.notFound,
      });
      return `Delete the step ${quoted(name ?? String(id))}? Runs that start from now on do not apply it.`;
    },
    json: (_, { given }) => ({ id: given.id, deleted: true }),
    lines: (_, { given }) => [`Deleted step ${given.id}.`],
  }),
};
