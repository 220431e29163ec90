import type { QueueConnection } from '../state/queue/connection.ts';
import type { Producer } from '../state/queue/producer.ts';
import type { Sql } from '../state/store/database/database.ts';
import { findHold } from '../state/store/database/eras.ts';
import { findStalledDispatch } from '../state/store/runs/outbox.ts';
import { findSilence, sumCapacity } from '../state/store/runs/workers.ts';
import {
  checkReadiness,
  type Readiness,
} from '../service/use-cases/installation/check-readiness.ts';
import { findTemporaryFault } from './check-folders.ts';
import type { Foundation } from './foundation.ts';

/** @param needsWorkers whether it is degraded without a worker; a worker does not ask for others */
export function readinessOf(
  { context: { db }, queues, producer }: Pick<Foundation, 'context' | 'queues' | 'producer'>,
  sourceFault: () => string | null,
  needsWorkers = false,
): () => Promise<Readiness> {
  return () =>
    checkReadiness({
      databaseFault: async () => {
        await db.query('select 1');
        return null;
      },
      queueFault: () =>
        inspectQueue(queues, producer).catch(
          () => 'the queue is unreachable; work is recorded and starts later',
        ),
      queueRefusal: () => queues.findRefusal(),
      holdReason: () => findHold(db),
      sourceFault,
      temporaryFault: async () => (await findTemporaryFault())?.shown ?? null,
      ...(needsWorkers ? { workerFault: () => findWorkerFault(db) } : {}),
    });
}

/** A worker decides schedules and dispatches runs every second. */
const silentAfterSeconds = 60;
const stalledAfterSeconds = 300;

async function findWorkerFault(db: Sql): Promise<string | null> {
  if ((await sumCapacity(db)) === 0) {
    return 'no worker has reported for 30 s; runs are recorded and start when a worker does';
  }
  const silent = (await findSilence(db)) ?? 0;
  if (silent >= silentAfterSeconds) {
    return `workers report, but none has decided schedules or dispatched runs for ${silent} s; check the logs of the workers and the queue, then restart the workers`;
  }
  const stalled = await findStalledDispatch(db, stalledAfterSeconds);
  return stalled === null
    ? null
    : `runs wait, no run is executed, and none was enqueued for ${stalled} s; check the logs of the workers and the queue, then restart the workers`;
}

/** Why no job passes through the queue now; null if jobs do. Throws if the queue is unreachable. */
export async function inspectQueue(
  queues: QueueConnection,
  producer: Pick<Producer, 'listPaused'>,
): Promise<string | null> {
  const [fault] = await queues.inspect();
  if (fault !== undefined) return fault;
  const paused = await producer.listPaused();
  return paused.length === 0
    ? null
    : `paused: ${paused.join(', ')}; resume at /admin/queues, until then no run starts`;
}
