import { notFound } from '../../domain/problem.ts';
import type { DataInterval } from '../../domain/time.ts';
import type { Transactor } from '../../store/database.ts';
import { lockExport } from '../../store/exports.ts';
import { appendLogEntries } from '../../store/log-entries.ts';
import { insertRuns } from '../../store/runs.ts';

/**
 * Runs intervals of an export again, so that their files are made anew from the source. An interval with a live run gets
 * no other one.
 *
 * @returns the ids of the new runs
 */
export async function rewriteIntervals(
  db: Transactor,
  exportId: string,
  intervals: readonly DataInterval[],
  reason: string,
): Promise<readonly string[]> {
  return db.transaction(async (tx) => {
    const batchExport = await lockExport(tx, exportId);
    if (!batchExport) throw notFound();
    const { teamId } = batchExport;
    const made = await insertRuns(
      tx,
      intervals.map((interval) => ({ exportId, teamId, interval, backfillId: null })),
    );
    await appendLogEntries(tx, [
      {
        teamId,
        exportId,
        runId: null,
        level: 'INFO',
        message: `${made.length} intervals run again: ${reason}.`,
      },
    ]);
    return made;
  });
}
