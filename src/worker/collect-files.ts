import { endRemoval, findTeamsWithRemovals, takeRemoval } from '../store/leftover-files.ts';
import { appendLogEntries, type LogLevel } from '../store/log-entries.ts';
import { findStoreTraits } from '../store/store-traits.ts';
import { collectByTeam, type SweepOptions } from './collect-by-team.ts';
import { removeFiles } from './remove-files.ts';
import { tableOf } from './table-of.ts';

/** Removes files that the workers of their runs could not remove. */
export async function collectFiles(options: SweepOptions): Promise<void> {
  const { db } = options.context;
  await collectByTeam(
    options,
    (limit) => findTeamsWithRemovals(db, limit),
    async (teamId, signal) => {
      const work = await takeRemoval(db, teamId);
      if (!work) return false;
      const { exportId, runId } = work;
      const traits = await findStoreTraits(db, work);
      const current = { ...work, table: tableOf(options.connectors, work) };
      const destination = options.connectors.openDestination(work, traits);
      try {
        const log = (level: LogLevel, message: string) =>
          appendLogEntries(db, [{ teamId, exportId, runId, level, message }]).catch(
            options.onSweepError,
          );
        const result = await removeFiles(options.context, destination, current, log, signal);
        if (result !== 'failed') await endRemoval(db, work, result === 'some');
      } finally {
        await destination.close();
      }
      return true;
    },
  );
}
