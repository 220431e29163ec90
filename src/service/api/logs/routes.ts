import { listLogEntries } from '../../../state/store/exports/log-entries.ts';
import { Refusal } from '../../../foundation/domain/problem.ts';
import {
  type Api,
  actorOf,
  batchExportOf,
  isOperatorsLook,
  type Reply,
  type Request,
} from '../api.ts';
import { offsetEnvelope, pageOf, timeBound } from '../lists/paging.ts';
import { OffsetPageOf } from '../lists/schema.ts';
import { exportOperations, type Family } from '../operations.ts';
import type { Deps } from '../options.ts';
import { loadRun } from '../runs/load.ts';
import { untilClosed } from '../until-closed.ts';
import { BatchExportLog, LogListQuery, logView } from './schema.ts';

/** The logs of an export and of its runs, newest first. */
export function logRoutes(api: Api, family: Family, { searches }: Deps): void {
  const { read } = exportOperations(family);

  const list = async (
    request: Request,
    reply: Reply,
    query: LogListQuery,
    runId: string | null,
  ) => {
    // A search would find what the answer hides.
    if (query.search && isOperatorsLook(request)) {
      const detail = "An operator's key reads the log without a search. Leave search out.";
      throw new Refusal({ code: 'invalid_input', detail, attr: 'search' });
    }
    const levels = [...(query.level ?? []), ...(query.level_filter ?? [])];
    const page = pageOf(query);
    const listRequest = {
      exportId: batchExportOf(request).id,
      runId,
      levels: levels.length === 0 ? null : levels,
      after: timeBound(query.after),
      before: timeBound(query.before),
      search: query.search || null,
    };
    const read = () => listLogEntries(request.context.db, listRequest, page);
    // A search reads every message, so it must not take the connections and processors of others.
    const entries =
      listRequest.search === null
        ? await read()
        : await searches.use(actorOf(request).organizationId, untilClosed(reply), read);
    return offsetEnvelope(request, page, entries, logView);
  };

  api.get(
    '/logs',
    read('listBatchExportLogs', 'List the logs of a batch export', ['batch_export_id'], {
      querystring: LogListQuery,
      response: { 200: OffsetPageOf(BatchExportLog) },
    }),
    async (request, reply) => list(request, reply, request.query, null),
  );

  api.get(
    '/runs/:run_id/logs',
    read('listBatchExportRunLogs', 'List the logs of a run', ['batch_export_id', 'run_id'], {
      querystring: LogListQuery,
      response: { 200: OffsetPageOf(BatchExportLog) },
    }),
    async (request, reply) => {
      const { run_id: runId } = request.params as { run_id: string };
      const run = await loadRun(request, runId);
      return list(request, reply, request.query, run.id);
    },
  );
}
