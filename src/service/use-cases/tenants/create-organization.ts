import { refuseIfAny } from '../../../foundation/domain/problem.ts';
import { recordActivity } from '../../../state/store/exports/activity.ts';
import type { Transactor } from '../../../state/store/database/database.ts';
import { insertOrganization, type Organization } from '../../../state/store/tenants/tenants.ts';
import { checkName } from './issue-key.ts';

/** @param keyId the operator's key that asks; null: the command line */
export async function createOrganization(
  db: Transactor,
  name: string,
  keyId: string | null = null,
): Promise<Organization> {
  refuseIfAny(checkName(name));
  return db.transaction(async (tx) => {
    const created = await insertOrganization(tx, name);
    await recordActivity(tx, {
      organizationId: created.id,
      teamId: null,
      subjectType: 'organization',
      subjectId: created.id,
      action: 'created',
      keyId,
      changes: [],
    });
    return created;
  });
}
