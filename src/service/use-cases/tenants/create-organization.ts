import { refuseIfAny } from '../../../foundation/domain/problem.ts';
import type { Database } from '../../../state/store/database.ts';
import { insertOrganization, type Organization } from '../../../state/store/tenants.ts';
import { checkName } from './issue-key.ts';

export async function createOrganization(db: Database, name: string): Promise<Organization> {
  refuseIfAny(checkName(name));
  return insertOrganization(db, name);
}
