import { buildApi } from '../../src/service/api/build-api.ts';
import type { ApiOptions } from '../../src/service/api/options.ts';
import { type Database, openDatabase } from '../../src/state/store/database/database.ts';
import { type ApiClient, createApiClient } from './api-client.ts';
import { createTestDatabase } from './database.ts';
import { planShop, type Shop } from './stranger-shop.ts';
import { createTenant, type Tenant } from './tenants.ts';
import { testApiOptions } from './test-api-options.ts';

/** A service that can be called, and its database. */
export interface Service {
  readonly baseUrl: string;
  readonly databaseUrl: string;
  /** For what a test must find or put there. */
  readonly db: Database;
  /** The database of the models besides `events`. */
  readonly shop: Pick<Shop, 'url' | 'open'>;
}

/** A service, and a tenant to call it with. */
export interface ApiUnderTest extends Service {
  readonly tenant: Tenant;
  /** Calls with the tenant's key of all scopes. */
  readonly client: ApiClient;
  /** Path of the tenant's first project: `/api/projects/1`. */
  readonly project: string;
  stop(): Promise<void>;
}

/** Starts an API over a database of its own, listening in this process. */
export async function startApiUnderTest(
  changes: Partial<ApiOptions> = {},
  onOptions: (options: ApiOptions) => void = () => {},
): Promise<ApiUnderTest> {
  const database = await createTestDatabase();
  const db = openDatabase({
    connectionString: database.url,
    applicationName: 'test',
    maxConnections: 10,
    onError: () => {},
  });
  const shop = planShop();
  const options = testApiOptions(db, database.url, changes, shop.url);
  onOptions(options);
  const api = await buildApi(options);
  const baseUrl = await api.listen({ port: 0, host: '127.0.0.1' });
  return join({ baseUrl, databaseUrl: database.url, db, shop }, async () => {
    await api.close();
    await db.close();
    await database.drop();
    await shop.drop();
  });
}

/** A second API over the same database, with some of its options changed. */
export async function startApiBeside(
  { db, databaseUrl, shop, tenant }: ApiUnderTest,
  change: (options: ApiOptions) => Partial<ApiOptions>,
): Promise<{ readonly client: ApiClient; stop(): Promise<void> }> {
  const options = testApiOptions(db, databaseUrl, {}, shop.url);
  const api = await buildApi({ ...options, ...change(options) });
  const baseUrl = await api.listen({ port: 0, host: '127.0.0.1' });
  return { client: createApiClient(baseUrl, tenant.key), stop: () => api.close() };
}

async function join(service: Service, stop: () => Promise<void>): Promise<ApiUnderTest> {
  const tenant = await createTenant(service.db);
  const client = createApiClient(service.baseUrl, tenant.key);
  return { ...service, tenant, client, project: `/api/projects/${tenant.projectIds[0]}`, stop };
}
