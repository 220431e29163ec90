import { hashApiKey, mintApiKey } from '../../src/foundation/security/api-keys.ts';
import {
  type ApiKey,
  insertApiKey,
  type NewApiKey,
} from '../../src/state/store/tenants/api-keys.ts';
import type { Database } from '../../src/state/store/database/database.ts';
import { insertOrganization, insertProject } from '../../src/state/store/tenants/tenants.ts';

/** An organization with two projects, and a key of all scopes. */
export interface Tenant {
  readonly organizationId: string;
  readonly projectIds: readonly [number, number];
  readonly key: string;
  readonly keyId: string;
}

export async function createTenant(db: Database): Promise<Tenant> {
  const { id: organizationId } = await insertOrganization(db, 'Acme');
  const first = await insertProject(db, { organizationId, name: 'Website' });
  const second = await insertProject(db, { organizationId, name: 'App' });
  const { key, apiKey } = await createKey(db, { organizationId });
  return { organizationId, projectIds: [first.id, second.id], key, keyId: apiKey.id };
}

export async function createKey(
  db: Database,
  wanted: Partial<NewApiKey> & Pick<NewApiKey, 'organizationId'>,
): Promise<{ readonly key: string; readonly apiKey: ApiKey }> {
  const key = mintApiKey();
  const apiKey = await insertApiKey(db, {
    projectIds: null,
    name: 'test',
    scopes: ['*'],
    expiresAt: null,
    ...wanted,
    hash: hashApiKey(key),
  });
  return { key, apiKey };
}
