/** `sluice apply` of exports with a query and PostHog's filters. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { type ApiUnderTest, startApiUnderTest } from '../../support/api-under-test.ts';
import { cliEnv, runCli } from '../../support/cli.ts';

let api: ApiUnderTest;
let env: Record<string, string>;
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'sluice-apply-'));
  api = await startApiUnderTest();
  env = cliEnv(api);
});
afterAll(async () => {
  await api.stop();
  await rm(folder, { recursive: true });
});
beforeEach(async () => {
  for (const { id } of await stored()) {
    await api.client.delete(`${api.project}/batch_exports/${id}`);
  }
});

async function stored() {
  return (await api.client.get(`${api.project}/batch_exports`)).body.results;
}

const wanted = (name: string, fields: object = {}) => ({
  ...{ name, interval: 'hour', destination: { type: 'NoOp', config: {} } },
  ...fields,
});

async function apply(exports: readonly object[], args: readonly string[] = []) {
  const file = path.join(folder, 'exports.yaml');
  await writeFile(file, stringify({ exports }));
  return runCli(['apply', '-f', file, ...args], { env });
}

test('filters beside a query change nothing the second time, by either name of the query', async () => {
  const pro = { key: 'plan', value: 'pro' };
  const query = "select event from events where event = 'a'";
  const file = [
    wanted('Own', { dsl_query: query, filters: [pro] }),
    wanted('Named by PostHog', { hogql_query: query, filters: [pro] }),
    wanted('Both names', { dsl_query: query, hogql_query: query, filters: [pro] }),
    wanted('Only filters', { filters: [pro] }),
    wanted('No query', { dsl_query: null, filters: [pro] }),
  ];
  const first = await apply(file);
  expect([first.code, first.err]).toEqual([0, '']);
  const before = await stored();
  for (const { name, dsl_query: has } of before) {
    expect(has, String(name)).toMatch(/WHERE .*plan.* IN \('pro'\)/);
  }
  const second = await apply(file);
  expect([second.code, second.err, second.out]).toEqual([
    0,
    '',
    expect.stringContaining('No change: 5 exports as in the file.'),
  ]);
  expect(await stored()).toEqual(before);
  const { out } = await runCli(['export'], { env });
  const back = await runCli(['apply', '-f', '-'], { env, input: out });
  expect([back.out, back.err]).toEqual([expect.stringContaining('No change: 5 exports'), '']);

  // A change of one is that change, and the next apply has none.
  const free = { ...pro, value: 'free' };
  const other = [wanted('Own', { dsl_query: query.replace("'a'", "'b'"), filters: [free] })];
  const third = await apply(other, ['--dry-run']);
  expect(third.out).toMatch(/^ {4}dsl_query: ".*'a'.* → ".*'b'/m);
  expect((await apply(other)).err).toBe('');
  const changed = (await stored()).find(({ name }) => name === 'Own');
  expect(changed?.dsl_query).toMatch(/'b'.*'free'/);
  expect(changed?.dsl_query).not.toMatch(/'a'|'pro'/);
  expect((await apply(other)).out).toContain('No change');
  // The filters that the file does not mention stay.
  const silent = [wanted('Own', { dsl_query: 'select event from events' })];
  expect((await apply(silent)).out).toContain('1 updated');
  expect((await apply(silent)).out).toContain('No change');
  const none = [wanted('Own', { dsl_query: 'select event from events', filters: [] })];
  expect((await apply(none)).out).toContain('1 updated');
  expect((await apply(none)).out).toContain('No change');
});

test('what is wrong with filters or a query names the field, and changes nothing', async () => {
  const query = 'select event from events';
  const good = wanted('Stored', { dsl_query: query, filters: [{ key: 'plan', value: 'pro' }] });
  await apply([good]);
  const before = await stored();
  const refusals: [object, string][] = [
    [
      { dsl_query: query, hogql_query: `${query} where event is null` },
      'exports[0] (Stored): hogql_query is another name of dsl_query, and the two differ.',
    ],
    [
      { dsl_query: query, filters: [{ key: 'a', value: 'b', operator: 'regex' }] },
      'filters.0.operator: ',
    ],
    [{ dsl_query: query, filters: [{ key: 'a' }] }, 'filters.0.value: '],
    [{ hogql_query: 'select', filters: [{ key: 'a', value: 'b' }] }, 'dsl_query: '],
  ];
  for (const [fields, message] of refusals) {
    for (const name of ['Stored', 'New']) {
      const { code, err } = await apply([{ ...wanted(name), ...fields }]);
      expect([code, err]).toEqual([
        1,
        expect.stringContaining(message.replace('(Stored)', `(${name})`)),
      ]);
    }
  }
  expect(await stored()).toEqual(before);
});
