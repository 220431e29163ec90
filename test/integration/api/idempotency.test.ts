import { expect, test } from 'vitest';
import { buildApi } from '../../../src/service/api/build-api.ts';
import { useApi } from '../../support/api-under-test.ts';
import { exportBody } from '../../support/batch-export-bodies.ts';
import { testApiOptions } from '../../support/test-api-options.ts';
import { until } from '../../support/until.ts';
import { inTest } from '../../support/use-stage.ts';

const api = useApi();

const create = (key: string, body: object = exportBody(), client = api.client) =>
  client.post(api.exports, body, { headers: { 'idempotency-key': key } });

const count = async () => (await api.get(api.exports)).body.count;

test('the same request takes effect once, and is answered alike', async () => {
  const before = await count();
  const first = await create('replayed');
  const second = await create('replayed');
  expect([first.status, second.status]).toEqual([201, 201]);
  expect(second.body).toEqual(first.body);
  expect(first.headers.get('idempotency-replayed')).toBeNull();
  expect(second.headers.get('idempotency-replayed')).toBe('true');
  expect(await count()).toBe(before + 1);
});

test('ten at once take effect once; the others are answered that it is in flight', async () => {
  const before = await count();
  const answers = await Promise.all(Array.from({ length: 10 }, () => create('at-once')));
  for (const { status, body } of answers) {
    expect([201, 409]).toContain(status);
    if (status === 409) expect(body).toMatchObject({ code: 'conflict', type: 'invalid_request' });
  }
  expect(await count()).toBe(before + 1);
});

test('a name that must be unique is taken once, and the refusal names the export that has it', async () => {
  const body = exportBody({ name: 'Of many clients', unique_name: true });
  const at = (index: number) => create(`unique-${index}`, body);
  const answers = await Promise.all(Array.from({ length: 10 }, (_, index) => at(index)));
  const [made, ...more] = answers.filter(({ status }) => status === 201);
  expect(more).toEqual([]);
  for (const { status, body: refused } of answers) {
    if (status !== 201)
      expect([status, refused.code, refused.attr]).toEqual([409, 'conflict', 'name']);
    if (status !== 201) expect(refused.detail).toContain(made?.body.id);
  }
  const free = await api.post(api.exports, { ...body, name: 'of many clients' });
  expect(free.status, free.text).toBe(201);
  const plain = await api.post(api.exports, { ...body, unique_name: undefined });
  expect(plain.status, plain.text).toBe(201);
  for (const id of [made?.body.id, plain.body.id]) await api.delete(`${api.exports}/${id}`);
  expect((await api.post(api.exports, body)).status).toBe(201);
});

test('a request that dies before its answer is stored has no effect, and its key is free at once', async () => {
  const before = await count();
  await api.db.transaction(async (tx) => {
    // The request can do everything but record its answer.
    await tx.query('lock table activity in exclusive mode');
    const dying = create('dying');
    const waiting = () =>
      api.sql<{ pid: number }>`select a.pid from pg_locks l join pg_stat_activity a using (pid)
          where l.relation = 'activity'::regclass and not l.granted and a.datname = current_database()`;
    const backend = await until(async () => (await waiting())[0]);
    expect((await create('dying')).status).toBe(409);
    await api.sql`select pg_terminate_backend(${backend.pid})`;
    expect((await dying).status).toBe(503);
  });
  expect(await count()).toBe(before);
  expect([(await create('dying')).status, (await create('dying')).status]).toEqual([201, 201]);
  expect(await count()).toBe(before + 1);
});

test('a request whose answer cannot be stored has no effect', async () => {
  const before = await count();
  await api.sql`
    alter table idempotency_keys add constraint nothing_kept check (idempotency_key <> 'unkept')`;
  expect((await create('unkept')).status).toBe(500);
  expect(await count()).toBe(before);
  await api.sql`alter table idempotency_keys drop constraint nothing_kept`;
  expect((await create('unkept')).status).toBe(201);
});

test('a backfill is announced to the workers once they can see it', async () => {
  const seen: Promise<number>[] = [];
  const options = testApiOptions(api.db, api.databaseUrl);
  const backfillWaiting = (id: string) => {
    const found = api.sql`select from backfills where id = ${id}`;
    seen.push(found.then(({ length }) => length));
  };
  const doorbell = { runsWaiting() {}, backfillWaiting };
  const ringing = await inTest(buildApi({ ...options, context: { ...options.context, doorbell } }));
  const answer = await ringing.inject({
    method: 'POST',
    url: api.exports,
    headers: { authorization: `Bearer ${api.tenant.key}`, 'idempotency-key': 'locked' },
    payload: exportBody({ start_at: '2024-03-01T00:00:00Z', backfill: true }),
  });
  expect([answer.statusCode, await Promise.all(seen)]).toEqual([201, [1]]);
});

test('another body under the same key is 422', async () => {
  await create('other-body');
  expect(await create('other-body', exportBody({ name: 'another' }))).toMatchObject({
    status: 422,
    body: { type: 'invalid_request', attr: 'Idempotency-Key' },
  });
});

test('the same body on another path under the same key is 422', async () => {
  const { body } = await create('made');
  const headers = { 'idempotency-key': 'paused' };
  expect((await api.post(`${api.exports}/${body.id}/pause`, {}, { headers })).status).toBe(200);
  const { status } = await api.post(`${api.exports}/${body.id}/unpause`, {}, { headers });
  expect([status, (await api.get(`${api.exports}/${body.id}`)).body.paused]).toEqual([422, true]);
});

test('a refused request leaves its key free', async () => {
  expect((await create('corrected', {})).status).toBe(400);
  expect((await create('corrected')).status).toBe(201);
});

test('keys of different API keys never meet', async () => {
  const first = await create('mine');
  const second = await create('mine', exportBody({ name: 'theirs' }), await api.withNewKey({}));
  expect(second.status).toBe(201);
  expect(second.body.id).not.toBe(first.body.id);
});

test('after 24 hours a key may be used anew', async () => {
  const first = await create('old');
  await api.sql`
    update idempotency_keys set created_at = now() - interval '25 hours' where idempotency_key = 'old'`;
  const second = await create('old', exportBody({ name: 'anew' }));
  expect(second.status).toBe(201);
  expect(second.body.id).not.toBe(first.body.id);
});

test.each(['x'.repeat(256), 'has space', ' '])(
  'a key that is too long, blank or not visible ASCII is 400: %j',
  async (key) => {
    const { status, body } = await create(key);
    expect([status, body.attr]).toEqual([400, 'Idempotency-Key']);
  },
);
