import { describeError } from '../../../foundation/domain/describe-error.ts';
import { toSluiceError } from '../../../foundation/domain/errors.ts';
import {
  type DestinationConfig,
  readFileSettings,
} from '../../../foundation/domain/file-settings.ts';
import { describeForeignForms } from '../../../foundation/domain/key-template.ts';
import { within } from '../../../foundation/domain/patience.ts';
import type { CheckStep } from '../../../rows/destinations/destination.ts';
import { findProject } from '../../../state/store/tenants/tenants.ts';
import type { Context } from '../../use-cases/context.ts';
import { actorOf, type Reply, type Request } from '../api.ts';
import type { ApiOptions, CompareRows, Deps, ExportedRows } from '../options.ts';
import { untilClosed } from '../replies.ts';

/** Reads that people make before they save or run an export. All of them wait for a slot of the organization. */

export async function lookAtDestination(
  deps: Deps,
  request: Request,
  reply: Reply,
  destination: TestedDestination,
) {
  const { organizationId } = actorOf(request);
  const steps = await deps.tests.use(organizationId, untilClosed(reply), () =>
    testDestination(request.context, deps, destination),
  );
  return { passed: steps.every(({ passed }) => passed), steps: [...steps] };
}

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
    const config = { ...openConfig() };
    const destination = definition.open(config, options.destinationContext, owner);
    const detail = `The destination did not answer within ${patienceMs / 1_000} seconds. Check its address and network.`;
    const tooLate = [failedStep('answer', detail)];
    const checks = destination.test(AbortSignal.timeout(requestsMs));
    const steps = await within(patienceMs, checks, tooLate).finally(() => destination.close());
    const ofPrefix = describeForeignForms(readFileSettings(config).prefix).map((warning) => {
      return { step: 'prefix', passed: true, error: null, warning };
    });
    return [...steps, ...ofPrefix];
  } catch (error) {
    return [failedStep('open', describeError(toSluiceError(error)))];
  }
}

function failedStep(step: string, error: string): CheckStep {
  return { step, passed: false, error, warning: null };
}
