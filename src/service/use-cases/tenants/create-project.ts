import { Refusal, refuseIfAny } from '../../../foundation/domain/problem.ts';
import type { Database } from '../../../state/store/database.ts';
import { findOrganization, insertProject, type Project } from '../../../state/store/tenants.ts';
import { checkName } from './issue-key.ts';

export async function createProject(
  db: Database,
  input: { readonly organizationId: string; readonly name: string },
): Promise<Project> {
  refuseIfAny(checkName(input.name));
  if (!(await findOrganization(db, input.organizationId))) {
    const detail = `There is no organization ${input.organizationId}.`;
    throw new Refusal({ code: 'does_not_exist', detail, attr: 'organization' });
  }
  return insertProject(db, input);
}
