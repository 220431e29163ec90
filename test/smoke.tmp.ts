import { Type } from 'typebox';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { buildApi } from '../src/api/build-api.ts';
import { openDatabase } from '../src/store/database.ts';
import { migrate } from '../src/store/migrate.ts';
import { createSecretBox } from '../src/security/secret-box.ts';
import { hashApiKey, mintApiKey } from '../src/security/api-keys.ts';
import { insertApiKey } from '../src/store/api-keys.ts';
import { insertOrganization } from '../src/store/organizations.ts';
import { insertProject } from '../src/store/projects.ts';
const url = 'postgres://sluice@127.0.0.1:54999/smoke';
await migrate(url);
const db = openDatabase({ connectionString: url, applicationName: 'x', maxConnections: 5, onError: console.error });
const org = await insertOrganization(db, 'o');
const project = await insertProject(db, { organizationId: org.id, name: 'p' });
const key = mintApiKey();
await insertApiKey(db, { organizationId: org.id, projectIds: null, name: 'k', hash: hashApiKey(key), scopes: ['*'], isAdmin: true, expiresAt: null });
const api = await buildApi({
  context: { db, policy: { minIntervalMinutes: 5, backfillConcurrency: 2 } as never, secrets: createSecretBox([{ id: 'a', key: Buffer.alloc(32) }]), doorbell: { runsWaiting() {}, backfillWaiting() {} } },
  destinations: [{ type: 'S3', configSchema: Type.Object({ bucket_name: Type.String({ minLength: 1 }), region: Type.String(), prefix: Type.Optional(Type.String()), aws_access_key_id: Type.Optional(Type.Unsafe<string|null>({type:['string','null'], writeOnly: true})) }), validate: () => [], open: () => { throw new Error('x'); } }],
  destinationContext: {} as never, models: ['events'],
  checkQuery: () => ({ ok: true, schema: { fields: [] } }),
  metrics: new Registry(), logger: pino({ level: 'debug' }), trustProxy: false, rateLimit: { perMinute: 480, perHour: 4800 }, queueFault: async () => null, queueBoard: null,
});
const call = async (method: string, path: string, body?: unknown, headers = {}) => {
  const r = await api.inject({ method: method as 'GET', url: path, headers: { authorization: `Bearer ${key}`, ...(body !== undefined ? { 'content-type': 'application/json' } : {}), ...headers }, ...(body !== undefined ? { payload: typeof body === 'string' ? body : JSON.stringify(body) } : {}) });
  console.log(method, path, r.statusCode, r.body.slice(0, 1500), r.headers.allow ?? '');
  return r.body ? JSON.parse(r.body) : null;
};
const base = `/api/projects/${project.id}/batch_exports`;
await call('POST', base + '/', {});
const e = await call('POST', base + '/', { name: 'x', interval: 'hour', destination: { type: 'S3', config: { bucket_name: 'b', region: 'r', aws_access_key_id: 'SECRET' } }, start_at: '2024-01-01', backfill: true });
await call('POST', base, { name: ' ', interval: 'houry', destination: { type: 'S3', config: { bucket_name: null, foo: 1, bar: 2 } }, paused: 'true' });
await call('POST', base, { name: 'n', interval: 'hour', destination: { type: 'X', config: {} } });
await call('POST', base, '{"a":');
await call('POST', base, '[]');
await call('POST', base, '{"__proto__": 1}');
await call('GET', base + '?limit=1');
await call('GET', base + '?limit=0&offset=x');
await call('GET', `${base}/${e.id}/`);
await call('PATCH', `${base}/${e.id}`, { name: 'y', destination: { config: { prefix: 'p' } }, paused: true });
await call('PUT', `${base}/${e.id}`, { name: 'y' });
await call('POST', `${base}/${e.id}/pause`);
await call('POST', `${base}/${e.id}/unpause/`, { backfill: true });
await call('GET', `/api/organizations/@current/batch_exports`);
await call('GET', `/api/organizations/${org.id}/batch_exports`);
await call('GET', `/api/projects/999/batch_exports`);
await call('DELETE', `${base}/${e.id}`);
await call('GET', `${base}/${e.id}`);
await call('TRACE', `${base}`);
await call('PUT', `${base}`);
await call('OPTIONS', `${base}`);
await call('GET', `/nope`);
await call('POST', base, '<a>', { 'content-type': 'text/xml' });
await call('GET', base, undefined, { authorization: 'Bearer nope' });
await call('GET', base, undefined, { authorization: undefined });
const doc = await call('GET', '/api/openapi.json');
console.log(Object.keys(doc.paths), Object.keys(doc.components.schemas));
console.log(JSON.stringify(doc.paths[Object.keys(doc.paths)[3]], null, 1).slice(0, 3000));
const docs = await api.inject('/api/docs/'); console.log(docs.statusCode, docs.headers['content-security-policy'], docs.body.slice(0, 200));
await api.close(); await db.close();
