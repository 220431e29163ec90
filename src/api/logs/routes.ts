import { type LogEntry, listLogEntries } from '../../store/log-entries.ts';
import { findRun } from '../../store/runs.ts';
import { type Api, batchExportOf, type Request } from '../api.ts';
import { notFound } from '../api-error.ts';
import { loadBatchExport } from '../batch-exports/load.ts';
import type { Family } from '../families.ts';
import { offsetEnvelope, pageOf } from '../lists/paging.ts';
import { OffsetPageOf } from '../lists/schema.ts';
import { timeBound } from '../lists/time-bounds.ts';
import type { Deps } from '../options.ts';
import { describe, readExports } from '../route-parts.ts';
import { errors } from '../schemas/error.ts';
import { isUuid } from '../validation/validator.ts';
import { BatchExportLog, LogListQuery } from './schema.ts';

/** The logs of an export and of its runs, newest first. */
export function logRoutes(api: Api, { context }: Deps, family: Family): void {
  const { db } = context;
  const { about, params } = describe(family);
  const onRequest = loadBatchExport(db, 'batch_export_id');

  const list = async (request: Request, query: LogListQuery, runId: string | null) => {
    const levels = [...(query.level ?? []), ...(query.level_filter ?? [])];
    const page = pageOf(query);
    const entries = await listLogEntries(
      db,
      {
        exportId: batchExportOf(request).id,
        runId,
        levels: levels.length === 0 ? null : levels,
        after: timeBound(query.after),
        before: timeBound(query.before),
        search: query.search || null,
      },
      page,
    );
    return offsetEnvelope(request, page, entries, logView);
  };

  api.get(
    '/logs',
    {
      config: readExports,
      onRequest,
      schema: {
        ...about('listBatchExportLogs', 'List the logs of a batch export'),
        params: params('batch_export_id'),
        querystring: LogListQuery,
        response: { 200: OffsetPageOf(BatchExportLog), ...errors() },
      },
    },
    async (request) => list(request, request.query, null),
  );

  api.get(
    '/runs/:run_id/logs',
    {
      config: readExports,
      onRequest,
      schema: {
        ...about('listBatchExportRunLogs', 'List the logs of a run'),
        params: params('batch_export_id', 'run_id'),
        querystring: LogListQuery,
        response: { 200: OffsetPageOf(BatchExportLog), ...errors() },
      },
    },
    async (request) => {
      const { run_id: runId } = request.params as { run_id: string };
      const run = isUuid(runId) ? await findRun(db, batchExportOf(request).id, runId) : null;
      if (!run) throw notFound();
      return list(request, request.query, run.id);
    },
  );
}

function logView(entry: LogEntry): BatchExportLog {
  return {
    team_id: entry.teamId,
    batch_export_id: entry.exportId,
    run_id: entry.runId,
    timestamp: entry.timestamp,
    level: entry.level,
    message: entry.message,
  };
}
