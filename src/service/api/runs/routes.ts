import { Type } from 'typebox';
import { listRuns, type Run } from '../../../state/store/runs/runs.ts';
import { cancelRun, retryRun } from '../../use-cases/runs/cancel-work.ts';
import { type Api, actorOf, batchExportOf, type Request } from '../api.ts';
import { cursorEnvelope, positionOf } from '../lists/cursors.ts';
import { clampLimit, pageOf, timeBound } from '../lists/paging.ts';
import { CursorPageOf, PageQuery } from '../lists/schema.ts';
import { compressed, exportOperations, type Family } from '../operations.ts';
import type { Deps } from '../options.ts';
import { Ref } from '../schemas/shapes.ts';
import { RunFilePage, runFilesPage } from './files.ts';
import { FileLinkView, LinkBody, linkConfig, linkFile } from './link.ts';
import { loadRun } from './load.ts';
import { BatchExportRun, RetryBody, RunListQuery } from './schema.ts';
import { runView } from './view.ts';

/** The runs of an export: list, retrieve, list files, cancel, retry. */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: a list of routes
export function runRoutes(api: Api, family: Family, deps: Deps): void {
  const { read, write } = exportOperations(family);
  const runOf = (request: Request) => loadRun(request, (request.params as { id: string }).id);

  api.get(
    '',
    compressed(
      read('listBatchExportRuns', 'List the runs of a batch export', ['batch_export_id'], {
        querystring: RunListQuery,
        response: { 200: CursorPageOf(BatchExportRun) },
      }),
    ),
    async (request) => {
      const { query } = request;
      const ordering = query.ordering ?? '-created_at';
      const orderBy = ordering.endsWith('created_at') ? 'created_at' : 'data_interval_start';
      const page = await listRuns(request.context.db, {
        exportId: batchExportOf(request).id,
        statuses: query.status ?? null,
        createdAfter: timeBound(query.after),
        createdBefore: timeBound(query.before),
        intervalStart: timeBound(query.start),
        intervalEnd: timeBound(query.end),
        orderBy,
        descending: ordering.startsWith('-'),
        position: positionOf(query.cursor, ordering),
        limit: clampLimit(query.limit),
      });
      const keyOf = ({ id, createdAt, startsAt }: Run) => ({
        id,
        at: orderBy === 'created_at' ? createdAt : startsAt,
      });
      return cursorEnvelope(request, ordering, page, keyOf, (run) =>
        runView(run, request.context.policy.retry),
      );
    },
  );

  api.get(
    '/:id',
    read('retrieveBatchExportRun', 'Retrieve a run', ['batch_export_id', 'id'], {
      response: { 200: Ref(BatchExportRun) },
    }),
    async (request) => runView(await runOf(request), request.context.policy.retry),
  );

  api.get(
    '/:id/files',
    read(
      'listBatchExportRunFiles',
      'List the files of a run, with their object keys and digests',
      ['batch_export_id', 'id'],
      { querystring: Type.Object(PageQuery), response: { 200: RunFilePage } },
    ),
    async (request) =>
      runFilesPage(request, await runOf(request), pageOf(request.query), deps.destinations),
  );

  api.post(
    '/:id/link',
    {
      ...write(
        'linkBatchExportRunFile',
        'Make a link to a file of a run',
        ['batch_export_id', 'id'],
        {
          body: LinkBody,
          response: { 200: FileLinkView },
        },
      ),
      config: linkConfig,
    },
    async (request, reply) => linkFile(deps, request, reply, await runOf(request)),
  );

  api.post(
    '/:id/cancel',
    write('cancelBatchExportRun', 'Cancel a run that has not ended', ['batch_export_id', 'id'], {
      response: { 200: Type.Object({ cancelled: Type.Literal(true) }) },
    }),
    async (request) => {
      await cancelRun(request.context, await runOf(request));
      return { cancelled: true as const };
    },
  );

  api.post(
    '/:id/retry',
    write(
      'retryBatchExportRun',
      "Run an ended run's interval again, as a new run",
      ['batch_export_id', 'id'],
      { body: RetryBody, response: { 201: Ref(BatchExportRun) } },
    ),
    async (request, reply) => {
      const run = await runOf(request);
      const retryId = await retryRun(
        request.context,
        run,
        request.body.missing_rows ?? null,
        actorOf(request),
      );
      const retry = await loadRun(request, retryId);
      reply.code(201);
      return runView(retry, request.context.policy.retry);
    },
  );
}
