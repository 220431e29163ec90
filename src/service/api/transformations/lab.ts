import { type Static, Type } from 'typebox';
import { StepFault } from '../../../foundation/domain/errors.ts';
import { parseExact } from '../../../foundation/domain/exact-json.ts';
import { Refusal } from '../../../foundation/domain/problem.ts';
import { allows } from '../../../foundation/security/scopes.ts';
import type { StepDefinition } from '../../../rows/transforms/step.ts';
import { maxSteps } from '../../use-cases/transformations/chain-size.ts';
import { checkTrialWork } from '../../use-cases/transformations/trial-bounds.ts';
import {
  givenRows,
  refuseManySandboxes,
  storedSteps,
  type Trial,
  type TrialRows,
  trialSteps,
  tryChain,
} from '../../use-cases/transformations/try-chain.ts';
import { modelOf } from '../batch-exports/input.ts';
import { type Api, actorOf, callerOf, type Request } from '../api.ts';
import { permissionDenied } from '../api-error.ts';
import { costOfTrial, projectFamily, transformationOperations } from '../operations.ts';
import type { Deps } from '../options.ts';
import { postErrors } from '../schemas/error.ts';
import { Nullable, named, Ref } from '../schemas/shapes.ts';
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
        const own = steps.filter(({ kind }) => kind === 'own').length;
        const attr = body.stored ? 'stored' : 'configs';
        const hasSandbox = refuseManySandboxes(own, attr);
        const rows = await rowsOf(request, deps, body, signal);
        checkTrialWork(rows.lines, steps.length, body.rows === undefined ? 'sample' : 'rows');
        const work = () => tryChain(steps, rows, attr, signal);
        const trials = hasSandbox
          ? await deps.sandboxes.use(organizationId, signal, work)
          : await work();
        return { rows: trials.map(trialView) };
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

async function rowsOf(
  request: Request,
  { models, previews, sampleRows }: Deps,
  { rows, sample, ...body }: Static<typeof LabRequest>,
  signal: AbortSignal,
): Promise<TrialRows> {
  if ((rows === undefined) === (sample === undefined)) {
    const detail = 'Send rows, or sample with a number of rows.';
    throw new Refusal({ code: 'invalid_input', detail, attr: 'rows' });
  }
  const name = modelOf(body);
  const model = models.find((candidate) => candidate.name === name);
  if (!model) throw new Error(`the validation accepted ${name} as a model`);
  if (rows !== undefined) return givenRows(rows, model);
  if (!allows(callerOf(request).scopes, 'batch_export:read')) {
    throw permissionDenied('To sample rows the API key needs the scope batch_export:read.');
  }
  const teamId = teamOf(request);
  const { organizationId } = actorOf(request);
  return previews.use(organizationId, signal, () => sampleRows(name, teamId, sample ?? 1, signal));
}

function trialView({ row, traced }: Trial) {
  return {
    row: objectIn(row),
    result: traced.result === null ? null : objectIn(traced.result),
    steps: traced.steps.map(({ changes, ...step }) => ({
      ...step,
      changes: changes.map(({ path, before, after }) => ({
        path,
        kind: kindOf(before, after),
        before: before === null ? null : parseExact(before),
        after: after === null ? null : parseExact(after),
      })),
    })),
  };
}

function kindOf(before: string | null, after: string | null) {
  if (before === null) return 'added' as const;
  return after === null ? ('removed' as const) : ('changed' as const);
}

const objectIn = (json: string) => parseExact(json) as Record<string, unknown>;
