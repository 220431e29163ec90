/** `sluice apply` with exports of two destinations, a chain and notification targets in one file. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { readConfig } from '../../../src/foundation/config/config.ts';
import { destinationContextOf } from '../../../src/main/connectors.ts';
import { type ApiUnderTest, startApiUnderTest } from '../../support/api-under-test.ts';
import { cliEnv, runCli } from '../../support/cli.ts';
import { senderTo } from '../../support/notified.ts';
import { type Receiver, startReceiver } from '../../support/receiver.ts';

let api: ApiUnderTest;
let receiver: Receiver;
let folder: string;
let file: string;
let env: Record<string, string>;

beforeAll(async () => {
  receiver = await startReceiver();
  folder = await mkdtemp(path.join(tmpdir(), 'sluice-apply-'));
  file = path.join(folder, 'all.yaml');
  api = await startApiUnderTest({
    destinationContext: destinationContextOf(readConfig({ FILE_DESTINATION_ROOT: folder })),
    notifications: senderTo([receiver]),
  });
  const secrets = { KEY_ID: 'AKIAIOSFODNN7EXAMPLE', SECRET: 'canary-secret', SALT: 'canary-salt' };
  env = { ...cliEnv(api), ...secrets, HOOK: `${receiver.url}/canary-path` };
});
afterAll(async () => {
  await api?.stop();
  await receiver?.close();
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
  notifications: [
    { description: 'On call', url: `\${HOOK}`, events: ['export.failing', 'export.late'] },
    { description: 'All', url: `\${HOOK}` },
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
  'Notification targets: 0 created, 0 updated, 0 deleted, 2 unchanged.',
  'No change: 2 exports as in the file.',
];
const summaryOf = ({ out }: { readonly out: string }) => out.trimEnd().split('\n').slice(-3);

test('the same file twice changes nothing, one change changes one thing, and what is gone is pruned', async () => {
  const created = await apply();
  expect([created.code, created.err]).toEqual([0, '']);
  expect(summaryOf(await apply())).toEqual(unchanged);
  const changed = await apply((all) => {
    all.notifications[0] = { ...all.notifications[0], events: ['export.failing'] } as never;
  });
  expect(changed.out.split('\n').filter((line) => /^[~+-]/.test(line))).toEqual([
    expect.stringMatching(/^~ update {5}target On call .*: events$/),
  ]);
  const without = (all: Whole) => {
    all.transformations.shift();
    all.notifications.pop();
  };
  const kept = await apply(without);
  expect(kept.out).not.toMatch(/^-/m);
  const pruned = await apply(without, ['--prune', '--yes']);
  expect(pruned.out.split('\n').filter((line) => line.startsWith('-'))).toEqual([
    expect.stringContaining('step Drop'),
    expect.stringContaining('target All'),
  ]);
  expect(summaryOf(await apply(without, ['--prune', '--yes']))).toEqual([
    'Transformations: 0 steps created, 0 updated, 0 deleted, 1 unchanged.',
    'Notification targets: 0 created, 0 updated, 0 deleted, 1 unchanged.',
    'No change: 2 exports as in the file.',
  ]);
});

test('mistakes in three places are reported in one go, and nothing is changed', async () => {
  await apply();
  const names = await apply((all) => {
    Object.assign(all.exports[1] ?? {}, { intervall: 'day' });
    Object.assign(all.transformations[0] ?? {}, { plugin: 'Drop propertiez' });
    Object.assign(all.notifications[0] ?? {}, { urll: 'x' });
  });
  expect([names.code, names.out]).toEqual([1, '']);
  expect(names.err).toContain('exports[1] (To S3): intervall is not a field.');
  expect(names.err).toContain('transformations[0]: there is no plugin Drop propertiez.');
  expect(names.err).toContain('notifications[0].urll is not a field.');
  const values = await apply((all) => {
    Object.assign(all.exports[0]?.destination.config ?? {}, { file_format: 'XML' });
    Object.assign(all.exports[1] ?? {}, { interval: 'daily' });
    Object.assign(all.transformations[0]?.config ?? {}, { propertis: 'plan' });
    Object.assign(all.notifications[0] ?? {}, { events: ['export.lat'], format: 'xml' });
  });
  expect([values.code, values.out]).toEqual([1, '']);
  expect(values.err.split('\n').map((line) => line.slice(0, 100))).toEqual([
    expect.stringContaining('destination.config.file_format must be one of'),
    expect.stringContaining('interval must be one of hour, day'),
    expect.stringContaining('transformations[0].config.propertis is not a field.'),
    expect.stringContaining('notifications[0].format: unknown xml. Use json'),
    expect.stringContaining('notifications[0].events: unknown export.lat. Use'),
    '',
  ]);
  expect(summaryOf(await apply())).toEqual(unchanged);
});

test('what only the service refuses is named by step and target, and no export runs without its mask', async () => {
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
  const target = await apply((all) => {
    all.notifications.push({ description: 'Odd', url: `\${SLUICE_PROJECT}` });
    Object.assign(all.exports[0] ?? {}, { interval: 'day' });
  });
  expect([target.code, target.err]).toEqual([1, expect.stringMatching(/^target Odd: url: /)]);
  expect(target.out).toContain(
    'Notification targets: 0 created, 0 updated, 0 deleted, 2 unchanged.',
  );
  expect(target.out).toContain('0 created, 1 updated, 0 deleted, 1 unchanged.');
});

test('a new target is named although a step is refused, so that its secret can be got', async () => {
  await apply();
  const refused = await apply((all) => {
    Object.assign(all.transformations[0] ?? {}, { name: 'New', config: { properties: '' } });
    all.notifications.push({ description: 'Third', url: `\${HOOK}` });
  });
  expect(refused.code).toBe(1);
  expect(refused.out).toContain(
    'Notification targets: 1 created, 0 updated, 0 deleted, 2 unchanged.',
  );
  expect(refused.out).toMatch(/Third is not shown\. To get one: `sluice notifications rotate \S+`/);
});

test('the answer as JSON has no secret, also if secrets are sent', async () => {
  for (const args of [['--json', '--dry-run'], ['--json']]) {
    const { code, out } = await apply(() => {}, ['--secrets', ...args]);
    expect([code, Object.keys(JSON.parse(out))]).toEqual([
      0,
      ['exports', 'transformations', 'notifications'],
    ]);
  }
});
