import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ensureEventsTable } from '../../../src/sources/index.ts';
import { type ApiUnderTest, startApiUnderTest } from '../../support/api-under-test.ts';
import { createKey } from '../../support/tenants.ts';

let api: ApiUnderTest;
let lab: string;

beforeAll(async () => {
  api = await startApiUnderTest();
  lab = `${api.project}/pipeline_transformation_configs/lab`;
  await ensureEventsTable(api.databaseUrl);
  await api.db.query(
    `insert into events (uuid, team_id, event, distinct_id, properties, inserted_at)
     select gen_random_uuid(), $1, 'paid', 'user ' || n, '{"n": 9007199254740993, "email": "a@example.com"}',
            now() - interval '1 minute' from generate_series(1, 3) n`,
    [api.tenant.projectIds[0]],
  );
});
afterAll(() => api.stop());

const dropEmail = { plugin: 1, config: { properties: 'email' } };
const dropSpam = { plugin: 2, config: { events: 'spam' } };
const castPrice = { plugin: 9, config: { types: '{"price": "number"}', on_error: 'reject' } };

interface Answer {
  readonly row: Record<string, unknown>;
  readonly result: Record<string, unknown> | null;
  readonly steps: readonly { fate: string; error: string | null; changes: unknown[] }[];
}

async function run(body: object): Promise<readonly Answer[]> {
  const answer = await api.client.post(lab, body);
  expect(answer.status, answer.text).toBe(200);
  return answer.body.rows as unknown as Answer[];
}

describe('the lab', () => {
  test('shows what each step does to a row', async () => {
    const rows = [{ uuid: 'a', event: 'paid', properties: { email: 'x', price: '1.50' } }];
    const [row] = await run({ configs: [dropEmail, castPrice], rows });
    expect(row?.result).toEqual({ uuid: 'a', event: 'paid', properties: { price: 1.5 } });
    expect(row?.steps).toMatchObject([
      {
        fate: 'kept',
        error: null,
        changes: [{ path: 'properties.email', before: 'x', after: null }],
      },
      { fate: 'kept', changes: [{ path: 'properties.price', before: '1.50', after: 1.5 }] },
    ]);
  });

  test('ends a row with the step that drops or rejects it', async () => {
    const rows = [
      { event: 'spam', properties: {} },
      { event: 'paid', properties: { price: 'free' } },
    ];
    const [spam, free] = await run({ configs: [dropSpam, castPrice, dropEmail], rows });
    expect(spam).toMatchObject({ result: null, steps: [{ fate: 'dropped' }] });
    expect(free?.steps.map(({ fate }) => fate)).toEqual(['kept', 'rejected']);
    expect(free?.steps[1]?.error).not.toContain('free');
  });

  test('applies the stored chain to the newest rows, without rounding', async () => {
    const path = `${api.project}/pipeline_transformation_configs`;
    await api.client.post(path, { ...dropEmail, order: 1, enabled: true });
    await api.client.post(path, { ...dropSpam, order: 2, enabled: false });
    const rows = await run({ stored: true, sample: 2 });
    expect(rows).toHaveLength(2);
    expect(rows[0]?.result?.properties).toEqual({ n: '9007199254740993' });
    expect(rows[0]?.steps).toHaveLength(1);
  });

  test.each([
    ['neither configs nor stored', { sample: 1 }, 'configs'],
    ['neither rows nor sample', { configs: [] }, 'rows'],
    ['an unknown plugin', { configs: [{ plugin: 999 }], sample: 1 }, 'configs__0__plugin'],
    [
      'a wrong setting',
      { configs: [dropEmail, { plugin: 9, config: { types: 'x' } }], sample: 1 },
      'configs__1__config__types',
    ],
    ['an unknown model', { configs: [], sample: 1, model: 'x' }, 'model'],
  ])('refuses %s', async (_what, body, attr) => {
    const { status, body: refused } = await api.client.post(lab, body);
    expect(status).toBe(400);
    expect(refused.attr).toBe(attr);
  });

  test('samples rows only for a key that may read exports', async () => {
    const { key } = await createKey(api.db, {
      organizationId: api.tenant.organizationId,
      scopes: ['plugin:write'],
    });
    const other = api.client.withKey(key);
    expect((await other.post(lab, { configs: [], sample: 1 })).status).toBe(403);
    expect((await other.post(lab, { configs: [], rows: [{ event: 'a' }] })).status).toBe(200);
  });
});
