/** `sluice apply` of exports with a query and PostHog's filters. */

import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { startApiUnderTest, useApi } from '../../support/api-under-test.ts';
import { cliEnv, runCli } from '../../support/cli.ts';
import { readConfig } from '../../../src/foundation/config/config.ts';
import { destinationContextOf } from '../../../src/main/connectors.ts';
import { folderOfTests } from '../../support/own-folder.ts';
import { useStage } from '../../support/use-stage.ts';

const api = useApi();
let env: Record<string, string>;
const folder = folderOfTests();

beforeAll(() => {
  env = cliEnv(api);
});
beforeEach(async () => {
  for (const { id } of await stored()) await api.delete(`${api.exports}/${id}`);
});

async function stored() {
  return (await api.get(api.exports)).body.results;
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
  expect([second.code, second.err]).toEqual([0, '']);
  expect(second.out).toContain('No change: 5 exports as in the file.');
  expect(await stored()).toEqual(before);
  const { out } = await runCli(['export'], { env });
  const back = await runCli(['apply', '-f', '-'], { env, input: out });
  expect([back.out, back.err]).toEqual([expect.stringContaining('No change: 5 exports'), '']);

  // A change of one is that change, and the next apply has none.
  const free = { ...pro, value: 'free' };
  const other = [wanted('Own', { dsl_query: query.replace("'a'", "'b'"), filters: [free] })];
  expect((await apply(other, ['--dry-run'])).out).toMatch(/^ {4}dsl_query: ".*'a'.* → ".*'b'/m);
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
      const says = message.replace('(Stored)', `(${name})`);
      expect([code, err]).toEqual([1, expect.stringContaining(says)]);
    }
  }
  expect(await stored()).toEqual(before);
});

/** `sluice apply` with exports of two destinations in one file. */
describe('a whole file', () => {
  const folder = folderOfTests();
  const file = path.join(folder, 'all.yaml');
  const destinationContext = destinationContextOf(readConfig({ FILE_DESTINATION_ROOT: folder }));
  const api = useStage(() => startApiUnderTest({ destinationContext }));
  let env: Record<string, string>;

  beforeAll(() => {
    const values = { KEY_ID: 'AKIAIOSFODNN7EXAMPLE', SECRET: 'canary-secret', SALT: 'canary-salt' };
    env = { ...cliEnv(api), ...values };
  });

  const whole = () => ({
    transformations: [
      { name: 'Drop', plugin: 'Drop properties', enabled: true, config: { properties: 'plan' } },
      {
        ...{ name: 'Mask', plugin: 'Hash properties', enabled: true },
        config: { properties: 'email', salt: `\${SALT}` },
      },
    ],
    exports: [
      {
        ...{ name: 'To files', interval: 'hour', transformations: true },
        destination: { type: 'File', config: { directory: 'out/x', file_format: 'JSONLines' } },
      },
      {
        ...{ name: 'To S3', interval: 'day', timezone: 'Europe/Berlin', offset_hour: 3 },
        destination: {
          type: 'S3',
          config: {
            ...{ bucket_name: 'my-events', region: 'eu-central-1', prefix: 'p/{year}' },
            ...{ aws_access_key_id: `\${KEY_ID}`, aws_secret_access_key: `\${SECRET}` },
          },
        },
      },
    ],
  });

  type Whole = ReturnType<typeof whole>;

  async function apply(change: (given: Whole) => void = () => {}, args: readonly string[] = []) {
    const given = whole();
    change(given);
    await writeFile(file, stringify(given));
    const result = await runCli(['apply', '-f', file, ...args], { env });
    expect(result.output).not.toContain('canary');
    return result;
  }

  const unchanged = [
    'Transformations: 0 steps created, 0 updated, 0 deleted, 2 unchanged.',
    'No change: 2 exports as in the file.',
  ];
  const summaryOf = ({ out }: { readonly out: string }) => out.trimEnd().split('\n').slice(-2);

  test('the same file twice changes nothing, one change changes one thing, and what is gone is pruned', async () => {
    const created = await apply();
    expect([created.code, created.err]).toEqual([0, '']);
    expect(summaryOf(await apply())).toEqual(unchanged);
    const changed = await apply((all) => {
      Object.assign(all.transformations[1] ?? {}, { enabled: false });
    });
    const update = expect.stringMatching(/^~ update {5}step Mask .*: enabled$/);
    expect(changed.out.match(/^[~+-].*/gm)).toEqual([update]);
    const without = (all: Whole) => void all.transformations.shift();
    expect((await apply(without)).out).not.toMatch(/^-/m);
    const pruned = await apply(without, ['--prune', '--yes']);
    expect(pruned.out.match(/^-.*/gm)).toEqual([expect.stringContaining('step Drop')]);
    expect(summaryOf(await apply(without, ['--prune', '--yes']))).toEqual([
      'Transformations: 0 steps created, 0 updated, 0 deleted, 1 unchanged.',
      'No change: 2 exports as in the file.',
    ]);
  });

  test('mistakes in several places are reported in one go, and nothing is changed', async () => {
    await apply();
    const names = await apply((all) => {
      Object.assign(all.exports[1] ?? {}, { intervall: 'day' });
      Object.assign(all.transformations[0] ?? {}, { plugin: 'Drop propertiez' });
      Object.assign(all, { notifications: [] });
    });
    expect([names.code, names.out]).toEqual([1, '']);
    expect(names.err).toContain('exports[1] (To S3): intervall is not a field.');
    expect(names.err).toContain('transformations[0]: there is no plugin Drop propertiez.');
    expect(names.err).toContain('notifications: a file no longer has targets. Remove the list');
    const values = await apply((all) => {
      Object.assign(all.exports[0]?.destination.config ?? {}, { file_format: 'XML' });
      Object.assign(all.exports[1] ?? {}, { interval: 'daily' });
      Object.assign(all.transformations[0]?.config ?? {}, { propertis: 'plan' });
    });
    expect([values.code, values.out]).toEqual([1, '']);
    expect(values.err.split('\n').map((line) => line.slice(0, 100))).toEqual([
      expect.stringContaining('destination.config.file_format must be one of'),
      expect.stringContaining('interval must be one of hour, day'),
      expect.stringContaining('transformations[0].config.propertis is not a field.'),
      '',
    ]);
    expect(summaryOf(await apply())).toEqual(unchanged);
  });

  test('what only the service refuses is named by step, and no export runs without its mask', async () => {
    await apply();
    const refused = await apply(
      (all) => {
        Object.assign(all.transformations[0] ?? {}, { name: 'New', config: { properties: '' } });
        Object.assign(all.exports[0] ?? {}, { interval: 'day' });
      },
      ['--prune', '--yes'],
    );
    expect([refused.code, refused.err.split('\n')]).toEqual([
      1,
      [
        'step New: config.properties: This setting is required.',
        'No export was changed, because a step of the chain was refused.',
        '',
      ],
    ]);
    // Nor was the step deleted whose place it would have taken.
    expect(summaryOf(await apply())).toEqual(unchanged);
  });

  test('the answer as JSON has no secret, also if secrets are sent', async () => {
    for (const args of [['--json', '--dry-run'], ['--json']]) {
      const { code, out } = await apply(() => {}, ['--secrets', ...args]);
      expect([code, Object.keys(JSON.parse(out))]).toEqual([0, ['exports', 'transformations']]);
    }
  });
});
