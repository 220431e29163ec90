import { Type } from 'typebox';
import { isTerminal } from '../../domain/run.ts';
import { toTimestamp } from '../../domain/time.ts';
import { findRun, listRuns, type Run } from '../../store/runs.ts';
import { cancelRun, retryRun } from '../../use-cases/runs/cancel-work.ts';
import { type Api, batchExportOf, type Request } from '../api.ts';
import { ApiError, invalid, notFound } from '../api-error.ts';
import { loadBatchExport } from '../batch-exports/load.ts';
import type { Family } from '../families.ts';
import { cursorEnvelope, placeOf } from '../lists/cursors.ts';
import { clampLimit } from '../lists/paging.ts';
import { CursorPageOf } from '../lists/schema.ts';
import { timeBound } from '../lists/time-bounds.ts';
import type { Deps } from '../options.ts';
import { describe, readExports, writeExports } from '../route-parts.ts';
import { errors, postErrors } from '../schemas/error.ts';
import { Ref } from '../schemas/nullable.ts';
import { isUuid } from '../validation/validator.ts';
import { BatchExportRun, RunListQuery } from './schema.ts';
import { runView } from './view.ts';

/** The runs of an export: list, retrieve, cancel, retry. */
export function runRoutes(api: Api, { context }: Deps, family: Family): void {
  const { db } = context;
  const { about, params } = describe(family);
  const onRequest = loadBatchExport(db, 'batch_export_id');
  const runOf = async (request: Request): Promise<Run> => {
    const { id } = request.params as { id: string };
    const run = isUuid(id) ? await findRun(db, batchExportOf(request).id, id) : null;
    if (!run) throw notFound();
    return run;
  };

  api.get(
    '',
    {
      config: readExports,
      onRequest,
      schema: {
        ...about('listBatchExportRuns', 'List the runs of a batch export'),
        params: params('batch_export_id'),
        querystring: RunListQuery,
        response: { 200: CursorPageOf(BatchExportRun), ...errors() },
      },
    },
    async (request) => {
      const { query } = request;
      const ordering = query.ordering ?? '-created_at';
      const orderBy = ordering.endsWith('created_at') ? 'created_at' : 'data_interval_start';
      const page = await listRuns(db, {
        exportId: batchExportOf(request).id,
        statuses: query.status ?? null,
        createdAfter: timeBound(query.after),
        createdBefore: timeBound(query.before),
        intervalStart: timeBound(query.start),
        intervalEnd: timeBound(query.end),
        orderBy,
        descending: ordering.startsWith('-'),
        place: placeOf(query.cursor, ordering),
        limit: clampLimit(query.limit),
      });
      const keyOf = ({ id, createdAt, interval }: Run) => ({
        id,
        at: orderBy === 'created_at' ? createdAt : toTimestamp(interval.start),
      });
      return cursorEnvelope(request, ordering, page, keyOf, runView);
    },
  );

  api.get(
    '/:id',
    {
      config: readExports,
      onRequest,
      schema: {
        ...about('retrieveBatchExportRun', 'Retrieve a run'),
        params: params('batch_export_id', 'id'),
        response: { 200: Ref(BatchExportRun), ...errors() },
      },
    },
    async (request) => runView(await runOf(request)),
  );

  api.post(
    '/:id/cancel',
    {
      config: writeExports,
      onRequest,
      schema: {
        ...about('cancelBatchExportRun', 'Cancel a run that has not ended'),
        params: params('batch_export_id', 'id'),
        response: { 200: Type.Object({ cancelled: Type.Literal(true) }), ...postErrors() },
      },
    },
    async (request) => {
      const cancelled = await cancelRun(context, await runOf(request));
      if (cancelled === 'ended') throw invalid(hasEnded);
      if (cancelled === 'committing') throw new ApiError(409, [isCommitting]);
      return { cancelled: true as const };
    },
  );

  api.post(
    '/:id/retry',
    {
      config: writeExports,
      onRequest,
      schema: {
        ...about('retryBatchExportRun', "Run an ended run's interval again, as a new run"),
        params: params('batch_export_id', 'id'),
        response: { 201: Ref(BatchExportRun), ...postErrors() },
      },
    },
    async (request, reply) => {
      const run = await runOf(request);
      if (!isTerminal(run.status)) throw invalid(hasNotEnded);
      const retryId = await retryRun(context, run);
      const retry = retryId === null ? null : await findRun(db, run.exportId, retryId);
      if (!retry) throw new ApiError(409, [isLive]);
      reply.code(201);
      return runView(retry);
    },
  );
}

const hasEnded = {
  code: 'invalid_input',
  detail: 'The run has ended: only a run that is Starting or Running can be cancelled.',
  attr: null,
} as const;

const isCommitting = {
  code: 'conflict',
  detail: 'The run is putting its files in force: it can no longer be cancelled, and completes.',
  attr: null,
} as const;

const hasNotEnded = {
  code: 'invalid_input',
  detail: 'The run has not ended: only an ended run can be retried.',
  attr: null,
} as const;

const isLive = {
  code: 'conflict',
  detail: 'Another run of this interval is under way.',
  attr: null,
} as const;
