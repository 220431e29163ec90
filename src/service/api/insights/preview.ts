import { type Static, type TObject, type TProperties, Type } from 'typebox';
import { Refusal } from '../../../foundation/domain/problem.ts';
import { allows, type Scope } from '../../../foundation/security/scopes.ts';
import type { DestinationDefinition } from '../../../rows/destinations/destination.ts';
import { findBatchExport } from '../../../state/store/exports/exports.ts';
import {
  choosePreview,
  openPreviewSteps,
  type PreviewInput,
  previewPatiently,
  refuseManySandboxes,
} from '../../use-cases/transformations/preview-rows.ts';
import { maxSteps } from '../../use-cases/transformations/steps.ts';
import {
  type Api,
  actorOf,
  batchExportOf,
  callerOf,
  type Reply,
  type Request,
  reachOf,
} from '../api.ts';
import { rowSettings } from '../batch-exports/checks.ts';
import { modelOf, queryOf } from '../batch-exports/input.ts';
import { teamFor } from '../batch-exports/load.ts';
import { type BatchExportBodies, batchExportBodies } from '../batch-exports/schema.ts';
import { permissionDenied } from '../errors.ts';
import { costOfTrial, exportOperations, type Family, organizationFamily } from '../operations.ts';
import type { Deps } from '../options.ts';
import { sendText, untilClosed } from '../replies.ts';
import { answers, Flag, Nullable, OptionalInt, OptionalText, Ref } from '../shapes.ts';
import { readConfig } from '../transformations/input.ts';
import { namesModelOrExport } from '../validation/validator.ts';
import { Row, RowPreview } from './routes.ts';
import { bodyWith, checkColumns, ignoredField } from './unsaved.ts';

const maxRows = 100;

const trialFields = {
  id: OptionalText({
    format: 'uuid',
    description: 'A saved export. Other fields are changes of it.',
  }),
  configs: Type.Optional(
    Type.Array(
      Type.Object({
        plugin: Type.Integer({ minimum: 1, maximum: 2_147_483_647 }),
        name: Type.Optional(Nullable(Type.String({ maxLength: 400 }))),
        config: Type.Optional(
          Type.Unsafe<string | Record<string, unknown>>({
            type: ['object', 'string'],
            additionalProperties: true,
          }),
        ),
      }),
      {
        maxItems: maxSteps,
        description: 'Steps in their order, with their secrets, in place of the stored chain.',
      },
    ),
  ),
  rows: Type.Optional(
    Type.Array(Row, {
      minItems: 1,
      maxItems: maxRows,
      description:
        'Rows to use in place of those of the source: columns by name. No query and no event filter applies to them.',
    }),
  ),
  limit: OptionalInt({
    minimum: 1,
    maximum: maxRows,
    description: 'Rows of the source. Default: 100.',
  }),
  trace: Type.Optional(Flag('Show what each step does to each row, also to dropped ones.')),
};

const config = { cost: costOfTrial, changesNothing: true } as const;

/** Rows through a chain: of a saved export, a changed or new one, or of the caller; with or without a trace. */
export function previewRoutes(api: Api, family: Family, deps: Deps): void {
  const { read } = exportOperations(family);
  const bodies = batchExportBodies(deps.destinations, family === organizationFamily);
  const { team_id, model, mode, dsl_query, hogql_query, filters, transformations } =
    bodies.Create.properties;
  const destination = Type.Optional(withRowSettings(deps.destinations));
  const query = { dsl_query, hogql_query, filters, transformations };
  const fields = { ...trialFields, ...query, team_id, model, mode, destination };

  api.get(
    '/:id/preview',
    {
      ...read(
        'previewRows',
        'Preview up to 100 rows as they would be exported',
        ['id'],
        answers(RowPreview),
      ),
      config: { ...config, scope: 'batch_export:read' },
    },
    async (request, reply) =>
      answer(deps, request, reply, await inputOf(request, { id: batchExportOf(request).id })),
  );

  api.post(
    '/preview',
    {
      ...read('tryRows', 'Preview any rows through any chain', [], {
        body: bodyWith(bodies, fields, namesModelOrExport),
        response: { 200: Ref(RowPreview) },
      }),
      // The other rights that the key needs depend on the body.
      config: { ...config, scope: 'batch_export:read', otherScope: 'plugin:write' },
    },
    async (request, reply) => {
      refuseScopes(request, request.body);
      return answer(deps, request, reply, await inputOf(request, request.body));
    },
  );
}

type Body = Static<TObject<typeof trialFields>> &
  Partial<
    Pick<
      Static<BatchExportBodies['Create']>,
      'team_id' | 'model' | 'mode' | 'dsl_query' | 'hogql_query' | 'filters' | 'transformations'
    >
  > & { readonly destination?: { readonly config?: Readonly<Record<string, unknown>> } };

/** A key that may only read must not make Sluice read rows of its own choice. @throws ApiError 403 */
function refuseScopes(request: Request, body: Body): void {
  const { scopes } = callerOf(request);
  const { id, rows, configs, transformations, dsl_query, hogql_query, filters, destination } = body;
  const isTrial = rows !== undefined || configs !== undefined;
  const chosen = [dsl_query, hogql_query, filters, destination, id && transformations];
  const isOwnChoice = chosen.some((field) => field !== undefined);
  const isOfPlugins = isTrial || (id === undefined && !allows(scopes, 'batch_export:write'));
  const needed: readonly Scope[] = [
    ...(rows === undefined || id !== undefined ? ['batch_export:read' as const] : []),
    ...(isOwnChoice ? ['batch_export:write' as const] : []),
    ...(isOfPlugins ? ['plugin:write' as const] : []),
  ];
  const missing = needed.find((scope) => !allows(scopes, scope));
  if (missing) throw permissionDenied(`For these rows the API key needs the scope ${missing}.`);
}

async function inputOf(request: Request, body: Body): Promise<PreviewInput> {
  const { id, team_id: team, configs, rows, limit = maxRows, trace = false } = body;
  const { db } = request.context;
  const saved = id === undefined ? null : await findBatchExport(db, reachOf(request), id);
  if (id !== undefined && !saved) {
    const detail = 'There is no batch export with this id.';
    throw new Refusal({ code: 'does_not_exist', detail, attr: 'id' });
  }
  return {
    saved,
    teamId: saved?.teamId ?? (await teamFor(db, reachOf(request), team)),
    model: saved ? body.model : modelOf(body),
    mode: body.mode,
    dslQuery: queryOf(body),
    filters: body.filters,
    transformations: body.transformations,
    config: body.destination?.config,
    configs: configs?.map(({ plugin, name, config: given }) => ({
      ...{ plugin, name: name || null, config: readConfig(given) ?? {} },
    })),
    given: rows ?? null,
    limit,
    trace,
  };
}

/** Shows rows in the slots that they need. @throws SluiceError, Throttled, Refusal */
async function answer(deps: Deps, request: Request, reply: Reply, input: PreviewInput) {
  const { previewRows, previews, sandboxes, trials, rules } = deps;
  const { context } = request;
  const actor = actorOf(request);
  const { organizationId } = actor;
  const signal = untilClosed(reply);
  const chosen = choosePreview(rules, input);
  if (!chosen.given) await checkColumns(deps, request, reply, chosen);
  const inSlot = <T>(work: () => Promise<T>) => previews.use(organizationId, signal, work);
  const work = async () => {
    const steps = await openPreviewSteps(context, actor, chosen);
    const attr = chosen.configs ? 'configs' : null;
    const show = () => previewPatiently(previewRows, { ...chosen, steps }, attr, inSlot, signal);
    return refuseManySandboxes(steps, attr) ? sandboxes.use(organizationId, signal, show) : show();
  };
  // Computing takes the time of this process from all.
  const computes = chosen.trace || chosen.configs !== null || chosen.transformations;
  const shown = await (computes ? trials.use(organizationId, signal, work) : work());
  const { columns, rows, trace, leftOut } = shown;
  const head = JSON.stringify({ columns, left_out: leftOut }).slice(0, -1);
  const json = `${head},"rows":[${rows.join()}],"trace":${trace && `[${trace.join()}]`}}`;
  // As objects, large values would take many times the memory.
  return sendText(reply, 'application/json', json);
}

/** A destination. Only these settings of it count. */
function withRowSettings(destinations: readonly DestinationDefinition[]) {
  const settings: TProperties = {};
  for (const { configSchema } of destinations) {
    for (const [name, schema] of Object.entries(configSchema.properties)) {
      settings[name] = rowSettings.includes(name) ? schema : ignoredField;
    }
  }
  return Type.Unsafe<{ readonly config?: Readonly<Record<string, unknown>> }>(
    Type.Object(
      {
        type: Type.Optional(Type.Enum(destinations.map(({ type }) => type))),
        config: Type.Optional(Type.Object(settings)),
      },
      {
        description:
          'Only include_events, exclude_events, decimal_columns and partition_by of its config count.',
      },
    ),
  );
}
