import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ensureEventsTable } from '../../../src/rows/sources/index.ts';
import { type ApiUnderTest, startApiUnderTest } from '../../support/api-under-test.ts';
import { exportBody } from '../../support/batch-export-bodies.ts';

/** PostHog's `filters`: conditions on properties that the query gets. */

let api: ApiUnderTest;
let exports: string;

/** Properties of the events of this test, by the name of the event. */
const events: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  pro: { plan: 'pro', seats: 5, 'a.b': 'dotted' },
  free: { plan: 'free', seats: 1, rate: '100%' },
  odd: { plan: "it's", seats: '7', paid: true },
  none: {},
  nothing: { plan: null, seats: null },
};

beforeAll(async () => {
  api = await startApiUnderTest();
  exports = `${api.project}/batch_exports`;
  await ensureEventsTable(api.databaseUrl);
  for (const [event, properties] of Object.entries(events)) {
    await api.db.query(
      `insert into events (uuid, team_id, event, distinct_id, properties, person_properties, inserted_at)
       values (gen_random_uuid(), $1, $2, 'd', $3, $4, now() - interval '1 minute')`,
      [api.tenant.projectIds[0], event, JSON.stringify(properties), '{"country":"DE"}'],
    );
  }
});
afterAll(() => api?.stop());

/** The events that a preview with these filters shows. */
async function eventsWith(...filters: readonly object[]): Promise<readonly unknown[]> {
  const { status, text, body } = await api.client.post(`${exports}/preview`, { filters });
  expect(status, text).toBe(200);
  const columns = body.columns as readonly { readonly name: string }[];
  const at = columns.findIndex(({ name }) => name === 'event');
  return (body.rows as readonly (readonly unknown[])[]).map((row) => row[at]).toSorted();
}

describe('a filter selects the rows that PostHog selects', () => {
  test.each([
    [{ key: 'plan', value: 'pro' }, ['pro']],
    [{ key: 'plan', value: ['pro', "it's"], operator: 'exact', type: 'event' }, ['odd', 'pro']],
    [{ key: 'plan', value: 'pro', operator: 'is_not' }, ['free', 'none', 'nothing', 'odd']],
    [{ key: 'plan', value: ['pro', 'free'], operator: 'not_in' }, ['none', 'nothing', 'odd']],
    [{ key: 'plan', value: ['pro', 'free'], operator: 'in' }, ['free', 'pro']],
    [{ key: 'plan', value: 'R', operator: 'icontains' }, ['free', 'pro']],
    [{ key: 'rate', value: '0%', operator: 'icontains' }, ['free']],
    [{ key: 'plan', value: '%', operator: 'icontains' }, []],
    [{ key: 'plan', value: 'R', operator: 'not_icontains' }, ['none', 'nothing', 'odd']],
    [{ key: 'plan', operator: 'is_set', value: 'is_set' }, ['free', 'odd', 'pro']],
    [{ key: 'plan', operator: 'is_not_set' }, ['none', 'nothing']],
    [{ key: 'seats', operator: 'gt', value: 1 }, ['pro']],
    [{ key: 'seats', operator: 'gte', value: '1' }, ['free', 'pro']],
    [{ key: 'seats', operator: 'lt', value: 5 }, ['free']],
    [{ key: 'seats', operator: 'lte', value: 5.0 }, ['free', 'pro']],
    [{ key: 'paid', value: true }, ['odd']],
    [{ key: 'a.b', value: 'dotted' }, ['pro']],
    [{ key: "x' or true --", value: 'y' }, []],
    [{ key: 'country', value: 'DE', type: 'person' }, ['free', 'none', 'nothing', 'odd', 'pro']],
    [{ key: 'country', value: 'DE', type: 'person', operator: 'is_not' }, []],
  ])('%j', async (filter, expected) => {
    expect(await eventsWith(filter)).toEqual(expected);
  });

  test('and several are joined by AND', async () => {
    const set = { key: 'plan', operator: 'is_set' };
    expect(await eventsWith(set, { key: 'seats', operator: 'gte', value: 1 })).toEqual([
      'free',
      'pro',
    ]);
  });
});

test.each([
  [{ key: 'a', value: 'b', operator: 'regex' }, 'operator'],
  [{ key: 'a', value: 'b', operator: 'toString' }, 'operator'],
  [{ key: 'a', value: '2024-01-01', operator: 'is_date_before' }, 'operator'],
  [{ key: 'a', value: 'b', type: 'cohort' }, 'type'],
  [{ key: 'a', value: 'b', operator: 'gt' }, 'value'],
  [{ key: 'a', value: [1, 2], operator: 'gt' }, 'value'],
  [{ key: 'a', value: [] }, 'value'],
  [{ key: 'a' }, 'value'],
  [{ key: 'a', value: ['b', null] }, 'value'],
  [{ key: 'a', value: 'b', operator: 'in' }, 'value'],
  [{ key: '', value: 'b' }, 'key'],
])('what cannot be translated exactly is refused by its entry: %j', async (filter, field) => {
  const filters = [{ key: 'plan', value: 'pro' }, filter];
  const { status, body } = await api.client.post(exports, exportBody({ filters }));
  expect([status, body.attr]).toEqual([400, `filters__1__${field}`]);
});

describe('an export with filters', () => {
  const pro = { key: 'plan', value: 'pro' };
  const free = { key: 'plan', value: 'free' };
  const create = async (fields: Readonly<Record<string, unknown>>) => {
    const made = await api.client.post(exports, exportBody(fields));
    expect(made.status, made.text).toBe(201);
    return { path: `${exports}/${made.body.id}`, body: made.body };
  };

  test('has their conditions in the WHERE of its query', async () => {
    const { body } = await create({ filters: [pro] });
    expect(body.filters).toEqual([pro]);
    expect(body.dsl_query).toMatch(/^SELECT \* FROM events WHERE .*plan.* IN \('pro'\)/);
    const both = await create({
      dsl_query: "select event from events where event = 'a' or event = 'b'",
      filters: [pro],
    });
    expect(both.body.dsl_query).toMatch(/'a'.* OR .*'b'.* AND .*plan.* IN \('pro'\)/);
  });

  test('replaces their conditions, and loses them with its filters', async () => {
    const { path } = await create({
      dsl_query: "select event from events where event = 'a'",
      filters: [pro],
    });
    const changed = await api.client.patch(path, { filters: [free] });
    expect(changed.body.dsl_query).toMatch(/'a'.* AND .*plan.* IN \('free'\)/);
    expect(changed.body.dsl_query).not.toContain("'pro'");
    const none = await api.client.patch(path, { filters: [] });
    expect(none.body.dsl_query).toMatch(/WHERE .*event.*'a'/);
    expect(none.body.dsl_query).not.toContain('plan');
    expect(none.body.filters).toBe(null);
    const alone = await create({ filters: [pro] });
    const all = await api.client.patch(alone.path, { filters: null });
    expect([all.body.dsl_query, all.body.schema]).toEqual([null, null]);
  });

  test('keeps them when only its query changes, or is asked', async () => {
    const { path, body } = await create({ filters: [pro] });
    const changed = await api.client.patch(path, { dsl_query: 'select event from events' });
    expect([changed.status, changed.body.filters]).toEqual([200, [pro]]);
    expect(changed.body.dsl_query).toMatch(/^SELECT event FROM events WHERE .*plan.* IN \('pro'\)/);
    const every = await api.client.patch(path, { dsl_query: null });
    expect([every.body.dsl_query, every.body.filters]).toEqual([body.dsl_query, [pro]]);
    // As the page sends it: what a person reads and changes is all that counts.
    const edited = `${body.dsl_query} and event = 'a'`;
    const own = await api.client.patch(path, { dsl_query: edited, filters: null });
    expect([own.status, own.body.dsl_query, own.body.filters]).toEqual([200, edited, null]);
    await api.client.patch(path, { dsl_query: null, filters: [pro] });
    const said = await api.client.patch(path, {
      dsl_query: 'select event from events',
      filters: null,
    });
    expect([said.status, said.body.dsl_query]).toEqual([200, 'select event from events']);
  });

  test('may name its query hogql_query', async () => {
    const query = 'select event from events';
    const { path, body } = await create({ hogql_query: query });
    expect(body.dsl_query).toBe(query);
    expect((await api.client.patch(path, { hogql_query: null })).body.dsl_query).toBe(null);
    const differ = await api.client.patch(path, {
      hogql_query: query,
      dsl_query: `${query} where event is null`,
    });
    expect([differ.status, differ.body.attr]).toEqual([400, 'hogql_query']);
    expect((await api.client.patch(path, { hogql_query: query, dsl_query: query })).status).toBe(
      200,
    );
  });
});
