import { type Static, type TObject, type TProperties, Type } from 'typebox';
import { readFileSettings } from '../../../foundation/domain/file-settings.ts';
import { refuseIfAny, withAllProblems } from '../../../foundation/domain/problem.ts';
import { notePassedTest } from '../../use-cases/healing/note-passed-test.ts';
import {
  readChangedDestination,
  readNewDestination,
  refuseRows,
} from '../../use-cases/exports/unsaved.ts';
import { changeFilters } from '../../use-cases/exports/filters.ts';
import type { ExportRules } from '../../use-cases/exports/rules.ts';
import type { CreateExportInput } from '../../use-cases/exports/create-export.ts';
import type { UpdateExportInput } from '../../use-cases/exports/update-export.ts';
import { openDestinationConfig } from '../../use-cases/exports/destination.ts';
import { planFirstFileNow } from '../../use-cases/exports/first-file.ts';
import { sampleIntervalOf } from '../../use-cases/exports/sample-interval.ts';
import { type Api, batchExportOf, type Reply, type Request, reachOf } from '../api.ts';
import { checkOnSource, type Runnable } from '../batch-exports/check-on-source.ts';
import { exportFaults, repairExport } from '../batch-exports/repair.ts';
import { modelOf, queryOf, readTime } from '../batch-exports/input.ts';
import { teamFor } from '../batch-exports/load.ts';
import { BatchExport, type BatchExportBodies, batchExportBodies } from '../batch-exports/schema.ts';
import { costOfTrial, exportOperations, type Family, organizationFamily } from '../operations.ts';
import type { Deps } from '../options.ts';
import { Nullable, Ref, Time } from '../schemas/shapes.ts';
import { refusesAll } from '../validation/every-problem.ts';
import { namesModel } from '../validation/named-model.ts';
import { lookAtDestination } from './look.ts';
import { DestinationTest } from './schema.ts';

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

/** The fields of bodies that these operations read. */
function lookedFields(deps: Deps, family: Family) {
  const bodies = batchExportBodies(deps.destinations, family === organizationFamily);
  const { team_id, model, ...others } = bodies.Create.properties;
  const { dsl_query, hogql_query, filters, transformations } = others;
  const query = { dsl_query, hogql_query, filters, transformations };
  const { timezone, offset_day, offset_hour } = others;
  const { start_at, end_at } = others;
  const when = { timezone, offset_day, offset_hour, start_at, end_at };
  const times = { interval: Type.Optional(others.interval), ...when };
  return { bodies, team_id, model, query, times };
}

/**
 * Tests of destinations before something is saved. The bodies are those of create and update; fields that do not
 * matter are ignored. They need the scope to write: a key that may only read must not make Sluice connect to an address of its own
 * choice.
 *
 * @param more fields that the bodies have besides
 */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: a list of routes
export function destinationTests(family: Family, deps: Deps, more: TProperties = {}) {
  const { rules } = deps;
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

  /** Tests the destination of an export that is not saved. */
  const testNew = async (request: Asking<Static<typeof newBody>>, reply: Reply) => {
    const { body } = request;
    const { destination: asked, team_id: team } = body;
    const name = modelOf(body);
    const teamId = await teamFor(request.context.db, reachOf(request), team);
    const { type } = asked;
    const [whole, dslQuery] = withAllProblems(
      () => readNewDestination(rules, teamId, type, asked.config),
      () => readQuery(rules, { model: name, dslQuery: null, filters: null }, body),
    );
    const { transformations: isTransformed = false } = body;
    await checkColumns(deps, request, reply, {
      ...{ teamId, model: name, dslQuery, transformations: isTransformed, config: whole },
    });
    const tested = { type, teamId, openConfig: () => whole };
    return lookAtDestination(deps, request, reply, tested);
  };

  /** Tests the destination of a saved export, with the changes of the body. */
  const testSaved = async (request: Asking<Static<typeof savedBody>>, reply: Reply) => {
    const batchExport = batchExportOf(request);
    const { context } = request;
    const { id, teamId, model: name, destination: stored } = batchExport;
    const { destination: asked } = request.body;
    const [changed, dslQuery] = withAllProblems(
      () =>
        asked === undefined ? null : readChangedDestination(context, rules, batchExport, asked),
      () => readQuery(rules, batchExport, request.body),
    );
    const { transformations = batchExport.transformations } = request.body;
    const config = { ...stored.config, ...changed };
    const runnable = { ...{ teamId, model: name, dslQuery, transformations }, config };
    await checkColumns(deps, request, reply, runnable);
    const openConfig = () => changed ?? openDestinationConfig(context.secrets, id, stored);
    const tested = { type: stored.type, teamId, openConfig };
    const test = await lookAtDestination(deps, request, reply, tested);
    // A test with other settings says nothing about the export as it is stored.
    if (test.passed && asked === undefined) await notePassedTest(context, id);
    return test;
  };
  return { newBody, newTest, testNew, savedBody, changedTest, testSaved };
}
type Asking<Body> = Request & { readonly body: Body };

/** The number of requests that a test of a destination counts as. */
export const trial = {
  scope: 'batch_export:write',
  changesNothing: true,
  cost: costOfTrial,
} as const;

/** Tests of destinations, and the query of an export, before they are saved. */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: a list of routes
export function unsavedRoutes(api: Api, family: Family, deps: Deps): void {
  const { rules } = deps;
  const { bodies, team_id, model, query, times } = lookedFields(deps, family);
  const { write } = exportOperations(family);
  const tests = destinationTests(family, deps);
  const { newBody, newTest, testNew, savedBody, changedTest, testSaved } = tests;

  api.post(
    '/test',
    {
      ...newTest,
      ...write('testNewDestination', 'Run the checks of a destination that is not saved', [], {
        body: newBody,
        response: { 200: Ref(DestinationTest) },
      }),
      config: trial,
    },
    testNew,
  );

  api.post(
    '/:id/test',
    {
      ...changedTest,
      ...write('testDestination', "Run the destination's checks one by one", ['id'], {
        body: savedBody,
        response: { 200: Ref(DestinationTest) },
      }),
      config: trial,
    },
    testSaved,
  );

  api.post(
    '/query',
    {
      ...write(
        'retrieveNewQuery',
        'Retrieve the query and first file that an export would have',
        [],
        {
          body: bodyWith(
            bodies,
            { model, ...query, ...times, destination: AnyDestination, team_id },
            namesModel,
          ),
          response: {
            200: Type.Object({
              dsl_query: BatchExport.properties.dsl_query,
              first_key: Nullable(
                Type.String({
                  description: 'Key of the first file; null if the fields leave it open.',
                }),
              ),
              next_run_at: Nullable({
                ...Time,
                description: 'Start of the first run; null likewise.',
              }),
            }),
          },
        },
      ),
      config: { scope: 'batch_export:write', changesNothing: true },
    },
    async ({ body, context }) => {
      const newModel = modelOf(body);
      const noQuery = { model: newModel, dslQuery: null, filters: null };
      const dslQuery = readQuery(rules, noQuery, body);
      const { transformations: isTransformed = false } = body;
      refuseRows(rules, { model: newModel, dslQuery, transformations: isTransformed, config: {} });
      const { start_at: startAt, end_at: endAt, destination: asked } = body;
      const file = await planFirstFileNow(
        context.db,
        {
          ...timesOf(body),
          model: newModel,
          config: asked?.config ?? {},
          startAt: readTime(startAt) ?? null,
          endAt: readTime(endAt) ?? null,
        },
        deps.formats,
      );
      return {
        dsl_query: dslQuery,
        first_key: file?.key ?? null,
        next_run_at: file?.runAt ?? null,
      };
    },
  );
}

/** The query with the conditions of its filters. @throws Refusal */
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

const timesOf = (body: {
  readonly interval?: string | undefined;
  readonly timezone?: string | undefined;
  readonly offset_day?: number | null | undefined;
  readonly offset_hour?: number | null | undefined;
}) => ({
  interval: body.interval,
  timezone: body.timezone,
  offsetDay: body.offset_day,
  offsetHour: body.offset_hour,
});

/**
 * The rule of create: only the source knows whether the rows have the columns that decimal_columns and partition_by name.
 *
 * @throws Refusal
 */
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
