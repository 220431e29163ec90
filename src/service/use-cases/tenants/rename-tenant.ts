import { notFound, refuseIfAny } from '../../../foundation/domain/problem.ts';
import { recordActivity } from '../../../state/store/exports/activity.ts';
import type { Transactor } from '../../../state/store/database/database.ts';
import { setName, type TenantId } from '../../../state/store/tenants/tenants.ts';
import { checkName } from './issue-key.ts';

/**
 * Gives an organization or a project another name.
 *
 * @throws Refusal if the name is not one, or if there is no such tenant
 */
export async function renameTenant(
  db: Transactor,
  tenant: TenantId,
  name: string,
  keyId: string | null,
): Promise<void> {
  refuseIfAny(checkName(name));
  const { organizationId, teamId } = tenant;
  await db.transaction(async (tx) => {
    const before = await setName(tx, tenant, name);
    if (before === null) throw notFound();
    if (before === name) return;
    await recordActivity(tx, {
      organizationId,
      teamId,
      subjectType: teamId === null ? 'organization' : 'project',
      subjectId: String(teamId ?? organizationId),
      action: 'renamed',
      keyId,
      changes: [{ field: 'name', before, after: name }],
    });
  });
}
