import { type TProperties, Type } from 'typebox';
import { notFound } from '../../domain/problem.ts';
import { findPlugins, listPlugins } from '../../store/plugins.ts';
import { changePlugin, installPlugin } from '../../use-cases/transformations/install-plugin.ts';
import { actorOf } from '../actor-of.ts';
import { type Api, type Request, reachOf } from '../api.ts';
import { organizationFamily } from '../families.ts';
import { offsetEnvelope, pageOf } from '../lists/paging.ts';
import { OffsetPageOf, PageQuery } from '../lists/schema.ts';
import { readPlugins, writePlugins } from '../route-parts.ts';
import { bodyErrors, errors, postErrors } from '../schemas/error.ts';
import { Ref } from '../schemas/nullable.ts';
import { readFields } from '../transformations/input.ts';
import { idOf } from '../transformations/load.ts';
import { CreatePlugin, PatchPlugin, Plugin } from '../transformations/schema.ts';
import { pluginView } from '../transformations/view.ts';

const about = (operationId: string, summary: string) => ({
  tags: ['Plugins'],
  operationId,
  summary,
});

const collection = Type.Object(organizationFamily.params as TProperties);
const one = Type.Object({
  ...organizationFamily.params,
  id: Type.Integer({ description: 'Identifier of the plugin.' }),
});

/** The plugins that an organization can use: built-in ones, and its own. */
export function pluginRoutes(api: Api): void {
  const pluginOf = async (request: Request) => {
    const id = idOf(request);
    const { organizationId } = reachOf(request);
    const found =
      id === null
        ? undefined
        : (await findPlugins(request.context.db, organizationId, [id])).get(id);
    if (!found) throw notFound();
    return found;
  };
  /** Before the body is read. */
  const onRequest = async (request: Request) => {
    await pluginOf(request);
  };

  api.get(
    '',
    {
      config: readPlugins,
      schema: {
        ...about('listPlugins', 'List the plugins, built-in ones first'),
        params: collection,
        querystring: Type.Object(PageQuery),
        response: { 200: OffsetPageOf(Plugin), ...errors() },
      },
    },
    async (request) => {
      const page = pageOf(request.query);
      const listed = await listPlugins(request.context.db, reachOf(request).organizationId, page);
      return offsetEnvelope(request, page, listed, pluginView);
    },
  );

  api.post(
    '',
    {
      config: writePlugins,
      schema: {
        ...about('installPlugin', 'Install a plugin of your own'),
        params: collection,
        body: CreatePlugin,
        response: { 201: Ref(Plugin), ...postErrors() },
      },
    },
    async (request, reply) => {
      const { name, source, description = null, url = null, config_schema = [] } = request.body;
      const plugin = { name, source, description, url, configSchema: readFields(config_schema) };
      const installed = await installPlugin(request.context, actorOf(request), plugin);
      reply.code(201);
      return pluginView(installed);
    },
  );

  api.get(
    '/:id',
    {
      config: readPlugins,
      schema: {
        ...about('retrievePlugin', 'Retrieve a plugin'),
        params: one,
        response: { 200: Ref(Plugin), ...errors() },
      },
    },
    async (request) => pluginView(await pluginOf(request)),
  );

  api.patch(
    '/:id',
    {
      config: writePlugins,
      onRequest,
      schema: {
        ...about('updatePlugin', 'Update a plugin of your own'),
        params: one,
        body: PatchPlugin,
        response: { 200: Ref(Plugin), ...bodyErrors() },
      },
    },
    async (request) => {
      const { name, source, description, url, config_schema } = request.body;
      const configSchema = config_schema && readFields(config_schema);
      const change = { name, source, description, url, configSchema };
      const { id } = await pluginOf(request);
      return pluginView(await changePlugin(request.context, actorOf(request), id, change));
    },
  );
}
