import { type Static, Type } from 'typebox';
import { invalid, Refusal } from '../../../foundation/domain/problem.ts';
import { inSnakeCase } from '../../../foundation/domain/snake-case.ts';
import { listLogEntries, logLevels } from '../../../state/store/exports/log-entries.ts';
import { listRuns, type Run } from '../../../state/store/runs/runs.ts';
import { cancelRun, retryRun } from '../../use-cases/runs/cancel-work.ts';
import {
  type Api,
  actorOf,
  batchExportOf,
  isOperatorsLook,
  type Reply,
  type Request,
} from '../api.ts';
import {
  CursorPageOf,
  clampLimit,
  cursorEnvelope,
  OffsetPageOf,
  offsetEnvelope,
  PageQuery,
  pageOf,
  positionOf,
  timeBound,
} from '../lists.ts';
import { compressed, exportOperations, type Family } from '../operations.ts';
import type { Deps } from '../options.ts';
import { untilClosed } from '../replies.ts';
import { answers, OptionalText, Ref, Resource, Time, UuidOrNull } from '../shapes.ts';
import {
  FileLinkView,
  LinkBody,
  linkConfig,
  linkFile,
  RunFilePage,
  runFilesPage,
} from './files.ts';
import { BatchExportRun, RetryBody, RunListQuery, TimeOrSpan } from './schema.ts';
import { loadRun, runView } from './view.ts';

const BatchExportLog = Resource('BatchExportLog', 'A log entry for the owner of an export.', {
  team_id: Type.Integer(),
  batch_export_id: Type.String({ format: 'uuid' }),
  run_id: UuidOrNull('Null if the entry is about the export itself.'),
  timestamp: Time,
  level: Type.Enum([...logLevels]),
  message: Type.String(),
});

const Levels = Type.Optional(
  Type.Array(Type.Enum([...logLevels]), { description: 'May be repeated.' }),
);

const LogListQuery = Type.Object({
  ...PageQuery,
  level: Levels,
  level_filter: Levels,
  after: TimeOrSpan('At or after'),
  before: TimeOrSpan('At or before'),
  search: OptionalText({
    maxLength: 400,
    description: 'Part of the message; case does not matter.',
  }),
});
type LogListQuery = Static<typeof LogListQuery>;

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
      throw new Refusal(invalid('search', detail));
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
    return offsetEnvelope(request, page, entries, ({ exportId, ...entry }) => ({
      ...{ ...inSnakeCase(entry), batch_export_id: exportId },
    }));
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

const ids = ['batch_export_id', 'id'] as const;
const filesSummary = 'List the files of a run, with their object keys and digests';

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
    read('retrieveBatchExportRun', 'Retrieve a run', ids, answers(BatchExportRun)),
    async (request) => runView(await runOf(request), request.context.policy.retry),
  );

  api.get(
    '/:id/files',
    read('listBatchExportRunFiles', filesSummary, ids, {
      querystring: Type.Object(PageQuery),
      response: { 200: RunFilePage },
    }),
    async (request) =>
      runFilesPage(request, await runOf(request), pageOf(request.query), deps.destinations),
  );

  api.post(
    '/:id/link',
    {
      ...write('linkBatchExportRunFile', 'Make a link to a file of a run', ids, {
        body: LinkBody,
        response: { 200: FileLinkView },
      }),
      config: linkConfig,
    },
    async (request, reply) => linkFile(deps, request, reply, await runOf(request)),
  );

  api.post(
    '/:id/cancel',
    write('cancelBatchExportRun', 'Cancel a run that has not ended', ids, {
      response: { 200: Type.Object({ cancelled: Type.Literal(true) }) },
    }),
    async (request) => {
      await cancelRun(request.context, await runOf(request));
      return { cancelled: true as const };
    },
  );

  api.post(
    '/:id/retry',
    write('retryBatchExportRun', "Run an ended run's interval again, as a new run", ids, {
      body: RetryBody,
      response: { 201: Ref(BatchExportRun) },
    }),
    async (request, reply) => {
      const { body, context } = request;
      const run = await runOf(request);
      const id = await retryRun(context, run, body.missing_rows ?? null, actorOf(request));
      const retry = await loadRun(request, id);
      reply.code(201);
      return runView(retry, context.policy.retry);
    },
  );
}
