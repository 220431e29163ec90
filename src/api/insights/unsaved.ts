import { type Static, type TObject, type TProperties, Type } from 'typebox';
import type { DestinationDefinition } from '../../destinations/destination.ts';
import { readFileSettings } from '../../domain/file-settings.ts';
import { Refusal } from '../../domain/problem.ts';
import {
  readChangedDestination,
  readNewDestination,
  refuseRows,
} from '../../use-cases/exports/unsaved.ts';
import { checkFixed } from '../../use-cases/exports/update-export.ts';
import { openDestinationConfig } from '../../use-cases/exports/destination.ts';
import { type Api, batchExportOf, type Reply, type Request, reachOf } from '../api.ts';
import { changedRunnable, checkOnSource, type Runnable } from '../batch-exports/check-on-source.ts';
import { defaultModel } from '../batch-exports/input.ts';
import { teamFor } from '../batch-exports/load.ts';
import { BatchExport, batchExportBodies } from '../batch-exports/schema.ts';
import { costOfTrial, exportOperations, type Family, organizationFamily } from '../operations.ts';
import type { Deps } from '../options.ts';
import { postErrors } from '../schemas/error.ts';
import { Ref } from '../schemas/shapes.ts';
import { lookAtDestination, lookAtRows } from './look.ts';
import { DestinationTest, RowPreview } from './schema.ts';

const config = { scope: 'batch_export:write', changesNothing: true, cost: costOfTrial } as const;

/**
 * Tests of destinations and previews of rows before something is saved. The bodies are those of create and
 * update; fields that do not matter are ignored. They need the scope to write: a key that may only read must
 * not make Sluice connect to an address, or read rows, of its own choice.
 */
export function unsavedRoutes(api: Api, family: Family, deps: Deps): void {
  const { rules } = deps;
  const bodies = batchExportBodies(
    deps.destinations,
    deps.models.map(({ name }) => name),
    family === organizationFamily,
  );
  const { team_id, destination, model, dsl_query, transformations } = bodies.Create.properties;
  const ignored: TProperties = Object.fromEntries(
    Object.keys({ ...BatchExport.properties, ...bodies.Create.properties }).map((name) => [
      name,
      Type.Optional(Type.Unknown({ description: 'A field of the export. Ignored here.' })),
    ]),
  );
  /** A body of create or update. Only these fields matter. */
  const bodyWith = <Looked extends TProperties>(looked: Looked) =>
    Type.Unsafe<Static<TObject<Looked>>>(Type.Object({ ...ignored, ...looked }));
  const Rows = {
    dsl_query,
    transformations,
    model,
    destination: Type.Optional(withRowSettings(deps.destinations)),
  };
  const { write } = exportOperations(family);

  api.post(
    '/test',
    {
      ...write('testNewDestination', 'Run the checks of a destination that is not saved', [], {
        body: bodyWith({ destination, model, team_id, dsl_query, transformations }),
        response: { 200: Ref(DestinationTest), ...postErrors() },
      }),
      config,
    },
    async (request, reply) => {
      const { body } = request;
      const { destination: asked, model: name = defaultModel, team_id: team } = body;
      const teamId = await teamFor(request.context.db, reachOf(request), team);
      const { type } = asked;
      const whole = readNewDestination(rules, teamId, type, asked.config);
      const { dsl_query: dslQuery = null, transformations: isTransformed = false } = body;
      await checkDecimals(deps, request, reply, {
        ...{ teamId, model: name, dslQuery, transformations: isTransformed, config: whole },
      });
      const tested = { type, teamId, openConfig: () => whole };
      return lookAtDestination(deps, request, reply, name, tested);
    },
  );

  api.post(
    '/:id/test',
    {
      ...write('testDestination', "Run the destination's checks one by one", ['id'], {
        body: bodyWith({
          destination: bodies.Patch.properties.destination,
          dsl_query,
          transformations,
        }),
        response: { 200: Ref(DestinationTest), ...postErrors() },
      }),
      config,
    },
    async (request, reply) => {
      const batchExport = batchExportOf(request);
      const { context } = request;
      const { id, teamId, model: name, destination: stored } = batchExport;
      const { destination: change } = request.body;
      const changed =
        change === undefined ? null : readChangedDestination(context, rules, batchExport, change);
      const { dsl_query: dslQuery, transformations: isTransformed } = request.body;
      const input = {
        ...{ dslQuery, transformations: isTransformed },
        destination: { config: changed ?? undefined },
      };
      await checkDecimals(deps, request, reply, changedRunnable(batchExport, input));
      const openConfig = () => changed ?? openDestinationConfig(context.secrets, id, stored);
      const tested = { type: stored.type, teamId, openConfig };
      return lookAtDestination(deps, request, reply, name, tested);
    },
  );

  api.post(
    '/preview',
    {
      ...write('previewNewRows', 'Preview rows of an export that is not saved', [], {
        body: bodyWith({ ...Rows, team_id }),
        response: { 200: Ref(RowPreview), ...postErrors() },
      }),
      config,
    },
    async (request, reply) => {
      const { body } = request;
      const teamId = await teamFor(request.context.db, reachOf(request), body.team_id);
      const asked = {
        teamId,
        model: body.model ?? defaultModel,
        dslQuery: body.dsl_query ?? null,
        transformations: body.transformations ?? false,
        destination: { config: body.destination?.config ?? {} },
      };
      const runnable = { ...asked, ...asked.destination };
      refuseRows(rules, runnable);
      await checkDecimals(deps, request, reply, runnable);
      return lookAtRows(deps, request, reply, asked);
    },
  );

  api.post(
    '/:id/preview',
    {
      ...write(
        'previewChangedRows',
        'Preview rows as a change that is not saved has them',
        ['id'],
        {
          body: bodyWith(Rows),
          response: { 200: Ref(RowPreview), ...postErrors() },
        },
      ),
      config,
    },
    async (request, reply) => {
      const { body } = request;
      const before = batchExportOf(request);
      const fixed = checkFixed('model', before.model, body.model);
      if (fixed.length > 0) throw new Refusal(...fixed);
      const asked = {
        teamId: before.teamId,
        model: before.model,
        dslQuery: body.dsl_query === undefined ? before.dslQuery : body.dsl_query,
        transformations: body.transformations ?? before.transformations,
        destination: { config: { ...before.destination.config, ...body.destination?.config } },
      };
      const runnable = { ...asked, ...asked.destination };
      refuseRows(rules, runnable);
      await checkDecimals(deps, request, reply, runnable);
      return lookAtRows(deps, request, reply, asked);
    },
  );
}

/**
 * The rule of create: only the source knows whether the rows have the columns that decimal_columns names.
 *
 * @throws Refusal
 */
async function checkDecimals(deps: Deps, request: Request, reply: Reply, runnable: Runnable) {
  if (readFileSettings(runnable.config).decimalColumns === null) return;
  await checkOnSource(deps, request, reply, runnable);
}

/**
 * The settings of a destination that are about the rows; the rest of it does not count. All destinations have the
 * same.
 */
function withRowSettings([first]: readonly DestinationDefinition[]) {
  const known: TProperties = first?.configSchema.properties ?? {};
  const names = ['include_events', 'exclude_events', 'decimal_columns'].filter(
    (name) => name in known,
  );
  const settings = Object.fromEntries(names.map((name) => [name, known[name]]));
  return Type.Unsafe<{ readonly config?: Readonly<Record<string, unknown>> }>(
    Type.Object(
      {
        config: Type.Optional(Type.Object(settings as TProperties, { additionalProperties: true })),
      },
      {
        additionalProperties: true,
        description: 'Only include_events, exclude_events and decimal_columns of its config count.',
      },
    ),
  );
}
