import {
  type DeleteOld,
  deleteForgottenExports,
  deleteOldActivity,
  deleteOldGuardedWork,
  deleteOldLogEntries,
  deleteOldNotifications,
  deleteOldPluginSources,
  deleteOldRuns,
  deleteOldStepVersions,
  deleteOldTicks,
} from '../../../state/store/database/retention.ts';
import { deleteSpentDestinations } from '../../../state/store/files/former-destinations.ts';
import { deleteSpentIdempotencyKeys } from '../../../state/store/tenants/idempotency.ts';
import type { Context } from '../context.ts';

export async function applyRetention({ db, policy }: Context): Promise<void> {
  const { logRetentionDays, retentionDays } = policy;
  const duties: readonly (readonly [DeleteOld, number])[] = [
    [deleteOldLogEntries, logRetentionDays],
    [deleteOldNotifications, logRetentionDays],
    [deleteOldGuardedWork, logRetentionDays],
    [deleteOldActivity, retentionDays],
    [deleteOldTicks, retentionDays],
    [deleteOldRuns, retentionDays],
    [deleteForgottenExports, retentionDays],
    [deleteOldStepVersions, retentionDays],
    [deleteOldPluginSources, retentionDays],
  ];
  for (const [deleteSome, days] of duties) {
    while ((await deleteSome(db, days)) > 0);
  }
  await deleteSpentIdempotencyKeys(db);
  await deleteSpentDestinations(db);
}
