import { Type } from 'typebox';
import { orNotFound } from '../../../foundation/domain/problem.ts';
import {
  changePlugin,
  findPlugins,
  installPlugin,
  listPlugins,
} from '../../use-cases/transformations/plugins.ts';
import { type Api, actorOf, type Request, reachOf } from '../api.ts';
import { OffsetPageOf, offsetEnvelope, PageQuery, pageOf } from '../lists.ts';
import { organizationFamily, projectFamily, transformationOperations } from '../operations.ts';
import type { Deps } from '../options.ts';
import { untilClosed } from '../replies.ts';
import { Ref } from '../shapes.ts';
import { readFields } from '../transformations/input.ts';
import { CreatePlugin, PatchPlugin, Plugin } from '../transformations/schema.ts';
import { idOf, pluginView } from '../transformations/view.ts';

const { read, write } = transformationOperations('Plugins', organizationFamily, 'plugin');

export function pluginRoutes(api: Api, { sandboxes }: Deps): void {
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
    read('retrievePlugin', 'Retrieve a plugin', ['id'], { response: { 200: Ref(Plugin) } }),
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
