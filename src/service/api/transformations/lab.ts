import { type Static, Type } from 'typebox';
import { StepFault } from '../../../foundation/domain/errors.ts';
import { Refusal } from '../../../foundation/domain/problem.ts';
import { allows } from '../../../foundation/security/scopes.ts';
import type { StepDefinition } from '../../../rows/transforms/step.ts';
import { maxSteps } from '../../use-cases/transformations/chain-size.ts';
import { storedSteps, trialSteps } from '../../use-cases/transformations/preview-rows.ts';
import { modelOf } from '../batch-exports/input.ts';
import { type Api, actorOf, callerOf, type Request } from '../api.ts';
import { permissionDenied } from '../api-error.ts';
import { costOfTrial, projectFamily, transformationOperations } from '../operations.ts';
import type { Deps } from '../options.ts';
import { postErrors } from '../schemas/error.ts';
import { Nullable, named, Ref } from '../schemas/shapes.ts';
import { sendJson, showRows } from '../insights/look.ts';
import { LeftOut } from '../insights/schema.ts';
import { untilClosed } from '../until-closed.ts';
import { namesModel } from '../validation/named-model.ts';
import { readConfig } from './input.ts';
import { teamOf } from './load.ts';

const Row = Type.Unsafe<Record<string, unknown>>({ type: 'object', additionalProperties: true });
const Value = Type.Unsafe<unknown>({});

const labFields = {
  stored: Type.Optional(Type.Boolean({ description: "Use the project's enabled chain." })),
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
      { maxItems: maxSteps, description: 'Steps in their order, with their secrets. Not stored.' },
    ),
  ),
  rows: Type.Optional(
    Type.Array(Row, { minItems: 1, maxItems: 100, description: 'Rows: columns by name.' }),
  ),
  sample: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 100, description: 'Number of the newest rows to use.' }),
  ),
  model: Type.Optional(
    Type.String({
      description:
        'The model that the rows are of. Default: events, or the only model if the installation has one.',
    }),
  ),
};
const LabRequest = Type.Object(labFields, namesModel);

export const LabResult = named(
  'TransformationLabResult',
  Type.Object(
    {
      rows: Type.Array(
        Type.Object({
          row: Row,
          result: Nullable(Row),
          steps: Type.Array(
            Type.Object({
              step: Type.Integer({ description: 'Id of its config, or its place in configs.' }),
              name: Type.String(),
              fate: Type.Enum(['kept', 'dropped', 'rejected']),
              error: Nullable(Type.String()),
              changes: Type.Array(
                Type.Object({
                  path: Type.String(),
                  kind: Type.Enum(['added', 'removed', 'changed'], {
                    description:
                      '`added`: the value did not exist before. `removed`: the value no longer exists.',
                  }),
                  before: Value,
                  after: Value,
                }),
                { description: 'Columns, and properties of JSON columns, that it changed.' },
              ),
              microseconds: Type.Integer(),
            }),
          ),
        }),
      ),
      left_out: LeftOut,
    },
    { description: 'What each step of a chain does to each row. Nothing is stored.' },
  ),
);

const { write } = transformationOperations(
  'Pipeline transformation configs',
  projectFamily,
  'transformation config',
);

/** The lab: a chain applied to some rows, step by step. */
export function labRoutes(api: Api, deps: Deps): void {
  api.post(
    '/lab',
    {
      ...write('tryTransformations', 'Apply a chain to some rows, and show each step', [], {
        body: LabRequest,
        response: { 200: Ref(LabResult), ...postErrors() },
      }),
      config: { scope: 'plugin:write', changesNothing: true, cost: costOfTrial },
    },
    async (request, reply) => {
      const { body } = request;
      const { organizationId } = actorOf(request);
      const signal = untilClosed(reply);
      // Waiting for a slot costs nothing; compiling steps and reading rows does.
      return deps.trials.use(organizationId, signal, async () => {
        const steps = await stepsOf(request, body);
        const attr = body.stored ? 'stored' : 'configs';
        const asked = { ...rowsOf(request, body), steps };
        const { trace, leftOut } = await showRows(deps, request, asked, attr, signal);
        const rows = (trace ?? []).join();
        return sendJson(reply, `{"left_out":${JSON.stringify(leftOut)},"rows":[${rows}]}`);
      });
    },
  );
}

async function stepsOf(
  request: Request,
  { configs, stored = false }: Static<typeof LabRequest>,
): Promise<readonly StepDefinition[]> {
  if (stored === (configs !== undefined)) {
    const detail = 'Send configs, or "stored": true.';
    throw new Refusal({ code: 'invalid_input', detail, attr: 'configs' });
  }
  const { context } = request;
  if (configs === undefined) {
    return storedSteps(context, teamOf(request)).catch((error: unknown) => {
      if (!(error instanceof StepFault)) throw error;
      const detail = `${error.spec.means} ${error.detail}`;
      throw new Refusal({ code: 'invalid_input', detail, attr: 'stored' });
    });
  }
  const given = configs.map(({ plugin, name, config }) => {
    return { plugin, name: name || null, config: readConfig(config) ?? {} };
  });
  return trialSteps(context, actorOf(request), given);
}

function rowsOf(request: Request, { rows, sample, ...body }: Static<typeof LabRequest>) {
  if ((rows === undefined) === (sample === undefined)) {
    const detail = 'Send rows, or sample with a number of rows.';
    throw new Refusal({ code: 'invalid_input', detail, attr: 'rows' });
  }
  if (sample !== undefined && !allows(callerOf(request).scopes, 'batch_export:read')) {
    throw permissionDenied('To sample rows the API key needs the scope batch_export:read.');
  }
  const rest = { dslQuery: null, config: {}, trace: true, limit: sample ?? 100 };
  return { teamId: teamOf(request), model: modelOf(body), given: rows ?? null, ...rest };
}
