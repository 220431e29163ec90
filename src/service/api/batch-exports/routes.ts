import { type Static, Type } from 'typebox';
import { readFileSettings } from '../../../foundation/domain/file-settings.ts';
import { describeForeignForms } from '../../../foundation/domain/key-template.ts';
import {
  countExportHealths,
  findBatchExports,
  listBatchExports,
} from '../../../state/store/exports/export-lists.ts';
import { countExpiring } from '../../../state/store/intervals/kept-snapshots.ts';
import { countChainSteps } from '../../../state/store/transformations/transformation-configs.ts';
import {
  type CreateExportInput,
  createExport,
  examineNewExport,
  refuseTakenName,
} from '../../use-cases/exports/create-export.ts';
import {
  pauseExport,
  previewUnpause,
  unpauseExport,
} from '../../use-cases/exports/pause-export.ts';
import {
  deleteExport,
  examineChange,
  type UpdateExportInput,
  updateExport,
} from '../../use-cases/exports/update-export.ts';
import { type Api, actorOf, batchExportOf, type Reply, type Request, reachOf } from '../api.ts';
import { OffsetPageOf, offsetEnvelope, pageOf, viewsOfPage } from '../lists.ts';
import { compressed, exportOperations, type Family, organizationFamily } from '../operations.ts';
import type { Deps } from '../options.ts';
import { answers, Ref } from '../shapes.ts';
import { refusesAll, settled, withRules } from '../validation/every-problem.ts';
import {
  changedRunnable,
  changesRows,
  checkOnSource,
  checkTablePlace,
  newRunnable,
  warn,
} from './checks.ts';
import { createInput, exportFaults, repairExport, updateInput } from './input.ts';
import {
  BatchExportSummary,
  countsView,
  ExportHealthCounts,
  ExportListQuery,
  searchOf,
  summaryOf,
} from './list.ts';
import { refuseOtherRows, teamFor } from './load.ts';
import { BatchExport, batchExportBodies, UnpauseBody, UnpausePreview } from './schema.ts';
import {
  batchExportView,
  batchExportViews,
  createdExportView,
  unpausePreviewView,
} from './view.ts';

// biome-ignore lint/complexity/noExcessiveLinesPerFunction: a list of routes
export function batchExportRoutes(api: Api, family: Family, deps: Deps): void {
  const { rules } = deps;
  const takesTeam = family === organizationFamily;
  const { Create, Patch, Put } = batchExportBodies(deps.destinations, takesTeam);
  const { read, write } = exportOperations(family);
  const newExport = refusesAll({
    standIns: {
      name: 'unnamed',
      interval: 'day',
      model: rules.models[0]?.name,
      destination: { type: rules.destinationTypes[0], config: {} },
    },
    faults: (body) => exportFaults(rules, body, true),
    repair: (body, faulty) => repairExport(rules, body, faulty),
    examine: async (request, body, reply) => {
      const sound = body as Parameters<typeof createInput>[0] & { readonly team_id?: number };
      const input = createInput(sound);
      const teamId = await teamOf(request, sound.team_id, input);
      const examine = () => examineNewExport(request.context, rules, teamId, input).problems;
      const runnable = newRunnable(rules, input, teamId);
      await withRules(checkOnSource(deps, request, reply, runnable), examine);
      return examine();
    },
  });
  /** The project of a new export. If there is none, the answer names all other problems too. */
  const teamOf = (request: Request, said: number | undefined, input: CreateExportInput) =>
    withRules(
      teamFor(request.context.db, reachOf(request), said),
      () => examineNewExport(request.context, rules, 0, input).problems,
    );
  const changedExport = refusesAll({
    faults: (body) => exportFaults(rules, body, false),
    repair: (_body, faulty) => (faulty.has('interval') ? { interval: '' } : {}),
    examine: async (request, body, reply) => {
      const input = updateInput(body as Parameters<typeof updateInput>[0]);
      await askSource(request, reply, input);
      return examineChange(request.context, rules, batchExportOf(request), input).problems;
    },
  });
  /** @returns warnings @throws Refusal with every problem of the change, if the source cannot run it */
  const askSource = async (request: Request, reply: Reply, input: UpdateExportInput) => {
    if (!changesRows(input)) return [];
    const before = batchExportOf(request);
    return withRules(
      checkOnSource(deps, request, reply, changedRunnable(rules, before, input)),
      () => examineChange(request.context, rules, before, input).problems,
    );
  };
  /** The source's answers to requests that are in progress: warnings, or why it cannot run. */
  const checks = new WeakMap<Request, Promise<readonly string[]>>();

  const list = async <View>(
    request: Request & { readonly query: Static<typeof ExportListQuery> },
    view: (shown: Static<typeof BatchExport>) => View,
  ) => {
    const page = pageOf(request.query);
    const search = searchOf(request.query);
    const { db } = request.context;
    const reach = reachOf(request);
    const { count, results } = await (search === null
      ? listBatchExports(db, reach, page)
      : findBatchExports(db, reach, search, page));
    const shown = await viewsOfPage(results, async (some) =>
      (await batchExportViews(request.context, some)).map(view),
    );
    return offsetEnvelope(request, page, { count, results: shown }, (one) => one);
  };

  api.get(
    '',
    compressed(
      read('listBatchExports', 'List batch exports, newest first', [], {
        querystring: ExportListQuery,
        response: { 200: OffsetPageOf(BatchExport) },
      }),
    ),
    (request) => list(request, (shown) => shown),
  );

  api.get(
    '/summaries',
    compressed(
      read('summarizeBatchExports', 'List batch exports in a short form', [], {
        querystring: ExportListQuery,
        response: { 200: OffsetPageOf(BatchExportSummary) },
      }),
    ),
    (request) => list(request, summaryOf),
  );

  api.get(
    '/health',
    read('countBatchExports', 'Count the batch exports by their health', [], {
      response: { 200: Ref(ExportHealthCounts) },
    }),
    async (request) => countsView(await countExportHealths(request.context.db, reachOf(request))),
  );

  api.post(
    '',
    {
      ...write('createBatchExport', 'Create a batch export', [], {
        body: Create,
        response: { 201: Ref(BatchExport) },
      }),
      ...newExport,
      // Before the handler, which may be within a transaction: the source may be slow.
      preHandler: async (request, reply) => {
        await newExport.preHandler(request, reply);
        const input = createInput(request.body);
        const teamId = await teamOf(request, request.body.team_id, input);
        const check = checkNew(deps, request, reply, newRunnable(rules, input, teamId));
        checks.set(request, check);
        await check.catch(() => {});
      },
    },
    async (request, reply) => {
      const teamId = await teamFor(request.context.db, reachOf(request), request.body.team_id);
      const input = createInput(request.body);
      const actor = actorOf(request);
      // A refusal of the check too, unless the request is answered as it was before.
      const check = checks.get(request) ?? Promise.resolve([]);
      const examine = () => examineNewExport(request.context, rules, teamId, input).problems;
      const warnings = await withRules(check, examine);
      const created = await createExport(request.context, rules, actor, teamId, input);
      const idle =
        request.body.transformations === undefined ? await chainWarnings(request, teamId) : [];
      await warn(request, reply, created.batchExport, [...warnings, ...idle]);
      reply.code(201);
      return createdExportView(request.context, created);
    },
  );

  api.get(
    '/:id',
    read('retrieveBatchExport', 'Retrieve a batch export', ['id'], answers(BatchExport)),
    async (request) => batchExportView(request.context, batchExportOf(request)),
  );

  for (const [method, body, operation, summary] of [
    ['PATCH', Patch, 'updateBatchExport', 'Update a batch export'],
    ['PUT', Put, 'replaceBatchExport', 'Update a batch export; required fields must be sent'],
  ] as const) {
    api.route({
      method,
      url: '/:id',
      ...write(operation, summary, ['id'], { body, response: { 200: Ref(BatchExport) } }),
      ...changedExport,
      handler: async (request, reply) => {
        const before = batchExportOf(request);
        const input = updateInput(request.body);
        const warnings = await askSource(request, reply, input);
        const actor = actorOf(request);
        const after = await updateExport(request.context, rules, actor, before.id, input);
        const { prefix } = readFileSettings(input.destination?.config ?? {});
        const removed = await describeRemoved(request, before, after);
        const all = [...warnings, ...describeForeignForms(prefix), ...removed];
        await warn(request, reply, after, all);
        return batchExportView(request.context, after);
      },
    });
  }

  api.delete(
    '/:id',
    write('deleteBatchExport', 'Delete a batch export and cancel its live work', ['id'], {
      response: { 204: Type.Null({ description: 'Deleted.' }) },
    }),
    async (request, reply) => {
      await deleteExport(request.context, actorOf(request), batchExportOf(request).id);
      return reply.code(204).send(null);
    },
  );

  api.post(
    '/:id/pause',
    write('pauseBatchExport', 'Pause a batch export; live runs finish', ['id'], {
      response: { 200: Ref(BatchExport) },
    }),
    async (request) => {
      const { id } = batchExportOf(request);
      const paused = await pauseExport(request.context, actorOf(request), id);
      return batchExportView(request.context, paused);
    },
  );

  api.post(
    '/:id/unpause',
    write('unpauseBatchExport', 'Unpause a batch export', ['id'], {
      body: UnpauseBody,
      response: { 200: Type.Union([Ref(BatchExport), Ref(UnpausePreview)]) },
    }),
    async (request) => {
      refuseOtherRows(request);
      const current = batchExportOf(request);
      const { backfill = false, retry_missing: retryMissing = false, dry_run } = request.body;
      if (dry_run) return unpausePreviewView(await previewUnpause(request.context, current));
      const options = { backfill, retryMissing };
      const unpaused = await unpauseExport(request.context, actorOf(request), current.id, options);
      const { batchExport, backfillIds, totalRuns } = unpaused;
      const shown = await batchExportView(request.context, batchExport, backfillIds.at(-1));
      return backfillIds.length === 0 ? shown : { ...shown, backfill_total_runs: totalRuns };
    },
  );
}

type Stored = Awaited<ReturnType<typeof updateExport>>;

async function describeRemoved(
  { context }: Request,
  before: Stored,
  { id, keepSnapshots }: Stored,
): Promise<readonly string[]> {
  if (keepSnapshots === null || keepSnapshots === before.keepSnapshots) return [];
  const count = await countExpiring(context.db, id);
  const older = count === 1 ? 'snapshot' : 'snapshots';
  const text = `keep_snapshots is ${keepSnapshots} now, so Sluice removes the files of ${count} older ${older}.`;
  return count === 0 ? [] : [text];
}

async function checkNew(
  deps: Deps,
  request: Request,
  reply: Reply,
  asked: CreateExportInput & Parameters<typeof checkOnSource>[3],
): Promise<readonly string[]> {
  const { uniqueName, teamId, name } = asked;
  // Before the source and the store: their faults may follow from the export that has the name.
  if (uniqueName) await refuseTakenName(request.context.db, teamId, name);
  const warnings = await settled([
    checkOnSource(deps, request, reply, asked),
    checkTablePlace(deps, request, reply, asked),
  ]);
  const { prefix } = readFileSettings(asked.destination.config);
  return [...warnings.flat(), ...describeForeignForms(prefix)];
}

/** A client that leaves the field out may not know that the project has a chain, such as one that masks values. */
async function chainWarnings({ context }: Request, teamId: number): Promise<readonly string[]> {
  const steps = await countChainSteps(context.db, teamId);
  const text = `The project has enabled transformation steps: ${steps}. This export does not apply them, because transformations is false. Set it to true to apply them.`;
  return steps === 0 ? [] : [text];
}
