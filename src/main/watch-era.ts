import type { Database } from '../state/store/database/database.ts';
import { currentEra, findHold, listEras } from '../state/store/database/eras.ts';
import type { Logger } from '../foundation/telemetry/logger.ts';

const everyMs = 60_000;

/**
 * Compares the database with its newest era now and every minute. Reports a new era once, and a held one
 * every minute.
 */
export async function watchEra(db: Database, logger: Logger): Promise<{ close(): void }> {
  let known = (await listEras(db)).at(-1)?.number ?? null;
  const look = async () => {
    const { number } = await currentEra(db);
    if (known !== null && number !== known) {
      const begun = (await listEras(db)).filter((era) => era.number > (known ?? 0));
      for (const { number: era, reason } of begun)
        logger.warn({ era }, `A new era began. ${reason}`);
    }
    known = number;
    const hold = await findHold(db);
    if (hold !== null) logger.warn({ era: number }, `The service is held. ${hold}`);
  };
  await look();
  const timer = setInterval(
    () => void look().catch((error) => logger.debug({ err: error }, 'the era could not be read')),
    everyMs,
  );
  timer.unref();
  return { close: () => clearInterval(timer) };
}
