import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { beforeAll, beforeEach, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { readConfig } from '../../../src/foundation/config/config.ts';
import { destinationContextOf } from '../../../src/main/connectors.ts';
import type { WireBody } from '../../support/api-client.ts';
import { startApiUnderTest } from '../../support/api-under-test.ts';
import { type CliOptions, cliEnv, runCli } from '../../support/cli.ts';
import { folderOfTests } from '../../support/own-folder.ts';
import { useStage } from '../../support/use-stage.ts';

let env: Record<string, string>;
const folder = folderOfTests();
const destinationContext = destinationContextOf(readConfig({ FILE_DESTINATION_ROOT: folder }));
const api = useStage(() => startApiUnderTest({ destinationContext }));
beforeAll(() => {
  env = { ...cliEnv(api), KEY_ID: 'AKIAIOSFODNN7EXAMPLE', SECRET: 'canary-secret' };
});
beforeEach(async () => {
  for (const { id } of await stored()) await api.delete(`${api.exports}/${id}`);
});

async function stored(): Promise<readonly WireBody[]> {
  return (await api.get(api.exports)).body.results;
}

const secrets = { aws_access_key_id: `\${KEY_ID}`, aws_secret_access_key: `\${SECRET}` };

function wanted(name: string, { config = {}, ...changes }: Record<string, object | string> = {}) {
  const own = { bucket_name: 'my-events', region: 'us-east-1', ...secrets, ...Object(config) };
  return { name, interval: 'hour', destination: { type: 'S3', config: own }, ...changes };
}

async function apply(
  exports: readonly object[],
  args: readonly string[] = [],
  changes: Partial<CliOptions> = {},
) {
  const file = path.join(folder, 'exports.yaml');
  await writeFile(file, stringify({ exports }));
  return runCli(['apply', '-f', file, ...args], { env, ...changes });
}

test('creates, then changes nothing, then changes what differs, and secrets never show', async () => {
  const first = await apply([wanted('One'), wanted('Two')]);
  expect(first).toMatchObject({ code: 0, err: '' });
  expect(first.out).toContain('2 created, 0 updated, 0 deleted, 0 unchanged.');
  const before = await stored();

  const second = await apply([wanted('One'), wanted('Two')]);
  expect(second.out).toContain('No change: 2 exports as in the file.');
  expect(await stored()).toEqual(before);

  const other = wanted('One', { config: { prefix: 'new' }, start_at: '2024-03-01' });
  const file = [other, wanted('Two')];
  const third = await apply(file);
  expect(third.out).toContain('    start_at: null → "2024-03-01"\n');
  expect(third.out).toContain('    destination.config.prefix: "" → "new"\n');
  expect(third.out).toContain('0 created, 1 updated, 0 deleted, 1 unchanged.');
  expect((await apply(file)).out).toContain('No change');
  expect((await apply(file, ['--secrets'])).out).toContain('0 created, 2 updated');
  for (const { output } of [first, second, third]) expect(output).not.toContain('canary-secret');
});

test('takes the layout of the files, says what of it changes, and refuses what cannot be', async () => {
  const partition_by = ['event', 'day(inserted_at)'];
  const layout = { partition_by, file_name: '{start}_{end}.{generation}' };
  await apply([wanted('One', { config: layout })]);
  const [one] = await stored();
  expect(one?.destination).toMatchObject({ config: layout });
  expect((await apply([wanted('One', { config: layout })])).out).toContain('No change');
  const other = { ...layout, partition_by: ['event'] };
  expect((await apply([wanted('One', { config: other })])).out).toContain(
    'destination.config.partition_by: ["event","day(inserted_at)"] → ["event"]',
  );
  const wrong = { ...layout, partition_by: ['day(timestamp)', 'day(inserted_at)'] };
  const refused = await apply([wanted('One', { config: wrong })]);
  expect([refused.code, refused.output]).toEqual([1, expect.stringMatching(/partition_by.*day/s)]);
  const struck = await apply([wanted('One', { config: { ...layout, success_file: false } })]);
  expect(struck.code).toBe(1);
  expect(struck.output).toContain(
    'destination.config.success_file: Sluice no longer has it. Remove it.',
  );
  const stale = await apply([{ ...wanted('One'), freshness_minutes: 90 }]);
  expect(stale.code).toBe(1);
  expect(stale.output).toMatch(/freshness_minutes: Sluice no longer has it\. .*deadline_minutes/);
});

test('a dry run and its JSON change nothing', async () => {
  const { code, out } = await apply([wanted('One')], ['--dry-run', '--json']);
  expect(code).toBe(0);
  const planned = { action: 'create', name: 'One', id: null, changes: [], error: null };
  expect(JSON.parse(out)).toEqual([planned]);
  expect(await stored()).toEqual([]);
});

test('every fault of the file is named, and nothing is changed', async () => {
  const { code, err } = await apply([
    wanted('Good'),
    wanted('Bad', { intreval: 'hour', config: { bukcet_name: 'x', prefix: `\${NOT_SET}` } }),
    wanted('Good'),
    wanted('Plain', { config: { aws_secret_access_key: 'hunter2' } }),
    wanted('Other', { destination: { type: 'S4', config: {} } }),
    { interval: 'hour' },
  ]);
  expect(code).toBe(1);
  expect(err.trimEnd().split('\n')).toEqual([
    'exports[1] (Bad): intreval is not a field. Did you mean interval?',
    'exports[1] (Bad): destination.config.bukcet_name is not a field. Did you mean bucket_name?',
    'exports[1] (Bad): destination.config.prefix: the environment variable NOT_SET is not set.',
    'exports[2].name: exports[0] has the same name, Good.',
    `exports[3] (Plain): destination.config.aws_secret_access_key is a secret in plain text. Write \${AWS_SECRET_ACCESS_KEY} and set that environment variable.`,
    'exports[4] (Other): destination.type must be one of S3, File, NoOp.',
    'exports[5]: an export needs a name.',
  ]);
  expect(err).not.toContain('hunter2');
  expect(await stored()).toEqual([]);
});

test('a secret must be set only if it is sent', async () => {
  const { SECRET: _, ...without } = env;
  const one = [wanted('One')];
  expect(await apply(one, [], { env: without })).toMatchObject({
    code: 1,
    err: 'One: destination.config.aws_secret_access_key: the environment variable SECRET is not set.\n',
  });
  await apply(one);
  expect(await apply(one, [], { env: without })).toMatchObject({ code: 0 });
});

test('the service refuses one: the others are applied, nothing is deleted, and the exit code is 1', async () => {
  await apply([wanted('Old'), wanted('Kept')]);
  const bad = wanted('Bad', { config: { prefix: '{nonsense}' } });
  const file = [bad, wanted('Good'), wanted('Kept')];
  const { code, out, err } = await apply(file, ['--prune', '--yes']);
  expect(code).toBe(1);
  expect(out).toContain('1 created, 0 updated, 0 deleted, 1 unchanged, 2 failed.');
  expect(err).toMatch(/^Bad: destination\.config\.prefix: .*\nOld: not deleted, because .*\n$/);
  expect((await stored()).map(({ name }) => name).sort()).toEqual(['Good', 'Kept', 'Old']);
});

test('pruning asks, and deletes what the file lacks', async () => {
  await apply([wanted('Old'), wanted('One')]);
  const args = ['--prune'];
  const web = `project ${api.teamId} (Website)`;
  expect(await apply([wanted('One')], args)).toMatchObject({
    code: 2,
    err: `Delete 1 export of ${web} that the file does not have? Pass --yes: there is no terminal to ask.\n`,
  });
  expect(await apply([wanted('One')], args, { answer: 'n' })).toMatchObject({ code: 1 });
  expect(await apply([], args, { answer: 'y' })).toMatchObject({ code: 2 });
  expect(await stored()).toHaveLength(2);
  expect(await apply([wanted('One')], args, { answer: 'y' })).toMatchObject({ code: 0 });
  expect((await stored()).map(({ name }) => name)).toEqual(['One']);
});

test('pruning a project that has none of the exports of the file is refused', async () => {
  await apply([wanted('Of another team'), wanted('Theirs')]);
  const { code, err } = await apply([wanted('Ours')], ['--prune', '--yes']);
  expect(code).toBe(2);
  expect(err).toContain('--prune would delete all 2. Check --project and SLUICE_KEY.');
  expect(await stored()).toHaveLength(2);
  expect(await apply([wanted('Ours')])).toMatchObject({ code: 0 });
  expect(await apply([wanted('Ours')], ['--prune', '--yes'])).toMatchObject({ code: 0 });
  expect((await stored()).map(({ name }) => name)).toEqual(['Ours']);
});

test('the secrets of a destination of another type never show either', async () => {
  await apply([{ name: 'One', interval: 'hour', destination: { type: 'NoOp', config: {} } }]);
  const changed = [wanted('One', { config: { prefix: 'new' } })];
  const outputs = [
    await apply(changed, ['--dry-run']),
    await apply(changed, ['--dry-run', '--json']),
    await apply(changed),
  ];
  expect(outputs[0]?.out).toContain('    destination.type: "NoOp" → "S3"\n');
  expect(outputs[0]?.out).toContain('    destination.config.prefix: "" → "new"\n');
  for (const { output } of outputs) {
    expect(output).not.toContain('canary-secret');
    expect(output).not.toContain('AKIAIOSFODNN7EXAMPLE');
  }
});

test('the same file from several at once creates each export once, and prunes each once', async () => {
  const names = ['One', 'Two', 'Three'];
  const file = names.map((name) => wanted(name));
  const created = (outs: readonly { readonly out: string }[]) =>
    outs.map(({ out }) => Number(/(\d+) created/.exec(out)?.[1] ?? 0)).reduce((a, b) => a + b);
  const several = (...args: string[]) =>
    Promise.all([1, 2, 3, 4].map(() => runCli(['apply', '-f', shared, ...args], { env })));
  const shared = path.join(folder, 'shared.yaml');

  await writeFile(shared, stringify({ exports: file }));
  const applied = await several();
  for (const { code, output } of applied) expect(code, output).toBe(0);
  expect((await stored()).map(({ name }) => name).sort()).toEqual(names.toSorted());
  expect(created(applied)).toBe(names.length);

  await writeFile(shared, stringify({ exports: [wanted('One')] }));
  for (const { code, output } of await several('--prune', '--yes')) expect(code, output).toBe(0);
  expect((await stored()).map(({ name }) => name)).toEqual(['One']);
});

test('a name that two exports have is refused with their ids', async () => {
  const ids = [(await api.create({ name: 'Twice' })).id, (await api.create({ name: 'Twice' })).id];
  const { code, err } = await apply([wanted('Twice')]);
  expect(code).toBe(1);
  for (const id of ids) expect(err).toContain(id);
});

test('export prints a file that apply accepts, with variables for secrets and no change', async () => {
  const query = `SELECT properties."\${x}" AS x, event FROM events`;
  const { id } = await api.create({
    ...{ name: 'Tricky, name', dsl_query: query, start_at: '2024-03-01T00:00:00Z' },
  });
  const { out } = await runCli(['export'], { env });
  expect(out).toContain(`aws_secret_access_key: \${TRICKY_NAME_AWS_SECRET_ACCESS_KEY}`);
  expect(out).not.toContain('canary-');
  const back = await runCli(['apply', '-f', '-'], { env, input: out });
  expect(back).toMatchObject({ code: 0, err: '' });
  expect(back.out).toContain('No change: 1 export as in the file.');

  await api.delete(`${api.exports}/${id}`);
  const named = {
    TRICKY_NAME_AWS_ACCESS_KEY_ID: env.KEY_ID,
    TRICKY_NAME_AWS_SECRET_ACCESS_KEY: env.SECRET,
  };
  const again = await runCli(['apply', '-f', '-'], { env: { ...env, ...named }, input: out });
  expect(again, again.output).toMatchObject({ code: 0, err: '' });
  expect((await stored())[0]).toMatchObject({ name: 'Tricky, name', dsl_query: query });
});

test('a directory that is stored below the project is the same, so a second apply changes nothing', async () => {
  const destination = { type: 'File', config: { directory: 'out' } };
  const file = { name: 'Files', interval: 'hour', destination };
  expect(await apply([file])).toMatchObject({ code: 0, err: '' });
  expect((await stored())[0]?.destination.config.directory).toMatch(/^\d+\/out$/);
  expect((await apply([file])).out).toContain('No change: 1 export as in the file.');
});

test('a second apply changes nothing, whatever the destination and however a value is written', async () => {
  const file = [
    {
      ...{ name: 'Nothing "quoted" 🚀 شركة', interval: 'every 5 minutes', paused: true },
      ...{ destination: { type: 'NoOp', config: {} }, filters: [] },
      hogql_query: 'SELECT event, timestamp FROM events',
    },
    {
      ...{ name: 'N'.repeat(200), interval: 'day', timezone: 'Europe/Berlin', offset_hour: 3 },
      ...{ deadline_at: '06:00', start_at: '2024-03-01T00:00:00+02:00', end_at: '2030-01-01' },
      destination: {
        type: 'File',
        config: { directory: 'out/in', file_format: 'Parquet', compression: 'zstd' },
      },
    },
    wanted('Lists', {
      config: {
        ...{
          include_events: ['b', 'a', 'a'],
          exclude_events: [],
          endpoint_url: 'https://s3.example.com/',
        },
        ...{ max_file_size_mb: 0, compression: null, encryption: null, prefix: '/x/' },
      } as object,
    }),
  ];
  const first = await apply(file);
  expect([first.code, first.err]).toEqual([0, '']);
  const before = await stored();
  const second = await apply(file);
  expect([second.code, second.out, second.err]).toEqual([
    0,
    expect.stringContaining('No change: 3 exports as in the file.'),
    '',
  ]);
  expect(await stored()).toEqual(before);
  // What `export` prints is the same state.
  const { out } = await runCli(['export'], { env });
  const back = await runCli(['apply', '-f', '-'], { env, input: out });
  expect([back.out, back.err]).toEqual([expect.stringContaining('No change: 3 exports'), '']);
});

test('the chain of the project is part of the file, and is applied before the exports', async () => {
  const file = path.join(folder, 'chain.yaml');
  const applyChain = async (transformations: readonly object[], ...args: string[]) => {
    await writeFile(file, stringify({ transformations, exports: [wanted('Masked')] }));
    return runCli(['apply', '-f', file, ...args], { env: { ...env, HASH_SALT: 'canary-salt' } });
  };
  const config = { properties: 'email', salt: `\${HASH_SALT}` };
  const hash = { name: 'Hash', plugin: 'Hash properties', enabled: true, config };
  const drop = { ...hash, name: 'Drop', plugin: 'Drop properties', config: { properties: 'plan' } };
  const first = await applyChain([hash, drop]);
  expect(first).toMatchObject({ code: 0, err: '' });
  expect(first.out).toContain('Transformations: 2 steps created, 0 updated');
  expect((await applyChain([hash, drop])).out).toContain('0 updated, 0 deleted, 2 unchanged.');
  const chain = async () =>
    (await api.get(`${api.project}/pipeline_transformation_configs`)).body.results.map(
      ({ name, enabled, order }) => [name, enabled, order],
    );
  const third = await applyChain([drop, { ...hash, enabled: false }], '--dry-run');
  expect(third.out).toMatch(/^~ update +step Drop \(\d+\): order$/m);
  expect(await chain()).toEqual([
    ['Hash', true, 1],
    ['Drop', true, 2],
  ]);
  await applyChain([drop, { ...hash, enabled: false }]);
  expect(await chain()).toEqual([
    ['Drop', true, 1],
    ['Hash', false, 2],
  ]);
  const exported = await runCli(['export'], { env });
  expect(exported.out).toContain('plugin: Hash properties');
  expect(exported.out).toContain(`\${HASH_SALT}`);
  expect(exported.out).not.toMatch(/canary|\*{4}/);
  const asked = await applyChain([drop], '--prune');
  expect(asked.code).toBe(2);
  expect(asked.err).toMatch(/^Delete 1 step of project \d+ \(.*\) that the file does not have\?/);
  expect(await chain()).toHaveLength(2);
  await applyChain([drop], '--prune', '--yes');
  expect(await chain()).toEqual([['Drop', true, 1]]);
  // A chain that the service refuses holds the exports: none of them may send rows without it.
  const bad = { ...hash, name: 'Bad', config: { properties: 'email', salt: '' } };
  const never = { ...wanted('Never'), transformations: true };
  await writeFile(file, stringify({ transformations: [bad], exports: [never] }));
  const held = await runCli(['apply', '-f', file], { env });
  expect(held.code, held.output).toBe(1);
  expect((await stored()).map(({ name }) => name)).not.toContain('Never');
  const refused = await applyChain([{ ...drop, plugin: 'No such' }]);
  const says = 'transformations[0]: there is no plugin No such.\n';
  expect([refused.code, refused.err]).toEqual([1, says]);
});
