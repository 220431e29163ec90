import { takeRemovals } from '../store/leftover-files.ts';
import { appendLogEntries, type LogLevel } from '../store/log-entries.ts';
import { findStoreTraits } from '../store/store-traits.ts';
import type { ExecutorOptions } from './execute-run.ts';
import { removeFiles } from './remove-files.ts';

/** Intervals whose files one sweep removes. */
const perSweep = 20;

/** Removes files that the workers of their runs could not remove. */
export async function collectFiles(options: ExecutorOptions): Promise<void> {
  const { db } = options.context;
  for (const work of await takeRemovals(db, perSweep)) {
    const { teamId, exportId, runId } = work;
    try {
      const traits = await findStoreTraits(db, work);
      const destination = options.connectors.openDestination(work, traits);
      try {
        const log = (level: LogLevel, message: string) =>
          appendLogEntries(db, [{ teamId, exportId, runId, level, message }]).catch(
            options.onSweepError,
          );
        await removeFiles(options.context, destination, work, log);
      } finally {
        await destination.close();
      }
    } catch (error) {
      options.onSweepError(error);
    }
  }
}
