import type { Database } from '../../store/database.ts';
import { insertOrganization, type Organization } from '../../store/tenants.ts';
import { done, type Outcome } from '../outcome.ts';
import { checkName } from './issue-key.ts';

export async function createOrganization(
  db: Database,
  name: string,
): Promise<Outcome<Organization>> {
  const problems = checkName(name);
  if (problems.length > 0) return { ok: false, problems };
  return done(await insertOrganization(db, name));
}
