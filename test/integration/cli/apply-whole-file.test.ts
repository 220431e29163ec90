/** `sluice apply` with exports of two destinations and a chain in one file. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { readConfig } from '../../../src/foundation/config/config.ts';
import { destinationContextOf } from '../../../src/main/connectors.ts';
import { type ApiUnderTest, startApiUnderTest } from '../../support/api-under-test.ts';
import { cliEnv, runCli } from '../../support/cli.ts';

let api: ApiUnderTest;
let folder: string;
let file: string;
let env: Record<string, string>;

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'sluice-apply-'));
  file = path.join(folder, 'all.yaml');
  api = await startApiUnderTest({
    destinationContext: destinationContextOf(readConfig({ FILE_DESTINATION_ROOT: folder })),
  });
  env = {
    ...cliEnv(api),
    ...{ KEY_ID: 'AKIAIOSFODNN7EXAMPLE', SECRET: 'canary-secret', SALT: 'canary-salt' },
  };
});
afterAll(async () => {
  await api?.stop();
  await rm(folder, { recursive: true, force: true });
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
  expect(changed.out.split('\n').filter((line) => /^[~+-]/.test(line))).toEqual([
    expect.stringMatching(/^~ update {5}step Mask .*: enabled$/),
  ]);
  const without = (all: Whole) => {
    all.transformations.shift();
  };
  const kept = await apply(without);
  expect(kept.out).not.toMatch(/^-/m);
  const pruned = await apply(without, ['--prune', '--yes']);
  expect(pruned.out.split('\n').filter((line) => line.startsWith('-'))).toEqual([
    expect.stringContaining('step Drop'),
  ]);
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
