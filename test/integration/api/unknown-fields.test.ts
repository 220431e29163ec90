import { describe, expect, test } from 'vitest';
import { useApi } from '../../support/api-under-test.ts';

const api = useApi();

interface Operation {
  readonly operationId: string;
  readonly requestBody?: {
    readonly content: Record<string, { readonly schema: { additionalProperties?: unknown } }>;
  };
}

test('every body is described as closed', async () => {
  const { body } = await api.get('/api/openapi.json');
  const paths = Object.values(body.paths as Record<string, Record<string, Operation>>);
  const operations = paths.flatMap((methods) => Object.values(methods));
  const open = operations.flatMap(({ operationId, requestBody }) => {
    const schema = requestBody?.content['application/json']?.schema;
    return schema && schema.additionalProperties !== false ? [operationId] : [];
  });
  expect(open).toEqual([]);
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
