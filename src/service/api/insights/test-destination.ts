import type { CheckStep } from '../../../rows/destinations/destination.ts';
import { describeError, toSluiceError } from '../../../foundation/domain/errors.ts';
import type { DestinationConfig } from '../../../foundation/domain/file-settings.ts';
import { findProject } from '../../../state/store/tenants/tenants.ts';
import type { Context } from '../../use-cases/context.ts';
import type { ApiOptions } from '../options.ts';

/** Time limit of a test, and of its requests: a request that is cut off is reported as what it is. */
const patienceMs = 30_000;
const requestsMs = 25_000;

export interface TestedDestination {
  readonly type: string;
  readonly teamId: number;
  /** The complete config with its secrets, in plain text. Throws SluiceError. */
  readonly openConfig: () => DestinationConfig;
}

/** Runs the checks of a destination. Never throws: every error becomes a failed step. */
export async function testDestination(
  { db }: Pick<Context, 'db'>,
  options: Pick<ApiOptions, 'destinations' | 'destinationContext'>,
  { type, teamId, openConfig }: TestedDestination,
): Promise<readonly CheckStep[]> {
  const definition = options.destinations.find((known) => known.type === type);
  const project = await findProject(db, teamId);
  if (!definition || !project) {
    return [failedStep('open', `This installation does not support the type ${type}.`)];
  }
  let timer: NodeJS.Timeout | undefined;
  try {
    const owner = { externalId: project.externalId };
    const destination = definition.open({ ...openConfig() }, options.destinationContext, owner);
    const tooLate = new Promise<readonly CheckStep[]>((resolve) => {
      const detail = `The destination did not answer within ${patienceMs / 1_000} seconds. Check its address and network.`;
      const step = failedStep('answer', detail);
      timer = setTimeout(resolve, patienceMs, [step]);
    });
    const checks = destination.test(AbortSignal.timeout(requestsMs));
    // A check that loses the race may still fail later.
    checks.catch(() => {});
    return await Promise.race([checks, tooLate]).finally(() => destination.close());
  } catch (error) {
    return [failedStep('open', describeError(toSluiceError(error)))];
  } finally {
    clearTimeout(timer);
  }
}

function failedStep(step: string, error: string): CheckStep {
  return { step, passed: false, error, warning: null };
}
