import { expect } from 'vitest';
import { buildApi } from '../../src/service/api/build-api.ts';
import type { ApiOptions } from '../../src/service/api/options.ts';
import { type Database, openDatabase } from '../../src/state/store/database/database.ts';
import { type ApiClient, createApiClient, type WireBody } from './api-client.ts';
import { exportBody } from './batch-export-bodies.ts';
import type { NewApiKey } from '../../src/state/store/tenants/api-keys.ts';
import { createTestDatabase } from './database.ts';
import { type SqlTag, sqlOf } from './sql.ts';
import { planShop, type Shop } from './stranger-shop.ts';
import { createKey, createTenant, type Tenant } from './tenants.ts';
import { testApiOptions } from './test-api-options.ts';
import { useStage } from './use-stage.ts';

/** A service that can be called, and its database. */
export interface Service {
  readonly baseUrl: string;
  readonly databaseUrl: string;
  /** For what a test must find or put there. */
  readonly db: Database;
  readonly sql: SqlTag;
  /** The database of the models besides `events`. */
  readonly shop: Pick<Shop, 'url' | 'open'>;
}

/** A service, and a tenant to call it with. Its own verbs are those of `client`. */
export interface ApiUnderTest extends Service, ApiClient {
  readonly tenant: Tenant;
  /** The tenant's first project. */
  readonly teamId: number;
  /** Calls with the tenant's key of all scopes. */
  readonly client: ApiClient;
  /** Path of the tenant's first project: `/api/projects/1`. */
  readonly project: string;
  /** Path of the exports of that project. */
  readonly exports: string;
  /** Posts what must be created. @returns the answer's body */
  make(path: string, body: object): Promise<WireBody>;
  /** Creates an export of the first project. @returns the answer's body */
  create(changes?: Parameters<typeof exportBody>[0]): Promise<WireBody>;
  /** The path of a new export. */
  createPath(changes?: Parameters<typeof exportBody>[0]): Promise<string>;
  /** Calls with a new key; by default of the tenant, with all scopes. */
  withNewKey(wanted: Partial<NewApiKey>): Promise<ApiClient>;
  /** Calls with a new key of an operator. */
  asOperator(scopes?: readonly string[]): Promise<ApiClient>;
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
  return join({ baseUrl, databaseUrl: database.url, db, sql: sqlOf(db), shop }, async () => {
    await api.close();
    await db.close();
    await database.drop();
    await shop.drop();
  });
}

/** An API that all tests of a file, or of a group, share. */
export const useApi = (...given: Parameters<typeof startApiUnderTest>): ApiUnderTest =>
  useStage(() => startApiUnderTest(...given));

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
  const [teamId] = tenant.projectIds;
  const project = `/api/projects/${teamId}`;
  const exports = `${project}/batch_exports`;
  const make = async (path: string, made: object) => {
    const { status, text, body } = await client.post(path, made);
    expect(status, text).toBe(201);
    return body;
  };
  const withNewKey = async (wanted: Partial<NewApiKey>) => {
    const { organizationId } = tenant;
    return client.withKey((await createKey(service.db, { organizationId, ...wanted })).key);
  };
  return {
    ...{ ...client, ...service, tenant, teamId, client, project, exports, withNewKey, stop },
    asOperator: (scopes = ['*']) => withNewKey({ organizationId: null, scopes }),
    make,
    create: (changes) => make(exports, exportBody(changes)),
    createPath: async (changes) => `${exports}/${(await make(exports, exportBody(changes))).id}`,
  };
}
