import type { Producer } from '../../state/queue/producer.ts';
import { findGoneWork } from '../../state/store/tenants/tenant-rows.ts';
import type { Context } from '../use-cases/context.ts';
import { advanceOffboardings } from '../use-cases/tenants/advance-offboarding.ts';
import type { ExecutorOptions } from './execute-run.ts';

export interface OffboardOptions {
  readonly context: Context;
  readonly executor: Pick<ExecutorOptions, 'connectors' | 'stopping'>;
  readonly producer: Pick<Producer, 'removeGone'>;
  /** Called once for each that is completed. */
  readonly onOffboarded: (offboardingId: string) => void;
  readonly onOffboardingError: (error: unknown) => void;
}

/** How long one sweep goes on with it. The next sweep continues. */
const sliceMs = 20_000;

/** Goes on with the deletion of organizations and projects. */
export async function offboardTenants({
  context: { db },
  executor: { connectors, stopping },
  producer,
  onOffboarded,
  onOffboardingError,
}: OffboardOptions): Promise<void> {
  const endsAt = performance.now() + sliceMs;
  await advanceOffboardings(db, {
    describePlace: (type, config) => connectors.placeOf(type, config),
    // They hold ids only and are gone in a day anyway: an unreachable queue must not hold up the deletion.
    removeGoneJobs: () =>
      producer.removeGone((ids) => findGoneWork(db, ids)).catch(onOffboardingError),
    onCompleted: onOffboarded,
    onError: onOffboardingError,
    isOver: () => stopping.aborted || performance.now() > endsAt,
  }).catch(onOffboardingError);
}
