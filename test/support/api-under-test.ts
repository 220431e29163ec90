import { buildApi } from '../../src/api/build-api.ts';
import type { ApiOptions } from '../../src/api/options.ts';
import { type Database, openDatabase } from '../../src/store/database.ts';
import { type ApiClient, createApiClient } from './api-client.ts';
import { createTestDatabase } from './database.ts';
import { startSluice } from './processes.ts';
import { createTenant, type Tenant } from './tenants.ts';
import { plenty, testApiOptions } from './test-api-options.ts';

/** An API over a database of its own, and a tenant to call it with. */
export interface ApiUnderTest {
  readonly baseUrl: string;
  readonly databaseUrl: string;
  /** For what a test must find or put there. */
  readonly db: Database;
  readonly tenant: Tenant;
  /** Calls with the tenant's key of all scopes. */
  readonly client: ApiClient;
  /** Path of the tenant's first project: `/api/projects/1`. */
  readonly project: string;
  stop(): Promise<void>;
}

/**
 * Starts an API: listening in this process, or, with `API_UNDER_TEST=process`, as the real process
 * that operators run. `changes` need the former.
 */
export async function startApiUnderTest(changes: Partial<ApiOptions> = {}): Promise<ApiUnderTest> {
  const database = await createTestDatabase();
  const db = openDatabase({
    connectionString: database.url,
    applicationName: 'test',
    maxConnections: 10,
    onError: () => {},
  });
  const asProcess = process.env.API_UNDER_TEST === 'process' && Object.keys(changes).length === 0;
  const server = asProcess
    ? await startProcess(database.url)
    : await listen(db, database.url, changes);
  const tenant = await createTenant(db);
  return {
    baseUrl: server.baseUrl,
    databaseUrl: database.url,
    db,
    tenant,
    client: createApiClient(server.baseUrl, tenant.key),
    project: `/api/projects/${tenant.projectIds[0]}`,
    async stop() {
      await server.stop();
      await db.close();
      await database.drop();
    },
  };
}

async function listen(db: Database, url: string, changes: Partial<ApiOptions>) {
  const api = await buildApi(testApiOptions(db, url, changes));
  const baseUrl = await api.listen({ port: 0, host: '127.0.0.1' });
  return { baseUrl, stop: () => api.close() };
}

async function startProcess(databaseUrl: string) {
  const child = startSluice('main/api.js', [], {
    env: {
      DATABASE_URL: databaseUrl,
      PORT: '0',
      RATE_LIMIT_PER_MINUTE: String(plenty.perMinute),
      RATE_LIMIT_PER_HOUR: String(plenty.perHour),
    },
  });
  const line = await child.waitForLine(/^ready http/);
  return {
    baseUrl: line.replace(/^ready /, ''),
    async stop() {
      child.kill();
      await child.waitForExit();
    },
  };
}
