import { Refusal, refuseIfAny } from '../../domain/problem.ts';
import type { Database } from '../../store/database.ts';
import { checkTenantKey } from '../../domain/tenant-key.ts';
import { findOrganization, insertProject, type NewProject, type Project } from '../../store/tenants.ts';
import { checkName } from './issue-key.ts';

export async function createProject(
  db: Database,
  input: NewProject,
): Promise<Project> {
  const { tenantKey = null } = input;
  refuseIfAny([
    ...checkName(input.name),
    ...(tenantKey === null ? [] : checkTenantKey(tenantKey)),
  ]);
  if (!(await findOrganization(db, input.organizationId))) {
    const detail = `There is no organization ${input.organizationId}.`;
    throw new Refusal({ code: 'does_not_exist', detail, attr: 'organization' });
  }
  return insertProject(db, input);
}
