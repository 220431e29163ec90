import {
  endRemoval,
  findTeamsWithRemovals,
  type RemovalWork,
  takeRemoval,
} from '../../state/store/files/leftover-files.ts';
import { appendLogEntries, type LogLevel } from '../../state/store/exports/log-entries.ts';
import { findStoreTraits } from '../../state/store/files/store-traits.ts';
import { collectByTeam, type SweepOptions, teamPatienceMs } from './collect-uploads.ts';
import { removeFiles } from './remove-files.ts';

/** Removes files that the workers of their runs could not remove. */
export async function collectFiles(options: SweepOptions): Promise<void> {
  const { db } = options.context;
  await collectByTeam(
    options,
    (limit) => findTeamsWithRemovals(db, limit),
    async (teamId, signal) => {
      const work = await takeRemoval(db, teamId);
      if (!work) return false;
      const what = { kind: 'remove_files', id: work.exportId } as const;
      const end = await options.guard.do(what, teamPatienceMs, () => remove(options, work, signal));
      if (end === 'done') return true;
      // It was not tried.
      await endRemoval(db, work, true);
      return false;
    },
  );
}

async function remove(
  { connectors, context, onSweepError }: SweepOptions,
  work: RemovalWork,
  signal: AbortSignal,
): Promise<void> {
  const { db } = context;
  const { teamId, exportId, runId } = work;
  const traits = await findStoreTraits(db, work);
  const current = { ...work, table: connectors.tableOf(work) };
  const destination = connectors.openDestination(work, traits);
  try {
    const log = (level: LogLevel, message: string) =>
      appendLogEntries(db, [{ teamId, exportId, runId, level, message }]).catch(onSweepError);
    const end = await removeFiles(context, destination, current, log, signal);
    if (end !== 'failed') await endRemoval(db, work, end === 'some');
  } finally {
    await destination.close();
  }
}
