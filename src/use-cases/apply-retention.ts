import {
  deleteOldLogEntries,
  deleteOldRuns,
  deleteOldTicks,
  retentionBatch,
} from '../store/retention.ts';
import type { Context } from './context.ts';

/** Deletes what is older than its retention, in short statements. */
export async function applyRetention(context: Context): Promise<void> {
  const { logRetentionDays, retentionDays } = context.policy;
  const duties = [
    () => deleteOldLogEntries(context.db, logRetentionDays),
    () => deleteOldTicks(context.db, retentionDays),
    () => deleteOldRuns(context.db, retentionDays),
  ];
  for (const duty of duties) {
    while ((await duty()) === retentionBatch);
  }
}
