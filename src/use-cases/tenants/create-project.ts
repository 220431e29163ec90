import { Refusal, refuseIfAny } from '../../domain/problem.ts';
import { recordActivity } from '../../store/activity.ts';
import type { Transactor } from '../../store/database.ts';
import { checkTenantKey } from '../../domain/tenant-key.ts';
import {
  findOrganization,
  insertProject,
  type NewProject,
  type Project,
} from '../../store/tenants.ts';
import { checkName } from './issue-key.ts';

export async function createProject(
  db: Transactor,
  input: NewProject,
  keyId: string | null = null,
): Promise<Project> {
  const { tenantKey = null } = input;
  refuseIfAny([...checkName(input.name), ...(tenantKey === null ? [] : checkTenantKey(tenantKey))]);
  if (!(await findOrganization(db, input.organizationId))) {
    const detail = `There is no organization ${input.organizationId}.`;
    throw new Refusal({ code: 'does_not_exist', detail, attr: 'organization' });
  }
  return db.transaction(async (tx) => {
    const created = await insertProject(tx, input);
    await recordActivity(tx, {
      organizationId: created.organizationId,
      teamId: created.id,
      subjectType: 'project',
      subjectId: String(created.id),
      action: 'created',
      keyId,
      changes: [],
    });
    return created;
  });
}
