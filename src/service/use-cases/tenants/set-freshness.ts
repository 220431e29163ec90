import { recordActivity } from '../../../state/store/exports/activity.ts';
import type { Transactor } from '../../../state/store/database/database.ts';
import { type Project, setProjectFreshness } from '../../../state/store/tenants/tenants.ts';

/**
 * Sets the objective of a project's exports that have none of their own.
 *
 * @param minutes null: that of the installation
 * @param keyId the operator's key that asks
 */
export async function setFreshness(
  db: Transactor,
  { organizationId, id, freshnessMinutes }: Project,
  minutes: number | null,
  keyId: string,
): Promise<void> {
  await db.transaction(async (tx) => {
    await setProjectFreshness(tx, id, minutes);
    await recordActivity(tx, {
      ...{ organizationId, teamId: id, subjectType: 'project', subjectId: String(id), keyId },
      action: 'updated',
      changes: [{ field: 'freshness_minutes', before: freshnessMinutes, after: minutes }],
    });
  });
}
