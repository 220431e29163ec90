import { recordActivity } from '../../../state/store/activity.ts';
import type { Transactor } from '../../../state/store/database.ts';
import { type Project, setProjectFreshness } from '../../../state/store/tenants.ts';

/**
 * Sets after how many minutes without new data the exports of a project are late, if they have no objective of their own.
 *
 * @param minutes null: the objective of the installation
 * @param keyId the operator's key that asks; null: the command line
 */
export async function changeFreshness(
  db: Transactor,
  project: Pick<Project, 'id' | 'organizationId' | 'freshnessMinutes'>,
  minutes: number | null,
  keyId: string | null,
): Promise<void> {
  await db.transaction(async (tx) => {
    await setProjectFreshness(tx, project.id, minutes);
    await recordActivity(tx, {
      organizationId: project.organizationId,
      teamId: project.id,
      subjectType: 'project',
      subjectId: String(project.id),
      action: 'updated',
      keyId,
      changes: [{ field: 'freshness_minutes', before: project.freshnessMinutes, after: minutes }],
    });
  });
}
