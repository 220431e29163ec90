import { Type } from 'typebox';
import { orNotFound } from '../../../foundation/domain/problem.ts';
import {
  findChainExports,
  listTransformationConfigs,
} from '../../../state/store/transformations/transformation-configs.ts';
import {
  changePlugin,
  findPlugins,
  installPlugin,
  listPlugins,
} from '../../use-cases/transformations/plugins.ts';
import {
  changeTransformationConfig,
  checkChange,
  checkNewStep,
  createTransformationConfig,
  rearrangeTransformationConfigs,
  removeTransformationConfig,
  startTransformationJob,
} from '../../use-cases/transformations/steps.ts';
import { actorOf, type Api, reachOf, type Request } from '../api.ts';
import { offsetEnvelope, OffsetPageOf, pageOf, PageQuery } from '../lists.ts';
import { organizationFamily, projectFamily, transformationOperations } from '../operations.ts';
import type { Deps } from '../options.ts';
import { addWarnings, untilClosed } from '../replies.ts';
import { answers, Ref } from '../shapes.ts';
import { refusesAll } from '../validation/every-problem.ts';
import { changeInput, createInput, readFields, rearrangement } from './input.ts';
import {
  CreatePlugin,
  CreateTransformationConfig,
  PatchPlugin,
  PatchTransformationConfig,
  Plugin,
  Rearrange,
  RearrangedConfigs,
  StartJob,
  TransformationConfig,
  TransformationPage,
} from './schema.ts';
import {
  idOf,
  loadTransformationConfig,
  pluginView,
  stepOf,
  teamOf,
  transformationConfigView,
  transformationConfigViews,
  withPlugins,
} from './view.ts';

const { read, write } = transformationOperations(
  'Pipeline transformation configs',
  projectFamily,
  'transformation config',
  loadTransformationConfig,
);

const newStep = refusesAll({
  standIns: { order: 0 },
  follow: { plugin: ['config'] },
  examine: async (request, body) => {
    // The settings are those of a plugin.
    if (body.plugin === undefined) return [];
    const input = createInput(body as Parameters<typeof createInput>[0]);
    await checkNewStep(request.context, actorOf(request), input);
    return [];
  },
});

const changedStep = refusesAll({
  examine: (request, body) => {
    const input = changeInput(body as Parameters<typeof changeInput>[0]);
    checkChange(request.context, stepOf(request), input);
    return [];
  },
});

// biome-ignore lint/complexity/noExcessiveLinesPerFunction: a list of routes
export function transformationConfigRoutes(api: Api): void {
  const answer = answers(TransformationConfig);

  api.get(
    '',
    read('listTransformationConfigs', 'List the chain, in its order', [], {
      querystring: Type.Object(PageQuery),
      response: { 200: TransformationPage },
    }),
    async (request) => {
      const page = pageOf(request.query);
      const { db } = request.context;
      const teamId = teamOf(request);
      const { count, results } = await listTransformationConfigs(db, teamId, page);
      const steps = await withPlugins(request, results);
      const { results: views, plugins } = transformationConfigViews(steps);
      const listed = await offsetEnvelope(request, page, { count, results: views }, (view) => view);
      const { applying, total, named } = await findChainExports(db, teamId);
      const appliedBy = { count: applying, exports: total, results: [...named] };
      return { ...listed, plugins, applied_by: appliedBy };
    },
  );

  api.post(
    '',
    {
      ...write('createTransformationConfig', 'Add a step to the chain', [], {
        body: CreateTransformationConfig,
        response: { 201: Ref(TransformationConfig) },
      }),
      ...newStep,
    },
    async (request, reply) => {
      const input = createInput(request.body);
      const { context } = request;
      const actor = actorOf(request);
      const created = await createTransformationConfig(context, actor, teamOf(request), input);
      addWarnings(reply, await idleWarnings(request, created));
      reply.code(201);
      return transformationConfigView(created);
    },
  );

  api.patch(
    '/rearrange',
    write('rearrangeTransformationConfigs', 'Move steps of the chain', [], {
      body: Rearrange,
      response: { 200: Ref(RearrangedConfigs) },
    }),
    async (request) => {
      const { body, context } = request;
      const teamId = teamOf(request);
      const orders = rearrangement(body);
      const moved = await rearrangeTransformationConfigs(context, actorOf(request), teamId, orders);
      const [first] = await withPlugins(request, [moved]);
      if (!first) throw new Error('a step is missing');
      const whole = { limit: 1_000, offset: 0 };
      const chain = await listTransformationConfigs(context.db, teamId, whole);
      const steps = await withPlugins(request, chain.results);
      return { ...transformationConfigView(first), ...transformationConfigViews(steps) };
    },
  );

  for (const [path, operation, summary] of [
    ['/:id', 'retrieveTransformationConfig', 'Retrieve a step, even if it is marked as deleted'],
    ['/:id/frontend', 'retrieveTransformationConfigFrontend', 'Retrieve a step for a form'],
  ] as const) {
    api.get(path, read(operation, summary, ['id'], answer), async (request) =>
      transformationConfigView(stepOf(request)),
    );
  }

  api.patch(
    '/:id',
    {
      ...write('updateTransformationConfig', 'Update a step', ['id'], {
        body: PatchTransformationConfig,
        ...answer,
      }),
      ...changedStep,
    },
    async (request, reply) => {
      const { id, teamId } = stepOf(request).step;
      const input = changeInput(request.body);
      const actor = actorOf(request);
      const changed = await changeTransformationConfig(request.context, actor, teamId, id, input);
      if (input.enabled) addWarnings(reply, await idleWarnings(request, changed));
      return transformationConfigView(changed);
    },
  );

  api.delete(
    '/:id',
    write('deleteTransformationConfig', 'Remove a step permanently', ['id'], {
      response: { 204: Type.Null({ description: 'Removed.' }) },
    }),
    async (request, reply) => {
      const { id, teamId } = stepOf(request).step;
      await removeTransformationConfig(request.context, actorOf(request), teamId, id);
      return reply.code(204).send(null);
    },
  );

  api.post(
    '/:id/job',
    write('startTransformationJob', 'Run a job of the step in the background', ['id'], {
      body: StartJob,
      ...answer,
    }),
    async (request) => {
      const { id, teamId } = stepOf(request).step;
      const job = { type: 'sample', payload: {}, ...request.body.job };
      const actor = actorOf(request);
      const started = await startTransformationJob(request.context, actor, teamId, id, job);
      return transformationConfigView(started);
    },
  );
}

/** Why a step that was just made or enabled changes no rows yet. */
async function idleWarnings(
  { context }: Request,
  { step }: { readonly step: { readonly enabled: boolean; readonly teamId: number } },
): Promise<readonly string[]> {
  if (!step.enabled) return ['The step is disabled, so it changes no rows. Set enabled to true.'];
  const { applying } = await findChainExports(context.db, step.teamId);
  if (applying > 0) return [];
  return [
    'No export of the project applies transformations, so the step changes no rows. Set transformations of an export to true.',
  ];
}

export function pluginRoutes(api: Api, { sandboxes }: Deps): void {
  const { read, write } = transformationOperations('Plugins', organizationFamily, 'plugin');
  const pluginOf = async (request: Request) => {
    const id = idOf(request);
    const { organizationId } = reachOf(request);
    const { db } = request.context;
    const plugins = id === null ? null : await findPlugins(db, organizationId, [id]);
    return orNotFound(plugins?.get(id ?? 0));
  };
  /** Before the body is read. */
  const onRequest = async (request: Request) => {
    await pluginOf(request);
  };

  api.get(
    '',
    read('listPlugins', 'List the plugins, built-in ones first', [], {
      querystring: Type.Object(PageQuery),
      response: { 200: OffsetPageOf(Plugin) },
    }),
    async (request) => {
      const page = pageOf(request.query);
      const listed = await listPlugins(request.context.db, reachOf(request).organizationId, page);
      return offsetEnvelope(request, page, listed, pluginView);
    },
  );

  api.post(
    '',
    write('installPlugin', 'Install a plugin of your own', [], {
      body: CreatePlugin,
      response: { 201: Ref(Plugin) },
    }),
    async (request, reply) => {
      const { name, source, description = null, url = null, config_schema = [] } = request.body;
      const plugin = { name, source, description, url, configSchema: readFields(config_schema) };
      const actor = actorOf(request);
      const installed = await sandboxes.use(actor.organizationId, untilClosed(reply), () =>
        installPlugin(request.context, actor, plugin),
      );
      reply.code(201);
      return pluginView(installed);
    },
  );

  api.get(
    '/:id',
    read('retrievePlugin', 'Retrieve a plugin', ['id'], answers(Plugin)),
    async (request) => pluginView(await pluginOf(request)),
  );

  api.patch(
    '/:id',
    {
      ...write('updatePlugin', 'Update a plugin of your own', ['id'], {
        body: PatchPlugin,
        response: { 200: Ref(Plugin) },
      }),
      onRequest,
    },
    async (request, reply) => {
      const { name, source, description, url, config_schema } = request.body;
      const configSchema = config_schema && readFields(config_schema);
      const change = { name, source, description, url, configSchema };
      const { id } = await pluginOf(request);
      const actor = actorOf(request);
      const work = () => changePlugin(request.context, actor, id, change);
      if (source === undefined) return pluginView(await work());
      // A sandbox reads the source.
      const signal = untilClosed(reply);
      return pluginView(await sandboxes.use(actor.organizationId, signal, work));
    },
  );
}

/** Shows the same list to a key of some projects. The source of an own plugin is for keys of the whole organization. */
export function projectPluginRoutes(api: Api): void {
  const ofProject = transformationOperations('Plugins', projectFamily, 'plugin');
  api.get(
    '',
    ofProject.read('listPluginsOfProject', 'List the plugins for the steps of a project', [], {
      querystring: Type.Object(PageQuery),
      response: { 200: OffsetPageOf(Plugin) },
    }),
    async (request) => {
      const page = pageOf(request.query);
      const listed = await listPlugins(request.context.db, reachOf(request).organizationId, page);
      return offsetEnvelope(request, page, listed, (plugin) => ({
        ...pluginView(plugin),
        source: null,
      }));
    },
  );
}
