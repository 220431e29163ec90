import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, test } from 'vitest';
import { ensureEventsTable } from '../../../src/rows/sources/index.ts';
import { useApi } from '../../support/api-under-test.ts';
import { exportBody, s3 } from '../../support/batch-export-bodies.ts';
import { readDocument } from '../../support/openapi.ts';
import { firstByDay } from '../../support/nightly.ts';

let environment: string;
let exports: string;

const api = useApi();
beforeAll(async () => {
  environment = api.project.replace('/projects/', '/environments/');
  exports = `${environment}/batch_exports`;
  await ensureEventsTable(api.databaseUrl);
});

const noOp = { type: 'NoOp', config: {} };
const nowhere = 'http://127.0.0.1:1/';

const create = async (changes: Readonly<Record<string, unknown>> = {}) => {
  const { status, body } = await api.post(`${exports}/`, exportBody(changes));
  expect(status, JSON.stringify(body)).toBe(201);
  return body;
};
const refused = async (destination: unknown, path = `${exports}/`, method = 'POST') => {
  const answer = await api.send(method, path, { body: exportBody({ destination }) });
  return [answer.status, answer.body.attr, answer.body.detail];
};
const step = { name: expect.any(String), description: expect.any(String) };
const address = 'destination__config__endpoint_url';

/** What shows each line of the table in docs/posthog.md. */
const lines: Readonly<Record<string, () => Promise<void>>> = {
  '`/api/environments/{id}/…`': async () => {
    const { id } = await create();
    await create();
    expect((await api.get(`${api.exports}/${id}`)).body.id).toBe(id);
    const page = await api.get(`${exports}/?limit=1`);
    const next = new URL(page.body.next ?? '');
    expect(next.pathname).toBe(`${exports}/`);
    expect((await api.get(next.pathname + next.search)).body.results).toHaveLength(1);
    expect((await api.get('/api/environments/@current/batch_exports/')).status).toBe(403);
    expect((await api.send('DELETE', exports)).headers.get('allow')).toContain('POST');
    expect((await api.get('/api/environments/999999/batch_exports/')).status).toBe(403);
    for (const list of ['runs', 'logs', 'backfills']) {
      expect((await api.get(`${exports}/${id}/${list}/`)).status).toBe(200);
    }
  },
  '`POST …/batch_exports/{id}/backfills/`': async () => {
    const { id } = await create();
    const bounds = { start_at: '2024-03-01T00:00:00Z', end_at: '2024-03-01T02:30:00Z' };
    const { status, body } = await api.post(`${exports}/${id}/backfills/`, bounds);
    expect([status, body]).toEqual([
      201,
      {
        backfill_id: expect.any(String),
        start_at: '2024-03-01T00:00:00.000000Z',
        end_at: '2024-03-01T03:00:00.000000Z',
        total_runs: 3,
      },
    ]);
    const backfill = await api.get(`${exports}/${id}/backfills/${body.backfill_id}/`);
    expect(backfill.body).toMatchObject({ total_runs: 3 });
    const later = { ...bounds, end_at: '2999-01-01T00:00:00Z' };
    const future = await api.post(`${exports}/${id}/backfills/`, later);
    expect([future.status, future.body.attr]).toEqual([400, 'end_at']);
    const open = await api.post(`${exports}/${id}/backfills/`, {});
    expect(open.body.errors.map(({ attr }) => attr)).toEqual(['start_at', 'end_at']);
  },
  'a date as a bound of that backfill': async () => {
    const zone = { timezone: 'Europe/Berlin', offset_hour: 5 };
    const bounds = { start_at: '2024-03-30', end_at: '2024-04-01' };
    const day = await create({ interval: 'day', ...zone });
    const daily = await api.post(`${exports}/${day.id}/backfills/`, bounds);
    expect(daily.body).toMatchObject({
      start_at: '2024-03-30T04:00:00.000000Z',
      end_at: '2024-04-01T03:00:00.000000Z',
      total_runs: 2,
    });
    const hour = await create();
    const { status, body } = await api.post(`${exports}/${hour.id}/backfills/`, bounds);
    expect([status, body.errors.map(({ attr }) => attr)]).toEqual([400, ['start_at', 'end_at']]);
    expect((await api.post(`${exports}/${day.id}/backfill/`, bounds)).status).toBe(400);
  },
  '`type: AwsS3`': async () => {
    const sent = { ...s3(), type: 'AwsS3' };
    const { id, destination } = await create({ destination: sent });
    expect(destination.type).toBe('S3');
    for (const method of ['PUT', 'PATCH']) {
      for (const again of [destination, sent]) {
        const body = exportBody({ destination: again });
        const answer = await api.send(method, `${exports}/${id}/`, { body });
        expect([answer.status, answer.body.destination.type]).toEqual([200, 'S3']);
      }
    }
    const regional = { endpoint_url: 'https://s3.eu-west-1.amazonaws.com' };
    await create({ destination: { ...s3(regional), type: 'AwsS3' } });
    const elsewhere = { ...s3({ endpoint_url: 'https://amazonaws.com.example' }), type: 'AwsS3' };
    const says = [400, address, expect.stringContaining('S3Compatible')];
    expect(await refused(elsewhere)).toEqual(says);
    expect(await refused(elsewhere, `${exports}/${id}/`, 'PATCH')).toEqual(says);
  },
  '`type: S3Compatible`': async () => {
    const store = { endpoint_url: 'https://store.example' };
    const compatible = { ...s3(store), type: 'S3Compatible' };
    const { id, destination } = await create({ destination: compatible });
    expect(destination).toMatchObject({ type: 'S3', config: store });
    const change = { destination: { type: 'S3Compatible', config: { prefix: 'a/' } } };
    const changed = await api.patch(`${exports}/${id}/`, change);
    expect(changed.body.destination.config).toMatchObject({ ...store, prefix: 'a/' });
    const says = [400, address, expect.stringContaining('type S3')];
    expect(await refused({ ...s3(), type: 'S3Compatible' })).toEqual(says);
    const gone = { ...s3({ endpoint_url: null }), type: 'S3Compatible' };
    expect(await refused(gone, `${exports}/${id}/`, 'PUT')).toEqual(says);
    const unknown = [400, 'destination__type', expect.any(String)];
    expect(await refused({ ...s3(), type: 'AzureBlob' })).toEqual(unknown);
  },
  '`GET …/batch_exports/test/?destination=S3`': async () => {
    const { status, body } = await api.get(`${exports}/test/?destination=S3`);
    expect([status, body.steps]).toEqual([200, [{ ...step, result: null }]]);
    expect((await api.get(`${exports}/test/?destination=AwsS3`)).status).toBe(200);
    expect((await api.get(`${exports}/test/?destination=Snowflake`)).status).toBe(400);
  },
  '`POST …/batch_exports/run_test_step_new/`': async () => {
    const path = `${exports}/run_test_step_new/`;
    const passed = await api.post(path, { ...exportBody({ destination: noOp }), step: 0 });
    expect([passed.status, passed.body]).toEqual([
      200,
      { ...step, result: { status: 'Passed', message: 'Nothing is ever written.' } },
    ]);
    const destination = { ...s3({ endpoint_url: nowhere }), type: 'S3Compatible' };
    const failed = await api.post(path, exportBody({ destination }));
    expect(failed.body.result).toEqual({ status: 'Failed', message: expect.any(String) });
    const other = await api.post(path, { ...exportBody({ destination: noOp }), step: 1 });
    expect([other.status, other.body.attr]).toEqual([400, 'step']);
  },
  '`POST …/batch_exports/{id}/run_test_step/`': async () => {
    const { id } = await create({ destination: s3({ endpoint_url: nowhere }) });
    const path = `${exports}/${id}/run_test_step/`;
    expect((await api.post(path, { step: 0 })).body.result).toMatchObject({ status: 'Failed' });
    const other = await create({ destination: noOp });
    const changed = await api.post(`${exports}/${other.id}/run_test_step/`, { ...other, step: 0 });
    expect(changed.body.result).toMatchObject({ status: 'Passed' });
  },
  '`timezone: null`': async () => {
    const made = await create({ interval: 'day', timezone: null });
    expect(made.timezone).toBe('UTC');
    const path = `${exports}/${made.id}/`;
    await api.patch(path, { timezone: 'Europe/Berlin' });
    expect((await api.patch(path, { timezone: null })).body.timezone).toBe('UTC');
  },
  '`integration_id`': async () => {
    for (const field of ['integration_id', 'integration']) {
      const destination = { ...s3(), type: 'AwsS3', [field]: 7 };
      const says = [400, `destination__${field}`, expect.stringContaining('aws_access_key_id')];
      expect(await refused(destination)).toEqual(says);
      expect(await refused(destination, `${exports}/run_test_step_new/`)).toEqual(says);
    }
  },
  '`hogql_query`': async () => {
    const { dsl_query } = await create({ hogql_query: 'select event from events' });
    expect(dsl_query).toMatch(/select event from events/i);
  },
  '`filters`': async () => {
    const exact = { key: '$browser', operator: 'exact', type: 'event', value: ['Firefox'] };
    expect((await create({ filters: [exact] })).dsl_query).toMatch(/\$browser/);
    const filters = [{ key: 'id', type: 'cohort', value: 1 }];
    const { status, body } = await api.post(exports, exportBody({ filters }));
    expect([status, body.attr]).toEqual([400, expect.stringMatching(/^filters__0/)]);
  },
};

describe('a client of PostHog', () => {
  test.each(Object.entries(lines))('%s', (_line, show) => show());
});

test('the page has a line for each, and no other', () => {
  const page = readFileSync(new URL('../../../docs/posthog.md', import.meta.url), 'utf8');
  const firstCells = [...page.matchAll(/^\| (.+?) \|/gm)].map(([, cell]) => cell);
  expect(firstCells.slice(2)).toEqual(Object.keys(lines));
});

test('the OpenAPI document has their operations, so the matrix of access has them too', async () => {
  const { operations } = await readDocument(api.client);
  const family = operations.filter(({ path }) => path.startsWith('/api/environments/'));
  expect(family.length).toBeGreaterThan(30);
});

describe('filters of PostHog', () => {
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
    exports = api.exports;
    for (const [event, properties] of Object.entries(events)) {
      await api.sql`insert into events (uuid, team_id, event, distinct_id, properties, person_properties, inserted_at)
       values (gen_random_uuid(), ${api.teamId}, ${event}, 'd', ${JSON.stringify(properties)},
         ${'{"country":"DE"}'}, now() - interval '1 minute')`;
    }
  });

  /** The events that a preview with these filters shows. */
  async function eventsWith(...filters: readonly object[]): Promise<readonly unknown[]> {
    const { status, text, body } = await api.post(`${exports}/preview`, { filters });
    expect(status, text).toBe(200);
    const columns = body.columns as readonly { readonly name: string }[];
    const at = columns.findIndex(({ name }) => name === 'event');
    return (body.rows as readonly (readonly unknown[])[]).map((row) => row[at]).toSorted();
  }

  describe('a filter selects the rows that PostHog selects', () => {
    const filters = firstByDay(4, [
      [{ key: 'plan', value: ['pro', "it's"], operator: 'exact', type: 'event' }, ['odd', 'pro']],
      [{ key: 'plan', value: 'pro', operator: 'is_not' }, ['free', 'none', 'nothing', 'odd']],
      [{ key: 'rate', value: '0%', operator: 'icontains' }, ['free']],
      [{ key: 'seats', operator: 'gte', value: '1' }, ['free', 'pro']],
      [{ key: 'country', value: 'DE', type: 'person', operator: 'is_not' }, []],
      [{ key: "x' or true --", value: 'y' }, []],
      [{ key: 'plan', value: 'pro' }, ['pro']],
      [{ key: 'plan', value: ['pro', 'free'], operator: 'not_in' }, ['none', 'nothing', 'odd']],
      [{ key: 'plan', value: ['pro', 'free'], operator: 'in' }, ['free', 'pro']],
      [{ key: 'plan', value: 'R', operator: 'icontains' }, ['free', 'pro']],
      [{ key: 'plan', value: '%', operator: 'icontains' }, []],
      [{ key: 'plan', value: 'R', operator: 'not_icontains' }, ['none', 'nothing', 'odd']],
      [{ key: 'plan', operator: 'is_set', value: 'is_set' }, ['free', 'odd', 'pro']],
      [{ key: 'plan', operator: 'is_not_set' }, ['none', 'nothing']],
      [{ key: 'seats', operator: 'gt', value: 1 }, ['pro']],
      [{ key: 'seats', operator: 'lt', value: 5 }, ['free']],
      [{ key: 'seats', operator: 'lte', value: 5.0 }, ['free', 'pro']],
      [{ key: 'paid', value: true }, ['odd']],
      [{ key: 'a.b', value: 'dotted' }, ['pro']],
      [{ key: 'country', value: 'DE', type: 'person' }, ['free', 'none', 'nothing', 'odd', 'pro']],
    ]);
    test.each(filters)('%j', async (filter, expected) => {
      expect(await eventsWith(filter)).toEqual(expected);
    });

    test('and several are joined by AND', async () => {
      const set = { key: 'plan', operator: 'is_set' };
      const seats = { key: 'seats', operator: 'gte', value: 1 };
      expect(await eventsWith(set, seats)).toEqual(['free', 'pro']);
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
    const { status, body } = await api.post(exports, exportBody({ filters }));
    expect([status, body.attr]).toEqual([400, `filters__1__${field}`]);
  });

  describe('an export with filters', () => {
    const pro = { key: 'plan', value: 'pro' };
    const free = { key: 'plan', value: 'free' };
    const create = async (fields: Readonly<Record<string, unknown>>) => {
      const made = await api.post(exports, exportBody(fields));
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
      const changed = await api.patch(path, { filters: [free] });
      expect(changed.body.dsl_query).toMatch(/'a'.* AND .*plan.* IN \('free'\)/);
      expect(changed.body.dsl_query).not.toContain("'pro'");
      const none = await api.patch(path, { filters: [] });
      expect(none.body.dsl_query).toMatch(/WHERE .*event.*'a'/);
      expect(none.body.dsl_query).not.toContain('plan');
      expect(none.body.filters).toBe(null);
      const alone = await create({ filters: [pro] });
      const all = await api.patch(alone.path, { filters: null });
      expect([all.body.dsl_query, all.body.schema]).toEqual([null, null]);
    });

    test('keeps them when only its query changes, or is asked', async () => {
      const { path, body } = await create({ filters: [pro] });
      const changed = await api.patch(path, { dsl_query: 'select event from events' });
      expect([changed.status, changed.body.filters]).toEqual([200, [pro]]);
      expect(changed.body.dsl_query).toMatch(
        /^SELECT event FROM events WHERE .*plan.* IN \('pro'\)/,
      );
      const every = await api.patch(path, { dsl_query: null });
      expect([every.body.dsl_query, every.body.filters]).toEqual([body.dsl_query, [pro]]);
      // As the page sends it: what a person reads and changes is all that counts.
      const edited = `${body.dsl_query} and event = 'a'`;
      const own = await api.patch(path, { dsl_query: edited, filters: null });
      expect([own.status, own.body.dsl_query, own.body.filters]).toEqual([200, edited, null]);
      await api.patch(path, { dsl_query: null, filters: [pro] });
      const said = await api.patch(path, { dsl_query: 'select event from events', filters: null });
      expect([said.status, said.body.dsl_query]).toEqual([200, 'select event from events']);
    });

    test('may name its query hogql_query', async () => {
      const query = 'select event from events';
      const { path, body } = await create({ hogql_query: query });
      expect(body.dsl_query).toBe(query);
      expect((await api.patch(path, { hogql_query: null })).body.dsl_query).toBe(null);
      const both = { hogql_query: query, dsl_query: `${query} where event is null` };
      const differ = await api.patch(path, both);
      expect([differ.status, differ.body.attr]).toEqual([400, 'hogql_query']);
      expect((await api.patch(path, { hogql_query: query, dsl_query: query })).status).toBe(200);
    });
  });
});
