import { createHash, randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { canonicalBytes } from '../../../src/foundation/domain/canonical-json.ts';
import { useApi } from '../../support/api-under-test.ts';
import { exportBody } from '../../support/batch-export-bodies.ts';

interface Definition {
  readonly query: string;
  readonly text: {
    readonly query: { readonly dsl_query: string };
    readonly model: { readonly name: string };
  } | null;
}

const api = useApi();

const createExport = async (more = {}) => {
  const body = { ...exportBody(), ...more };
  const { id } = (await api.post(api.exports, body)).body;
  return `${api.exports}/${id}/statements`;
};

test('a statement is made on demand, listed and retrieved as it is signed', async () => {
  const path = await createExport();
  const none = await api.get(`${path}/head/`);
  expect(none.body).toMatchObject({ number: 0, sha256: null, made_at: null, put_number: 0 });
  expect((await api.get(`${path}/1/`)).status).toBe(404);
  const made = await api.post(`${path}/`);
  expect(made.status).toBe(201);
  expect(made.body).toMatchObject({ number: 1, put_number: 0, put_fault: null });
  await api.post(`${path}/`);
  const list = (await api.get(`${path}/`)).body;
  expect(list).toMatchObject({
    count: 2,
    results: [
      { number: 2, begins: null, balance: { closing: { rows: 0, bytes: 0, files: 0 } } },
      { number: 1, begins: 'first', sha256: made.body.sha256 },
    ],
  });
  const { body } = await api.get(`${path}/1/`);
  const bytes = canonicalBytes(body);
  expect(createHash('sha256').update(bytes).digest('hex')).toBe(made.body.sha256);
  expect(bytes.length).toBe(list.results[1]?.bytes);
  expect((await api.get(`${path}/head/`)).body.number).toBe(2);
  expect((await api.get(`${path}/0/`)).status).toBe(404);
});

test('a statement that a request with an Idempotency-Key made is there after the answer', async () => {
  const path = await createExport();
  const headers = { 'idempotency-key': 'statement-once' };
  for (const _ of [1, 2]) {
    expect((await api.post(`${path}/`, undefined, { headers })).body.number).toBe(1);
    expect((await api.get(`${path}/head/`)).body.number).toBe(1);
  }
});

test('a statement shows the definition if the export says so', async () => {
  const path = await createExport({ dsl_query: 'SELECT event FROM events' });
  await api.post(`${path}/`);
  const digests = (await api.get(`${path}/1/`)).body.definition as Definition;
  expect(digests.text).toBeNull();
  const open = path.replace('/statements', '');
  const change = { statement_shows: 'definition' };
  expect((await api.patch(`${open}/`, change)).body).toMatchObject(change);
  expect((await api.patch(`${open}/`, { statement_shows: 'all' })).status).toBe(400);
  await api.post(`${path}/`);
  const shown = (await api.get(`${path}/2/`)).body.definition as Definition;
  expect(shown.text?.query.dsl_query).toContain('event');
  expect(shown.text?.model.name).toBe('events');
  const digest = createHash('sha256').update(canonicalBytes(shown.text?.query)).digest('hex');
  expect([digests.query, shown.query]).toEqual([digest, digest]);
});

test('the public keys need no key', async () => {
  await api.post(`${await createExport()}/`);
  const answer = await fetch(`${api.baseUrl}/api/signing_keys/`);
  expect(answer.status).toBe(200);
  const text = await answer.text();
  expect(JSON.parse(text)).toMatchObject({
    type: 'sluice.keys.v1',
    keys: [{ algorithm: 'Ed25519' }],
  });
  expect(text).not.toContain('private');
});

test('an acknowledgement is checked, and is in the next statement', async () => {
  const path = await createExport();
  const { sha256 } = (await api.post(`${path}/`)).body;
  const acknowledgements = path.replace('/statements', '/acknowledgements/');
  const send = (body: unknown) => api.post(acknowledgements, body);
  const other = { number: 1, sha256: 'a'.repeat(64), rows: 0 };
  for (const [body, attr, text] of [
    [{ ...other, number: 2 }, 'number', 'no statement 2'],
    [other, 'sha256', `another SHA-256: ${sha256}`],
    [{ ...other, sha256: 'A' }, 'sha256', ''],
    [{ ...other, sha256, rows: -1 }, 'rows', ''],
    [{ number: 1, sha256 }, 'rows', ''],
  ] as const) {
    const refused = await send(body);
    expect([refused.status, refused.body.attr], refused.text).toEqual([400, attr]);
    expect(refused.body.detail).toContain(text);
  }
  expect((await api.get(`${path}/head/`)).body.acknowledged).toBeNull();
  const right = await send({ number: 1, sha256, rows: 0 });
  expect([right.status, right.body.acknowledged]).toEqual([
    201,
    { number: 1, sha256, rows: 0, at: expect.any(String), rows_of_balance: 0, difference: 0 },
  ]);
  const more = (await send({ number: 1, sha256, rows: 3 })).body.acknowledged;
  expect(more).toMatchObject({ rows: 3, difference: 3 });
  await api.post(`${path}/`);
  const { at } = more as { readonly at: string };
  expect((await api.get(`${path}/1/`)).body.acknowledged).toBeNull();
  expect((await api.get(`${path}/2/`)).body.acknowledged).toEqual({
    ...{ number: 1, sha256, rows: 3, at },
  });
});

test('a difference of what was loaded is an event for both sides, once, and so is its end', async () => {
  const path = await createExport();
  const { sha256 } = (await api.post(`${path}/`)).body;
  const events = ['load.differs', 'load.agrees'];
  const target = { kind: 'webhook', url: 'https://example.com/hook', events };
  const made = await api.post(`${api.project}/notification_targets/`, target);
  expect(made.status, made.text).toBe(201);
  const ofOperator = await api.sql<{ id: string }>`
    insert into notification_targets (organization_id, kind, description, format, events)
     values ('00000000-0000-0000-0000-000000000000', 'webhook', '', 'json', ${events}) returning id`;
  const acknowledge = async (rows: number) => {
    const body = { number: 1, sha256, rows };
    const answer = await api.post(path.replace('/statements', '/acknowledgements/'), body);
    expect(answer.status).toBe(201);
    const found = await api.sql<{ type: string; target: string }>`
      select type, target_id as target from notification_deliveries where type like 'load.%'
        order by type desc, target_id`;
    return found.map(({ type, target: to }) => `${type} ${to}`);
  };
  const both = [String(made.body.id), ofOperator[0]?.id ?? ''].toSorted();
  expect(await acknowledge(0)).toEqual([]);
  const differs = both.map((id) => `load.differs ${id}`);
  expect(await acknowledge(3)).toEqual(differs);
  expect(await acknowledge(4)).toEqual(differs);
  expect(await acknowledge(0)).toEqual([...differs, ...both.map((id) => `load.agrees ${id}`)]);
  const [event] = await api.sql<{ facts: unknown }>`
    select facts from notification_deliveries where type = 'load.differs'`;
  const { keys } = JSON.parse((await api.get('/api/signing_keys/')).text);
  const publicKey = Buffer.from(keys.at(-1).public_key, 'hex');
  expect(event?.facts).toMatchObject({
    acknowledged: { number: 1, sha256, rows: 3, rows_of_balance: 0 },
    statement: { number: 1, sha256, key: createHash('sha256').update(publicKey).digest('hex') },
  });
});

test('documents are files, as they are signed or as a page', async () => {
  const path = await createExport();
  await api.post(`${path}/`);
  const record = `${api.project}/delivery_record/?month=2024-03`;
  const json = await api.get(record);
  expect(json.status, json.text).toBe(200);
  expect(json.headers.get('content-disposition')).toBe(
    'attachment; filename="delivery-2024-03.json"',
  );
  expect(String(canonicalBytes(JSON.parse(json.text)))).toBe(json.text);
  const page = await api.get(`${record}&format=html`);
  expect(page.headers.get('content-type')).toContain('text/html');
  expect(page.headers.get('content-disposition')).toMatch(/^attachment/);
  expect(page.text).toContain('<h1>Delivery record</h1>');
  expect((await api.get(`${api.project}/delivery_record/?month=2024-13`)).status).toBe(400);
  const erasure = path.replace('/statements', `/erasures/${randomUUID()}/`);
  expect((await api.get(erasure)).status).toBe(404);
});
