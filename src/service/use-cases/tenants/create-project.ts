import { type Problem, Refusal, refuseIfAny } from '../../../foundation/domain/problem.ts';
import { recordActivity } from '../../../state/store/exports/activity.ts';
import type { Transactor } from '../../../state/store/database/database.ts';
import { checkTenantKey } from '../../../foundation/domain/tenant-key.ts';
import {
  findOrganization,
  insertProject,
  type NewProject,
  type Project,
} from '../../../state/store/tenants/tenants.ts';
import { checkName } from './issue-key.ts';

export async function createProject(
  db: Transactor,
  input: NewProject,
  keyId: string | null = null,
): Promise<Project> {
  refuseIfAny(checkProject(input));
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

/** Everything that is wrong with a new project. */
export function checkProject({ name, tenantKey = null }: NewProject): Problem[] {
  return [...checkName(name), ...(tenantKey === null ? [] : checkTenantKey(tenantKey))];
}
