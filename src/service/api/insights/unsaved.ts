import { type Static, type TObject, type TProperties, type TSchema, Type } from 'typebox';
import { readFileSettings } from '../../../foundation/domain/file-settings.ts';
import { refuseIfAny, withAllProblems } from '../../../foundation/domain/problem.ts';
import type { CreateExportInput } from '../../use-cases/exports/create-export.ts';
import {
  openDestinationConfig,
  readChangedDestination,
  readNewDestination,
  refuseRows,
} from '../../use-cases/exports/destination.ts';
import { changeFilters, type ExportRules } from '../../use-cases/exports/rules.ts';
import { planFirstFileNow, sampleIntervalOf } from '../../use-cases/exports/schedule.ts';
import type { UpdateExportInput } from '../../use-cases/exports/update-export.ts';
import { notePassedTest } from '../../use-cases/healing/heal.ts';
import { type Api, batchExportOf, type Reply, type Request, reachOf } from '../api.ts';
import { checkOnSource, type Runnable } from '../batch-exports/checks.ts';
import {
  exportFaults,
  modelOf,
  queryOf,
  readTime,
  repairExport,
  timesOf,
} from '../batch-exports/input.ts';
import { teamFor } from '../batch-exports/load.ts';
import { BatchExport, type BatchExportBodies, batchExportBodies } from '../batch-exports/schema.ts';
import { costOfTrial, exportOperations, type Family, organizationFamily } from '../operations.ts';
import type { Deps } from '../options.ts';
import { Ref, TextOrNull, TimeOrNull } from '../shapes.ts';
import { refusesAll } from '../validation/every-problem.ts';
import { namesModel } from '../validation/validator.ts';
import { lookAtDestination } from './look.ts';
import { DestinationTest } from './routes.ts';

type Json = Readonly<Record<string, unknown>>;

export const ignoredField = Type.Optional(
  Type.Unknown({ description: 'A field of the export. Ignored here.' }),
);

/** A body of create or update. Only these fields matter. */
export function bodyWith<Looked extends TProperties>(
  { Create }: Pick<BatchExportBodies, 'Create'>,
  looked: Looked,
  keywords = {},
) {
  const names = Object.keys({ ...BatchExport.properties, ...Create.properties });
  const ignored: TProperties = Object.fromEntries(names.map((name) => [name, ignoredField]));
  return Type.Unsafe<Static<TObject<Looked>>>(Type.Object({ ...ignored, ...looked }, keywords));
}

/** Only its file settings matter here. One that is not valid counts as its default. */
const AnyDestination = Type.Optional(
  Type.Object({
    type: Type.Optional(Type.String()),
    config: Type.Optional(
      Type.Unsafe<Record<string, unknown>>({ type: 'object', additionalProperties: true }),
    ),
  }),
);

function lookedFields(deps: Deps, family: Family) {
  const bodies = batchExportBodies(deps.destinations, family === organizationFamily);
  const { team_id, model, ...others } = bodies.Create.properties;
  const { dsl_query, hogql_query, filters, transformations } = others;
  const query = { dsl_query, hogql_query, filters, transformations };
  const { interval, timezone, offset_day, offset_hour, start_at, end_at } = others;
  const when = { timezone, offset_day, offset_hour, start_at, end_at };
  return { bodies, team_id, model, query, times: { interval: Type.Optional(interval), ...when } };
}

interface TestForm {
  readonly family: Family;
  readonly tag: string;
  readonly paths: readonly [string, string];
  readonly operations: readonly [readonly [string, string], readonly [string, string]];
  readonly more: TProperties;
  readonly answer: TSchema;
  readonly view: (test: Static<typeof DestinationTest>) => unknown;
}

/**
 * Tests of destinations before something is saved. The bodies are those of create and update; fields that do not
 * matter are ignored. They need the scope to write: a key that may only read must not make Sluice connect to an address of its own
 * choice.
 */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: a list of routes
export function destinationTestRoutes(api: Api, deps: Deps, form: TestForm): void {
  const { rules } = deps;
  const { family, tag, more, answer, view } = form;
  const { write } = exportOperations({ ...family, tag });
  const { bodies, team_id, model, query } = lookedFields(deps, family);
  const { destination } = bodies.Create.properties;
  const { destination: change } = bodies.Patch.properties;
  const looked = { destination, model, team_id, ...query };
  const newBody = bodyWith(bodies, { ...more, ...looked }, namesModel);
  const savedBody = bodyWith(bodies, { ...more, destination: change, ...query });

  const whole = (body: Json) => body as never as Readonly<Record<string, never>>;
  const newTest = refusesAll({
    standIns: { destination: { type: rules.destinationTypes[0], config: {} } },
    faults: (body) => exportFaults(rules, body, true),
    repair: (body, faulty) => repairExport(rules, body, faulty),
    examine: (_request, body) => {
      const { destination: asked, model: name } = body as unknown as CreateExportInput;
      withAllProblems(
        () => readNewDestination(rules, 0, asked.type, asked.config),
        () => readQuery(rules, { model: name, dslQuery: null, filters: null }, whole(body)),
      );
      return [];
    },
  });
  const changedTest = refusesAll({
    faults: (body) => exportFaults(rules, body, false),
    examine: (request, body) => {
      const before = batchExportOf(request);
      const { destination: change = {} } = body as UpdateExportInput;
      withAllProblems(
        () => readChangedDestination(request.context, rules, before, change),
        () => readQuery(rules, before, whole(body)),
      );
      return [];
    },
  });

  const config = { scope: 'batch_export:write', changesNothing: true, cost: costOfTrial } as const;
  const response = { 200: answer };
  const [newPath, savedPath] = form.paths;
  const [ofNew, ofSaved] = form.operations;

  api.post(
    newPath,
    { ...newTest, ...write(...ofNew, [], { body: newBody, response }), config },
    async (request, reply) => {
      const { body } = request;
      const { destination: asked, team_id: team, transformations = false } = body;
      const name = modelOf(body);
      const teamId = await teamFor(request.context.db, reachOf(request), team);
      const { type } = asked;
      const [complete, dslQuery] = withAllProblems(
        () => readNewDestination(rules, teamId, type, asked.config),
        () => readQuery(rules, { model: name, dslQuery: null, filters: null }, body),
      );
      const rows = { teamId, model: name, dslQuery, transformations, config: complete };
      await checkColumns(deps, request, reply, rows);
      const tested = { type, teamId, openConfig: () => complete };
      return view(await lookAtDestination(deps, request, reply, tested));
    },
  );

  api.post(
    savedPath,
    { ...changedTest, ...write(...ofSaved, ['id'], { body: savedBody, response }), config },
    async (request, reply) => {
      const batchExport = batchExportOf(request);
      const { body, context } = request;
      const { id, teamId, model: name, destination: stored } = batchExport;
      const { destination: asked, transformations = batchExport.transformations } = body;
      const [changed, dslQuery] = withAllProblems(
        () => asked && readChangedDestination(context, rules, batchExport, asked),
        () => readQuery(rules, batchExport, body),
      );
      const whole = { ...stored.config, ...changed };
      const rows = { teamId, model: name, dslQuery, transformations, config: whole };
      await checkColumns(deps, request, reply, rows);
      const openConfig = () => changed ?? openDestinationConfig(context.secrets, id, stored);
      const tested = { type: stored.type, teamId, openConfig };
      const test = await lookAtDestination(deps, request, reply, tested);
      // A test with other settings says nothing about the export as it is stored.
      if (test.passed && asked === undefined) await notePassedTest(context, id);
      return view(test);
    },
  );
}

export function unsavedRoutes(api: Api, family: Family, deps: Deps): void {
  const { rules } = deps;
  const { bodies, team_id, model, query, times } = lookedFields(deps, family);
  const { write } = exportOperations(family);
  destinationTestRoutes(api, deps, {
    family,
    tag: family.tag,
    paths: ['/test', '/:id/test'],
    operations: [
      ['testNewDestination', 'Run the checks of a destination that is not saved'],
      ['testDestination', "Run the destination's checks one by one"],
    ],
    more: {},
    answer: Ref(DestinationTest),
    view: (test) => test,
  });

  const looked = { model, ...query, ...times, destination: AnyDestination, team_id };
  const querySummary = 'Retrieve the query and first file that an export would have';
  api.post(
    '/query',
    {
      ...write('retrieveNewQuery', querySummary, [], {
        body: bodyWith(bodies, looked, namesModel),
        response: {
          200: Type.Object({
            dsl_query: BatchExport.properties.dsl_query,
            first_key: TextOrNull('Key of the first file; null if the fields leave it open.'),
            next_run_at: TimeOrNull('Start of the first run; null likewise.'),
          }),
        },
      }),
      config: { scope: 'batch_export:write', changesNothing: true },
    },
    async ({ body, context }) => {
      const newModel = modelOf(body);
      const noQuery = { model: newModel, dslQuery: null, filters: null };
      const dslQuery = readQuery(rules, noQuery, body);
      const { transformations = false } = body;
      refuseRows(rules, { model: newModel, dslQuery, transformations }, {});
      const planned = {
        ...timesOf(body),
        model: newModel,
        config: body.destination?.config ?? {},
        startAt: readTime(body.start_at) ?? null,
        endAt: readTime(body.end_at) ?? null,
      };
      const file = await planFirstFileNow(context.db, planned, deps.formats);
      const { key = null, runAt = null } = file ?? {};
      return { dsl_query: dslQuery, first_key: key, next_run_at: runAt };
    },
  );
}

function readQuery(
  rules: ExportRules,
  before: Parameters<typeof changeFilters>[1],
  body: Parameters<typeof queryOf>[0] & Pick<UpdateExportInput, 'filters'>,
): string | null {
  const newQuery = { dslQuery: queryOf(body), filters: body.filters };
  const { dslQuery, problems } = changeFilters(rules, before, newQuery);
  refuseIfAny(problems);
  return dslQuery;
}

/** The rule of create: only the source knows whether the rows have the columns that decimal_columns and partition_by name. */
export async function checkColumns(
  deps: Deps,
  request: Request,
  reply: Reply,
  rows: Omit<Runnable, 'sampleInterval'>,
) {
  const { decimalColumns, partitionBy } = readFileSettings(rows.config);
  if (decimalColumns === null && partitionBy.length === 0) return;
  await checkOnSource(deps, request, reply, { ...rows, sampleInterval: sampleIntervalOf({}) });
}
