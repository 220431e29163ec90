import { refuseIfAny } from '../../domain/problem.ts';
import type { Database } from '../../store/database.ts';
import { insertOrganization, type Organization } from '../../store/tenants.ts';
import { checkName } from './issue-key.ts';

export async function createOrganization(db: Database, name: string): Promise<Organization> {
  refuseIfAny(checkName(name));
  return insertOrganization(db, name);
}
