import { findHold } from '../store/eras.ts';
import { checkReadiness, type Readiness } from '../use-cases/installation/check-readiness.ts';
import type { Foundation } from './foundation.ts';
import { findQueueFault } from './queue-fault.ts';

/** The readiness of a started process; the same for the API and the worker. */
export function readinessOf(
  { context: { db }, queues }: Pick<Foundation, 'context' | 'queues'>,
  sourceFault: () => string | null,
): () => Promise<Readiness> {
  return () =>
    checkReadiness({
      databaseFault: async () => {
        await db.query('select 1');
        return null;
      },
      queueFault: () => findQueueFault(queues),
      holdReason: () => findHold(db),
      sourceFault,
    });
}
