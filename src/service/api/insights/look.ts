import { toSluiceError } from '../../../foundation/domain/errors.ts';
import { describeError } from '../../../foundation/domain/describe-error.ts';
import type { DestinationConfig } from '../../../foundation/domain/file-settings.ts';
import { within } from '../../../foundation/domain/patience.ts';
import type { DataInterval } from '../../../foundation/domain/time.ts';
import type { CheckStep } from '../../../rows/destinations/destination.ts';
import { findProject } from '../../../state/store/tenants/tenants.ts';
import type { Context } from '../../use-cases/context.ts';
import {
  type PreviewedRows,
  previewPatiently,
  refuseManySandboxes,
  storedSteps,
} from '../../use-cases/transformations/preview-rows.ts';
import { actorOf, type Reply, type Request } from '../api.ts';
import type { ApiOptions, CompareRows, Deps, ExportedRows } from '../options.ts';
import { untilClosed } from '../until-closed.ts';

/** What people look at before they save or run an export. All of it waits for a slot of the organization. */

const previewedRows = 100;

/**
 * Runs the checks of a destination, then that of the source.
 *
 * @param read an interval as the export has them
 */
export async function lookAtDestination(
  deps: Deps,
  request: Request,
  reply: Reply,
  read: { readonly model: string; readonly interval: DataInterval },
  destination: TestedDestination,
) {
  const { organizationId } = actorOf(request);
  const steps = await deps.tests.use(organizationId, untilClosed(reply), async () => {
    const source = await deps.checkSource?.(read.model, destination.teamId, read.interval);
    const checks = await testDestination(request.context, deps, destination);
    return source ? [...checks, source] : checks;
  });
  return { passed: steps.every(({ passed }) => passed), steps: [...steps] };
}

/** Reads the newest rows as they would be exported. @throws SluiceError, Throttled */
export async function lookAtRows(
  deps: Deps,
  request: Request,
  reply: Reply,
  { teamId, model, dslQuery, transformations, destination: { config } }: ExportedRows,
) {
  const signal = untilClosed(reply);
  const rows = { teamId, model, dslQuery, config, given: null, limit: previewedRows, trace: false };
  const stepsOf = async () => (transformations ? storedSteps(request.context, teamId) : []);
  const work = async () =>
    showRows(deps, request, { ...rows, steps: await stepsOf() }, null, signal);
  // Computing takes the time of this process from all.
  const { organizationId } = actorOf(request);
  const shown = await (transformations ? deps.trials.use(organizationId, signal, work) : work());
  const { columns, rows: values, leftOut } = shown;
  const head = `{"columns":${JSON.stringify(columns)},"left_out":${JSON.stringify(leftOut)}`;
  return sendJson(reply, `${head},"rows":[${values.join()}]}`);
}

/** Shows rows in the slots that they need. @param attr what a refusal of the steps names */
export async function showRows(
  { previewRows, previews, sandboxes }: Deps,
  request: Request,
  asked: PreviewedRows,
  attr: string | null,
  signal: AbortSignal,
) {
  const { organizationId } = actorOf(request);
  const hasSandbox = refuseManySandboxes(asked.steps, attr);
  const inSlot = <T>(work: () => Promise<T>) => previews.use(organizationId, signal, work);
  const show = () => previewPatiently(previewRows, asked, attr, inSlot, signal);
  return hasSandbox ? sandboxes.use(organizationId, signal, show) : show();
}

/** JSON that is ready: as objects, large values would take many times the memory. */
export function sendJson(reply: Reply, json: string) {
  return reply
    .type('application/json; charset=utf-8')
    .serializer((text) => String(text))
    .send(json as never);
}

/** Compares intervals of a backfill with the source. @throws Throttled */
export async function lookAtIntervals(
  { compareRows, previews }: Deps,
  request: Request,
  reply: Reply,
  asked: ExportedRows,
  intervals: Parameters<CompareRows>[1],
) {
  if (intervals.length === 0) return { intervals: [], leftOut: null };
  const { organizationId } = actorOf(request);
  const signal = untilClosed(reply);
  return previews.use(organizationId, signal, () => compareRows(asked, intervals, signal));
}

/** Time limit of a test, and of its requests: a request that is cut off is reported as what it is. */
const patienceMs = 30_000;
const requestsMs = 25_000;

interface TestedDestination {
  readonly type: string;
  readonly teamId: number;
  /** The complete config with its secrets, in plain text. Throws SluiceError. */
  readonly openConfig: () => DestinationConfig;
}

/** Runs the checks of a destination. Never throws: every error becomes a failed step. */
async function testDestination(
  { db }: Pick<Context, 'db'>,
  options: Pick<ApiOptions, 'destinations' | 'destinationContext'>,
  { type, teamId, openConfig }: TestedDestination,
): Promise<readonly CheckStep[]> {
  const definition = options.destinations.find((known) => known.type === type);
  const project = await findProject(db, teamId);
  if (!definition || !project) {
    return [failedStep('open', `This installation does not support the type ${type}.`)];
  }
  try {
    const owner = { externalId: project.externalId };
    const destination = definition.open({ ...openConfig() }, options.destinationContext, owner);
    const detail = `The destination did not answer within ${patienceMs / 1_000} seconds. Check its address and network.`;
    const tooLate = [failedStep('answer', detail)];
    const checks = destination.test(AbortSignal.timeout(requestsMs));
    return await within(patienceMs, checks, tooLate).finally(() => destination.close());
  } catch (error) {
    return [failedStep('open', describeError(toSluiceError(error)))];
  }
}

function failedStep(step: string, error: string): CheckStep {
  return { step, passed: false, error, warning: null };
}
