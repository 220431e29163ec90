import type { CheckStep } from '../../destinations/destination.ts';
import type { BatchExport } from '../../domain/batch-export.ts';
import { describeError, toSluiceError } from '../../domain/errors.ts';
import { findProject } from '../../store/tenants.ts';
import type { Context } from '../../use-cases/context.ts';
import { openDestinationConfig } from '../../use-cases/exports/destination.ts';
import type { ApiOptions } from '../options.ts';

/** Time limit of a test, and of its requests: a request that is cut off is reported as what it is. */
const patienceMs = 30_000;
const requestsMs = 25_000;

/** Runs the checks of an export's destination. Never throws: every error becomes a failed step. */
export async function testDestination(
  { db, secrets }: Context,
  options: Pick<ApiOptions, 'destinations' | 'destinationContext'>,
  batchExport: BatchExport,
): Promise<readonly CheckStep[]> {
  const { id, teamId, destination: stored } = batchExport;
  const definition = options.destinations.find(({ type }) => type === stored.type);
  const project = await findProject(db, teamId);
  if (!definition || !project) {
    return [failedStep('open', `This installation does not support the type ${stored.type}.`)];
  }
  let timer: NodeJS.Timeout | undefined;
  try {
    const config = openDestinationConfig(secrets, id, stored);
    const owner = { externalId: project.externalId };
    const destination = definition.open({ ...config }, options.destinationContext, owner);
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
