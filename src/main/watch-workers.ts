import type { NotificationSender } from '../foundation/domain/notification.ts';
import { checkDeadlines } from '../service/use-cases/deadlines/check-deadlines.ts';
import { checkLateness } from '../state/store/exports/export-states.ts';
import { countWaiting } from '../state/store/runs/outbox.ts';
import { endAlarm, raiseAlarm } from '../state/store/notifications/group-events.ts';
import { sumCapacity } from '../state/store/runs/workers.ts';
import type { Foundation } from './foundation.ts';
import { openCourier } from './notifications.ts';

interface Timing {
  readonly everyMs: number;
  /** Workers may start after the API. */
  readonly graceMs: number;
  readonly sayEveryMs: number;
}

const usualTiming: Timing = { everyMs: 15_000, graceMs: 60_000, sayEveryMs: 300_000 };

/** Dead workers can say nothing, so the API logs it, raises an alarm, finds what is late, and sends what waits. */
export function watchWorkers(
  { context, logger, metrics }: Pick<Foundation, 'context' | 'logger' | 'metrics'>,
  sender: NotificationSender,
  { everyMs, graceMs, sayEveryMs }: Timing = usualTiming,
): { close(): Promise<void> } {
  const courier = openCourier({ context, logger, metrics }, sender);
  const startedAt = performance.now();
  let saidAt: number | null = null;
  let looking = Promise.resolve();

  const look = async () => {
    if ((await sumCapacity(context.db)) > 0) {
      if (await endAlarm(context.db)) logger.info('workers are alive again');
      saidAt = null;
      return;
    }
    const now = performance.now();
    if (now - startedAt < graceMs) return;
    await raiseAlarm(context.db);
    if (saidAt === null || now - saidAt >= sayEveryMs) {
      const waiting = await countWaiting(context.db);
      logger.error(
        { waiting },
        `No worker has reported for 30 s, so no run is executed. Runs that wait: ${waiting}. Start a worker.`,
      );
      saidAt = now;
    }
    await checkLateness(context.db);
    await checkDeadlines(context);
    await courier.collect();
  };
  const timer = setInterval(() => {
    // Without PostgreSQL nothing is known of the workers; the log says that it is unreachable.
    looking = look().catch((error: unknown) => logger.warn({ err: error }, 'workers are unknown'));
  }, everyMs);
  timer.unref();
  return {
    async close() {
      clearInterval(timer);
      await looking;
      await courier.close();
    },
  };
}
