import { Type } from 'typebox';
import { listBatchExports } from '../../store/exports.ts';
import { createExport } from '../../use-cases/exports/create-export.ts';
import { deleteExport } from '../../use-cases/exports/delete-export.ts';
import { pauseExport } from '../../use-cases/exports/pause-export.ts';
import { unpauseExport } from '../../use-cases/exports/unpause-export.ts';
import { updateExport } from '../../use-cases/exports/update-export.ts';
import { actorOf } from '../actor-of.ts';
import { type Api, batchExportOf, reachOf } from '../api.ts';
import { accept } from '../api-error.ts';
import { type Family, organizationFamily } from '../families.ts';
import { offsetEnvelope, pageOf } from '../lists/paging.ts';
import { OffsetPageOf, PageQuery } from '../lists/schema.ts';
import type { Deps } from '../options.ts';
import { describe, readExports, writeExports } from '../route-parts.ts';
import { bodyErrors, errors, postErrors } from '../schemas/error.ts';
import { Ref } from '../schemas/nullable.ts';
import { createInput, updateInput } from './input.ts';
import { loadBatchExport } from './load.ts';
import { BatchExport, batchExportBodies, UnpauseBody } from './schema.ts';
import { teamFor } from './team-for.ts';
import { batchExportView, batchExportViews } from './view.ts';

/** Create, list, retrieve, update and delete exports, and pause and unpause them. */
export function batchExportRoutes(api: Api, deps: Deps, family: Family): void {
  const { context, rules } = deps;
  const { db } = context;
  const { Create, Patch, Put } = batchExportBodies(
    deps.destinations,
    deps.models.map(({ name }) => name),
    family === organizationFamily,
  );
  const onRequest = loadBatchExport(db, 'id');
  const { about, params } = describe(family);

  api.get(
    '',
    {
      config: readExports,
      schema: {
        ...about('listBatchExports', 'List batch exports, newest first'),
        params: params(),
        querystring: Type.Object(PageQuery),
        response: { 200: OffsetPageOf(BatchExport), ...errors() },
      },
    },
    async (request) => {
      const page = pageOf(request.query);
      const { count, results } = await listBatchExports(db, reachOf(request), page);
      const views = await batchExportViews(db, results);
      return offsetEnvelope(request, page, { count, results: views }, (view) => view);
    },
  );

  api.post(
    '',
    {
      config: writeExports,
      schema: {
        ...about('createBatchExport', 'Create a batch export'),
        params: params(),
        body: Create,
        response: { 201: Ref(BatchExport), ...postErrors() },
      },
    },
    async (request, reply) => {
      const teamId = await teamFor(db, reachOf(request), request.body.team_id);
      const input = createInput(request.body);
      const actor = actorOf(request);
      const created = accept(await createExport(context, rules, actor, teamId, input));
      reply.code(201);
      return batchExportView(db, created.batchExport, created.backfillId);
    },
  );

  api.get(
    '/:id',
    {
      config: readExports,
      onRequest,
      schema: {
        ...about('retrieveBatchExport', 'Retrieve a batch export'),
        params: params('id'),
        response: { 200: Ref(BatchExport), ...errors() },
      },
    },
    async (request) => batchExportView(db, batchExportOf(request)),
  );

  for (const [method, body, operation, summary] of [
    ['PATCH', Patch, 'updateBatchExport', 'Update a batch export'],
    ['PUT', Put, 'replaceBatchExport', 'Update a batch export, its required fields sent again'],
  ] as const) {
    api.route({
      method,
      url: '/:id',
      config: writeExports,
      onRequest,
      schema: {
        ...about(operation, summary),
        params: params('id'),
        body,
        response: { 200: Ref(BatchExport), ...bodyErrors() },
      },
      handler: async (request) => {
        const { id } = batchExportOf(request);
        const input = updateInput(request.body);
        return batchExportView(
          db,
          accept(await updateExport(context, rules, actorOf(request), id, input)),
        );
      },
    });
  }

  api.delete(
    '/:id',
    {
      config: writeExports,
      onRequest,
      schema: {
        ...about('deleteBatchExport', 'Delete a batch export and cancel its live work'),
        params: params('id'),
        response: { 204: Type.Null({ description: 'Deleted.' }), ...errors() },
      },
    },
    async (request, reply) => {
      accept(await deleteExport(context, actorOf(request), batchExportOf(request).id));
      return reply.code(204).send(null);
    },
  );

  api.post(
    '/:id/pause',
    {
      config: writeExports,
      onRequest,
      schema: {
        ...about('pauseBatchExport', 'Pause a batch export; runs in flight finish'),
        params: params('id'),
        response: { 200: Ref(BatchExport), ...postErrors() },
      },
    },
    async (request) => {
      const { id } = batchExportOf(request);
      return batchExportView(db, accept(await pauseExport(context, actorOf(request), id)));
    },
  );

  api.post(
    '/:id/unpause',
    {
      config: writeExports,
      onRequest,
      schema: {
        ...about('unpauseBatchExport', 'Unpause a batch export'),
        params: params('id'),
        body: UnpauseBody,
        response: { 200: Ref(BatchExport), ...postErrors() },
      },
    },
    async (request) => {
      const { id } = batchExportOf(request);
      const { backfill = false } = request.body;
      const unpaused = accept(await unpauseExport(context, actorOf(request), id, { backfill }));
      return batchExportView(db, unpaused.batchExport, unpaused.backfillIds.at(-1));
    },
  );
}
