import { upload } from '../../support/s3-destination.ts';
import { beforeAll, expect, test } from 'vitest';
import { contextWith, owner } from '../../conformance/destination-suite.ts';
import { s3Definition } from '../../../src/rows/destinations/s3/definition.ts';
import { startApiUnderTest } from '../../support/api-under-test.ts';
import { exportBody, s3 } from '../../support/batch-export-bodies.ts';
import { allowBriefReceipts } from '../../support/brief-receipts.ts';
import { startS3Server } from '../../support/s3-server/server.ts';
import { useStage } from '../../support/use-stage.ts';

const credentials = { accessKeyId: 'AKIAIOSFODNN7EXAMPLE', secretAccessKey: 'canary-secret' };
const bytes = Buffer.from('{"id":1}\n');

const store = useStage(() => startS3Server({ buckets: ['my-events', 'other'], credentials }));
const api = useStage(() =>
  startApiUnderTest({ destinationContext: contextWith({ fileDestinationRoot: '/var/tmp' }) }),
);
beforeAll(() => allowBriefReceipts(api.db));

const configOf = (bucket_name: string) => ({
  ...{ bucket_name, region: 'us-east-1', endpoint_url: store.endpoint },
  aws_access_key_id: credentials.accessKeyId,
  aws_secret_access_key: credentials.secretAccessKey,
});

async function put(bucket: string, key: string): Promise<void> {
  const destination = s3Definition.open(configOf(bucket), contextWith({}), owner);
  await upload({ destination }, bytes, key);
  await destination.close();
}

/** An export whose run has delivered these files. */
async function deliver(keys: readonly string[], destination: object = s3(configOf('my-events'))) {
  const created = await api.post(api.exports, exportBody({ destination }));
  expect(created.status).toBe(201);
  const { id } = created.body;
  const [run] = await api.sql<{ id: string }>`
    insert into runs (export_id, team_id, status, data_interval_start, data_interval_end, generation,
      committing_generation, finished_at)
     values (${id}, ${api.teamId}, 'Completed', '2024-03-01T00:00:00Z', '2024-03-01T01:00:00Z', 1, 2, now()) returning id`;
  const files = keys.map((key, n) => ({
    ...{ key, generation: n + 1, rows: 1, bytes: bytes.length },
    ...{ sha256: 'ab'.repeat(32), etag: '"t"' },
  }));
  await api.sql`
    insert into receipts (export_id, data_interval_start, data_interval_end, run_id, manifest_key, files, rows, bytes,
      generation, settled)
     values (${id}, '2024-03-01T00:00:00Z', '2024-03-01T01:00:00Z', ${run?.id}, 'm_manifest.json',
       ${JSON.stringify(files)}, 1, 1, 2, true)`;
  return { id: String(id), path: `${api.exports}/${id}/runs/${run?.id}/link` };
}

const changesOf = async (id: string) =>
  (await api.get(`${api.exports}/${id}/activity`)).body.results.filter(
    ({ action }) => action === 'linked a file',
  );

test('a link reads a file of any generation and the manifest, and the changes say who made it', async () => {
  const keys = ['country=NL/a.jsonl', 'country=NL/a.v2.jsonl'];
  for (const key of [...keys, 'm_manifest.json']) await put('my-events', key);
  const { id, path } = await deliver(keys);
  for (const key of [...keys, 'm_manifest.json']) {
    const { status, body, headers } = await api.post(path, { key, expires_in_seconds: 60 });
    expect([status, headers.get('cache-control')]).toEqual([200, 'no-store']);
    const left = Date.parse(String(body.expires_at)) - Date.now();
    expect(left).toBeGreaterThan(50_000);
    expect(left).toBeLessThanOrEqual(60_000);
    expect(await (await fetch(String(body.url))).text()).toBe(bytes.toString());
    expect(String(body.url)).not.toContain(credentials.secretAccessKey);
  }
  const made = await changesOf(id);
  expect(made).toHaveLength(3);
  expect(made.at(-1)).toMatchObject({
    key_id: api.tenant.keyId,
    changes: [
      // The folder of a partition is a value of rows, and a change stays.
      { field: 'file', before: null, after: 'country=…/a.jsonl' },
      { field: 'link_expires_at', before: null },
    ],
  });
  expect(JSON.stringify(made)).not.toContain('X-Amz-');
  const operator = await api.asOperator();
  const looked = await operator.get(`${api.exports}/${id}/activity`);
  expect(looked.text).toContain('country=…/a.jsonl');
  expect(looked.text).not.toContain('country=NL');
});

test('only the scope file:read and * give links, and no key of an operator', async () => {
  await put('my-events', 'scoped.jsonl');
  const { id, path } = await deliver(['scoped.jsonl']);
  const status = async (scopes: readonly string[], more = {}) => {
    const client = await api.withNewKey({ scopes, ...more });
    return (await client.post(path, { key: 'scoped.jsonl' })).status;
  };
  expect(await status(['batch_export:write', 'plugin:write'])).toBe(403);
  const operators = ['operator:read', 'operator:write', '*', 'file:read'];
  expect(await status(operators, { organizationId: null })).toBe(403);
  expect(await changesOf(id)).toEqual([]);
  expect([await status(['file:read']), await status(['*'])]).toEqual([200, 200]);
  expect(await changesOf(id)).toHaveLength(2);
});

test('a file that is not of the run, or not there as it was delivered, is refused and not recorded', async () => {
  await put('my-events', 'theirs.jsonl');
  await put('my-events', 'larger.jsonl');
  const { id, path } = await deliver(['gone.jsonl', 'a/./dots.jsonl', 'larger.jsonl']);
  await api.sql`
    update receipts set files = jsonb_set(files, '{2,bytes}', '3') where export_id = ${id}`;
  for (const [key, said] of [
    ['theirs.jsonl', /no current file with this key/],
    ['gone.jsonl', /is not there/],
    ['larger.jsonl', /another size/],
    ['a/./dots.jsonl', /folder \. or \.\./],
  ] as const) {
    const { status, body } = await api.post(path, { key });
    expect([key, status, body.attr]).toEqual([key, 400, 'key']);
    expect(body.detail).toMatch(said);
  }
  for (const seconds of [9, 3_601, 1.5]) {
    const body = { key: 'gone.jsonl', expires_in_seconds: seconds };
    expect((await api.post(path, body)).body.attr).toBe('expires_in_seconds');
  }
  expect(await changesOf(id)).toEqual([]);
});

test('a destination without links says so, and one that refuses its keys says which', async () => {
  const without = await deliver(['a.jsonl'], { type: 'NoOp', config: {} });
  const refused = await api.post(without.path, { key: 'a.jsonl' });
  expect([refused.status, refused.body.detail]).toEqual([
    400,
    'This destination has no links: its files are not in a store.',
  ]);
  const wrong = { ...configOf('my-events'), aws_secret_access_key: 'canary-wrong' };
  const { path } = await deliver(['a.jsonl'], s3(wrong));
  const denied = await api.post(path, { key: 'a.jsonl' });
  expect([denied.status, denied.body.attr]).toEqual([400, null]);
  expect(denied.body.detail).toMatch(/^destination\.invalid_credentials: /);
  expect(denied.text).not.toContain('canary');
});

test('a file stays at the place that the export has left, until the keys of that place are gone', async () => {
  await put('my-events', 'left.jsonl');
  await put('other', 'left.jsonl');
  const { id, path } = await deliver(['left.jsonl']);
  const destination = { config: configOf('other') };
  const moved = await api.patch(`${api.exports}/${id}`, { destination });
  expect(moved.status).toBe(200);
  const { body } = await api.post(path, { key: 'left.jsonl' });
  expect(new URL(String(body.url)).pathname).toBe('/my-events/left.jsonl');
  await api.sql`update former_destinations set destination_secrets = null`;
  const locked = await api.post(path, { key: 'left.jsonl' });
  expect([locked.status, locked.body.detail]).toEqual([400, expect.stringMatching(/are gone/)]);
});
