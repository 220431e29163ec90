/** The verbs of an operator, and of notification targets. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { senderTo } from '../../support/notified.ts';
import { type ApiUnderTest, startApiUnderTest } from '../../support/api-under-test.ts';
import { cliEnv, runCli } from '../../support/cli.ts';
import { type Receiver, startReceiver } from '../../support/receiver.ts';
import { exportOfThePast } from '../../support/run-side.ts';
import { storeExport } from '../../support/store-export.ts';
import { createKey } from '../../support/tenants.ts';

let api: ApiUnderTest;
let receiver: Receiver;
let folder: string;
let operatorEnv: Record<string, string>;

beforeAll(async () => {
  receiver = await startReceiver();
  api = await startApiUnderTest({ notifications: senderTo([receiver]) });
  folder = await mkdtemp(path.join(tmpdir(), 'sluice-operator-'));
  const { key } = await createKey(api.db, { organizationId: null });
  operatorEnv = { SLUICE_URL: api.baseUrl, SLUICE_KEY: key };
  const side = { db: api.db, teamId: api.tenant.projectIds[0] };
  const destination = { type: 'S3', config: { bucket_name: 'dead' }, secrets: null };
  for (const _ of Array(3)) await storeExport(api.db, await exportOfThePast(side, { destination }));
  await api.db.query(
    `update batch_exports set failing_since = now(), failing_code = 'destination.bucket_not_found', failing_error = 'gone'`,
  );
});
afterAll(async () => {
  await api?.stop();
  await receiver?.close();
  await rm(folder, { recursive: true, force: true });
});

const operator = (...args: string[]) => runCli(args, { env: operatorEnv });
const owner = (args: readonly string[], env: Readonly<Record<string, string>> = {}) =>
  runCli(args, { env: { ...cliEnv(api), ...env } });

test('status --all and causes show one row for three exports', async () => {
  const status = await operator('status', '--all');
  expect([status.code, status.err]).toEqual([0, '']);
  expect(status.out).toMatch(/Exports {3}3 of all customers/);
  const listed = await operator('causes', '--turn', 'customer');
  expect(listed.out).toMatch(/customer +destination\.bucket_not_found +Acme +3 exports +0 +\S+ .*S3 dead/);
  expect((await operator('causes', 'list', '--customer', 'nobody')).out).toContain('Nothing is wrong');
  const [cause] = JSON.parse((await operator('causes', '--json')).out) as { id: string }[];
  const exports = await operator('causes', 'exports', cause?.id ?? '');
  expect(exports.out.match(/failing/g)).toHaveLength(3);
  // It is the customer's turn: nothing for the operator.
  const checked = await operator('status', '--all', '--check');
  expect(checked.err).not.toContain('needs the operator');
  const refused = await owner(['causes']);
  expect([refused.code, refused.err]).toEqual([4, expect.stringContaining("not an operator's key")]);
});

test('pause, with a dry run and a question, tasks and cancel', async () => {
  const [cause] = JSON.parse((await operator('causes', '--json')).out) as { id: string }[];
  const id = cause?.id ?? '';
  const dry = await operator('causes', 'pause', id, '--dry-run');
  expect(dry.out).toContain('pause: 3 exports of 1 customer');
  expect((await operator('causes', 'tasks')).out).toContain('none');
  // There is no person to ask.
  expect((await operator('causes', 'retry', id)).code).toBe(2);
  const started = await operator('causes', 'pause', id, '--yes', '--json');
  expect(started.err).toBe('');
  const task = JSON.parse(started.out) as { id: string };
  expect((await operator('causes', 'tasks')).out).toMatch(/pause +Running +0\/3/);
  expect((await operator('causes', 'cancel', task.id)).out).toContain('Cancelled');
  expect((await operator('causes', 'probe', '0'.repeat(32), '--yes')).err).toContain(
    'There is no such cause any more',
  );
});

test('notifications: create, list, test, edit, disable, enable, rotate, delete; also of the installation', async () => {
  for (const [run, flags] of [
    [(args: string[]) => owner(args), []],
    [(args: string[]) => operator(...args), ['--installation']],
  ] as const) {
    const call = (...args: string[]) => run(['notifications', ...args, ...flags]);
    const created = await call('create', '--webhook', receiver.url, '--description', 'On-call');
    expect([created.code, created.err]).toEqual([0, '']);
    expect(created.out).toMatch(/secret +whsec_/);
    const [target] = JSON.parse((await call('list', '--json')).out) as { id: string }[];
    const id = target?.id ?? '';
    const before = receiver.received.length;
    expect((await call('test', id)).out).toMatch(/HTTP 204 in \d+ ms/);
    expect(receiver.received.length).toBe(before + 1);
    expect((await call('edit', id, '--events', 'export.failing')).out).toMatch(/export\.failing\n/);
    expect((await call('edit', id, '--events', 'export.nothing')).code).toBe(2);
    expect((await call('edit', id)).code).toBe(2);
    expect((await call('disable', id)).out).toContain('disabled');
    expect((await call('enable', id)).out).toContain('enabled');
    expect((await call('rotate', id)).out).toMatch(/secret +whsec_/);
    expect((await call('delete', id, '--yes')).out).toContain('deleted');
    expect((await call('list')).out).toContain('none');
  }
});

test('apply makes the targets those of the file, and then changes nothing', async () => {
  const file = path.join(folder, 'sluice.yaml');
  const write = (text: string) => writeFile(file, text);
  const env = { HOOK: receiver.url };
  const target = (events: string) =>
    `exports: []\nnotifications:\n  - description: Applied\n    url: \${HOOK}\n    events: [${events}]\n`;
  await write(target('export.failing'));
  const unset = await owner(['apply', '-f', file]);
  expect(unset.err).toContain('notifications[0].url: the environment variable HOOK is not set');
  const dry = await owner(['apply', '-f', file, '--dry-run'], env);
  expect(dry.out).toContain('+ create');
  expect((await owner(['apply', '-f', file], env)).out).toContain('target Applied');
  expect((await owner(['apply', '-f', file], env)).out).toContain('1 unchanged');
  await write(target('export.failing, export.late'));
  expect((await owner(['apply', '-f', file], env)).out).toMatch(/~ update .*Applied .*: events/);
  await write(target('export.late').replace('${HOOK}', 'https://example.com/secret'));
  expect((await owner(['apply', '-f', file], env)).err).toContain('can be a password');
});
