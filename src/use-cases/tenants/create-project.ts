import type { Database } from '../../store/database.ts';
import { findOrganization, insertProject, type Project } from '../../store/tenants.ts';
import { done, type Outcome, refused } from '../outcome.ts';
import { checkName } from './issue-key.ts';

export async function createProject(
  db: Database,
  input: { readonly organizationId: string; readonly name: string },
): Promise<Outcome<Project>> {
  const problems = checkName(input.name);
  if (problems.length > 0) return { ok: false, problems };
  if (!(await findOrganization(db, input.organizationId))) {
    const detail = `There is no organization ${input.organizationId}.`;
    return refused({ code: 'does_not_exist', detail, attr: 'organization' });
  }
  return done(await insertProject(db, input));
}
