/** One row for each rule of what a request may say. */

import { beforeAll, describe, expect, test } from 'vitest';
import type { ApiClient } from '../../support/api-client.ts';
import { useApi } from '../../support/api-under-test.ts';
import { isNightly } from '../../support/nightly.ts';
import { march, mine, refusedBodies, usefulStep } from './refused-bodies.ts';

const changes = /^(PATCH|PUT)/;
const cases = Object.entries(refusedBodies).flatMap(([operation, [base, ...rows]]) =>
  rows.map(([fields, wrong, said]) => ({ operation, wrong, said, body: { ...base, ...fields } })),
);

const api = useApi();
let operator: ApiClient;
/** What the words in capitals of the operations stand for. */
const ids: Record<string, string | number> = {};

beforeAll(async () => {
  operator = await api.asOperator();
  const make = async (path: string, body: object) => (await api.make(path, body)).id;
  ids.ORGANIZATION = api.tenant.organizationId;
  ids.PROJECT = api.teamId;
  ids.EXPORT = (await api.create({ start_at: march.start_at })).id;
  ids.OPEN = (await api.create()).id;
  for (const _ of [1, 2]) {
    ids.STEP = await make(`${api.project}/pipeline_transformation_configs`, usefulStep);
  }
  ids.TARGET = await make(`${api.project}/notification_targets`, { url: 'https://example.com/' });
  ids.PLUGIN = await make(`/api/organizations/${ids.ORGANIZATION}/plugins`, mine);
});

const idsIn = (path: string) => path.replaceAll(/[A-Z]{2,}/g, (word) => String(ids[word]));

/** By day one row for each field of an operation. */
const byField = new Map(cases.map((one) => [`${one.operation} ${/\w+/.exec(one.wrong)}`, one]));

test.each(isNightly ? cases : [...byField.values()])(
  '$operation $body is refused: $wrong',
  async ({ operation, body, wrong, said }) => {
    const [method = '', named = ''] = operation.split(' ');
    const path = idsIn(named.startsWith('/') ? named : `${api.project}/${named}`);
    const client = path.startsWith('/api/admin') ? operator : api;
    const read = async () => {
      const shown = changes.test(operation) ? await client.get(path) : null;
      return shown?.status === 200 ? shown.body : null;
    };
    const before = await read();
    const answer = await client.send(method, path, { body });
    expect(answer.status, answer.text).toBe(400);
    expect(answer.body).toMatchObject(answer.body.errors[0] ?? {});
    const isParsed = !wrong.endsWith('parse_error');
    expect(answer.body.type).toBe(isParsed ? 'validation_error' : 'invalid_request');
    const expected = wrong.split(', ');
    const problems = answer.body.errors.map(({ attr, code }) => {
      const field = String(attr).replace('destination__config__', '');
      return expected.includes(`${field} ${code}`) ? `${field} ${code}` : field;
    });
    expect(problems.toSorted(), answer.text).toEqual(expected.toSorted());
    expect(answer.body.detail).toMatch(said ?? /./);
    expect(await read()).toEqual(before);
  },
);

/** Cursors at times that no database can hold. */
const impossible = ['2024-99-99', '2023-02-29', '0000-01-01'].map((day) => {
  const parts = ['-created_at', 'next', `${day}T00:00:00.000000Z`, crypto.randomUUID()];
  return `cursor=${Buffer.from(JSON.stringify(parts)).toString('base64url')}`;
});
/** Back to before the calendar. */
const spans = ['after=-9999y', 'after=-1000y', 'after=-7000y'];

const queries: readonly [path: string, queries: readonly string[], said?: RegExp][] = [
  ['', ['limit=0', 'limit=-1', 'limit=x', 'limit=1.5', 'limit=', 'limit=1&limit=2']],
  ['', ['offset=-1', 'offset=1e3', 'health=unwell', 'ordering=size']],
  ['/EXPORT/runs', ['status=Nope', 'status=Completed&status=Nope&status=No', 'ordering=id']],
  ['/EXPORT/runs', ['after=yesterday', 'after=-2x', 'cursor=!!!', 'cursor=e30', 'limit=0']],
  ['/EXPORT/runs', [...spans, ...impossible]],
  ['/EXPORT/backfills', impossible],
  ['/EXPORT/logs', ['level=TRACE', 'level=INFO&level=TRACE', 'limit=1&limit=2', 'search=%00']],
  ['/EXPORT/logs', ['after=x', 'offset=-1', ...spans]],
  ['/EXPORT/coverage', ['from=2004-01-01'], /the maximum is 20000\. Choose a later from/],
  ['/EXPORT/coverage', ['from=1969-12-31'], /before 1970/],
  ['/EXPORT/coverage', ['from=2024-01-02&to=2024-01-01'], /before to/],
  ['/EXPORT/coverage', ['from=yesterday']],
];

test.each(queries)('exports%s: each of %j is refused', async (path, refused, said = /./) => {
  for (const query of refused) {
    const { status, body } = await api.get(`${api.exports}${idsIn(path)}?${query}`);
    expect([query, status, body.attr]).toEqual([query, 400, query.split('=')[0]]);
    expect(body.detail).toMatch(said);
  }
});

test('what an operation answered can be sent back, and changes nothing', async () => {
  const made = await api.create({
    ...{ name: 'n', interval: 'day', destination: { type: 'NoOp', config: {} }, offset_hour: 3 },
    filters: [{ key: 'plan', value: 'pro' }],
  });
  const sent = { ...made, id: 'another', team_id: 77, created_at: 'never' };
  const path = `${api.exports}/${made.id}`;
  const changed = await api.patch(path, sent);
  expect(changed.status, changed.text).toBe(200);
  expect({ ...changed.body, last_updated_at: '' }).toEqual({ ...made, last_updated_at: '' });
  for (const operation of ['pause', 'unpause']) {
    const answer = await api.post(`${path}/${operation}`, { ...made, backfill: false });
    expect(answer.status, `${operation}: ${answer.text}`).toBe(operation === 'pause' ? 400 : 200);
    const other = await api.post(`${path}/${operation}`, { ...made, name: 'other' });
    expect([operation, other.status, other.body.name]).toEqual([operation, 200, 'n']);
  }
  const steps = `${api.project}/pipeline_transformation_configs`;
  const step = await api.post(steps, { plugin: 2, order: 1, config: { events: 'a' } });
  const again = await api.patch(`${steps}/${step.body.id}`, step.body);
  expect(again.status, again.text).toBe(200);
});

test('an unknown query parameter is named in Sluice-Warning, with the one that may be meant', async () => {
  const { status, headers } = await api.get(`${api.exports}?helth=late&x%0a=1`);
  expect(status).toBe(200);
  const warning = headers.get('sluice-warning');
  expect(warning).toContain(
    'The query parameter helth is unknown and was ignored. Did you mean health?',
  );
  expect(warning).toContain('The query parameter x? is unknown and was ignored.');
  const known = await api.get(`${api.exports}?limit=1`);
  expect(known.headers.get('sluice-warning')).toBe(null);
});

test('an unknown field of a free object is not looked at: rows have any columns', async () => {
  const rows = [{ event: 'paid', anything: { nested: true } }];
  const configs = [{ plugin: 2, config: { events: 'spam' } }];
  const lab = `${api.exports}/preview`;
  const { status, text } = await api.post(lab, { configs, rows });
  expect(status, text).toBe(200);
});

test('an operation of operators refuses a query parameter that it does not know', async () => {
  const admin = await api.asOperator();
  const { status, body } = await admin.get('/admin/offboardings?status=completed');
  expect([status, body.attr]).toEqual([400, 'status']);
  expect((await admin.get('/admin/offboardings')).status).toBe(200);
});

/** The parser would keep the last of two fields, and round a number: then more or other rows are sent than were asked for. */
describe('a body that the parser of JSON would change', () => {
  const text = (fields: string) =>
    `{"name":"n","interval":"hour","destination":{"type":"NoOp","config":{}},${fields}}`;
  test.each([
    ['"filters":[{"key":"a","value":"b"}],"filters":[]', 'filters'],
    ['"filters":[{"key":"id","value":9007199254740993}]', 'filters__0__value'],
    ['"filters":[{"key":"id","value":1e400}]', 'filters__0__value'],
  ])('with %s is 400 for an export', async (fields, attr) => {
    const answer = await api.send('POST', api.exports, { raw: text(fields) });
    expect([answer.status, answer.body.code, answer.body.attr]).toEqual([
      400,
      'invalid_input',
      attr,
    ]);
  });
});
