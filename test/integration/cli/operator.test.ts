import { beforeAll, expect, test } from 'vitest';
import { canonicalBytes } from '../../../src/foundation/domain/canonical-json.ts';
import { senderTo } from '../../support/notified.ts';
import { startApiUnderTest } from '../../support/api-under-test.ts';
import { cliEnv, runCli } from '../../support/cli.ts';
import { startReceiver } from '../../support/receiver.ts';
import { exportOfThePast } from '../../support/run-side.ts';
import { storeExport } from '../../support/store-export.ts';
import { createKey } from '../../support/tenants.ts';
import { useStage } from '../../support/use-stage.ts';

const receiver = useStage(startReceiver);
const api = useStage(() => startApiUnderTest({ notifications: senderTo([receiver]) }));
let operatorEnv: Record<string, string>;

beforeAll(async () => {
  const { key } = await createKey(api.db, { organizationId: null });
  operatorEnv = { SLUICE_URL: api.baseUrl, SLUICE_KEY: key };
  const side = { db: api.db, teamId: api.teamId };
  const destination = { type: 'S3', config: { bucket_name: 'dead' }, secrets: null };
  for (const _ of Array(3)) await storeExport(api.db, await exportOfThePast(side, { destination }));
  await api.sql`
    update batch_exports set failing_since = now(), failing_code = 'destination.bucket_not_found', failing_error = 'gone'`;
  // Nothing is wrong with this one.
  await storeExport(api.db, await exportOfThePast(side, { destination }));
});

const noCause = /^There is no such cause any more/;
/** The id of the first cause. */
async function findCause(): Promise<string> {
  const [cause] = JSON.parse((await operator('causes', '--json')).out) as { id: string }[];
  return cause?.id ?? '';
}

const operator = (...args: string[]) => runCli(args, { env: operatorEnv });
const owner = (args: readonly string[]) => runCli(args, { env: cliEnv(api) });

test('status --all and causes show one row for three exports', async () => {
  const status = await operator('status', '--all');
  expect([status.code, status.err]).toEqual([0, '']);
  expect(status.out).toMatch(/Exports {3}4 of all customers/);
  const listed = await operator('causes', '--turn', 'customer');
  expect(listed.out).toMatch(
    /customer +destination\.bucket_not_found +Acme +3 exports +0 +\S+ .*S3 dead/,
  );
  expect((await operator('causes', '--turn', 'ours')).out).toContain('Nothing is wrong');
  const unheard = await operator('causes', 'list', '--customer', 'no such customer');
  expect(unheard.out).toContain('Nothing is wrong');
  const unknown = await operator('causes', 'exports', 'f'.repeat(32));
  expect([unknown.code, unknown.err]).toEqual([1, expect.stringMatching(noCause)]);
  const exports = await operator('causes', 'exports', await findCause());
  expect(exports.out.match(/^failing/gm)).toHaveLength(3);
  expect(exports.out).not.toMatch(/^fine/m);
  // It is the customer's turn: nothing for the operator.
  expect((await operator('status', '--all', '--check')).err).not.toContain('needs the operator');
  const refused = await owner(['causes']);
  const says = expect.stringContaining("not an operator's key");
  expect([refused.code, refused.err]).toEqual([4, says]);
});

test('pause, with a dry run and a question', async () => {
  const id = await findCause();
  const dry = await operator('causes', 'pause', id, '--dry-run');
  expect(dry.out).toBe('pause: 3 exports of 1 customer\n');
  // A retry also exports what a pause of Sluice missed, which no number of missing intervals has.
  const pausing = (reason: string | null) =>
    api.sql`
      update batch_exports set paused = ${reason}::text is not null, paused_reason = ${reason}
        where failing_since is not null`;
  await pausing('gone');
  expect((await operator('causes', 'retry', id, '--dry-run')).out).toContain(
    '3 paused exports of them continue, and also export what the pause missed',
  );
  await pausing(null);
  // There is no person to ask.
  expect((await operator('causes', 'retry', id)).code).toBe(2);
  expect((await operator('causes', 'probe', '0'.repeat(32), '--yes')).err).toMatch(noCause);
});

test('notifications of the installation: create, list, test, edit, disable, enable, rotate, delete', async () => {
  const call = (...args: string[]) => operator('notifications', ...args, '--installation');
  const created = await call('create', '--webhook', receiver.url, '--description', 'On-call');
  expect([created.code, created.err]).toEqual([0, '']);
  expect(created.out).toMatch(/On-call +all\nsecret +whsec_/);
  const [target] = JSON.parse((await call('list', '--json')).out) as { id: string }[];
  const id = target?.id ?? '';
  const before = receiver.received.length;
  expect((await call('test', id)).out).toMatch(/HTTP 204 in \d+ ms/);
  expect(receiver.received.length).toBe(before + 1);
  const [delivery] = JSON.parse((await call('deliveries', id, '--json')).out);
  expect(delivery).toMatchObject({ event_type: 'test', status: 'delivered', attempts: 1 });
  expect((await call('deliveries', id)).out).toMatch(/ test +delivered +1 +HTTP 204 /);
  expect((await call('deliveries', id, '--status', 'given_up')).out).toBe('none\n');
  expect((await call('edit', id, '--events', 'export.failing')).out).toMatch(/export\.failing\n/);
  expect((await call('edit', id, '--events', 'export.nothing')).code).toBe(2);
  expect((await call('edit', id)).code).toBe(2);
  expect((await call('disable', id)).out).toContain('disabled');
  expect((await call('enable', id)).out).toContain('enabled');
  expect((await call('rotate', id)).out).toMatch(/secret +whsec_/);
  expect((await call('delete', id, '--yes')).out).toContain('deleted');
  expect((await call('list')).out).toContain('none');
});

test('delivery-record prints what is signed, or a page', async () => {
  const signed = await owner(['delivery-record', '--month', '2024-03']);
  expect([signed.code, signed.err]).toEqual([0, '']);
  const record = JSON.parse(signed.out);
  expect(record).toMatchObject({ type: 'sluice.delivery.v1', month: '2024-03' });
  expect(`${canonicalBytes(record)}\n`).toBe(signed.out);
  expect((await owner(['delivery-record', '--html'])).out).toContain('<h1>Delivery record</h1>');
  expect((await owner(['delivery-record', '--month', 'long'])).err).toContain('month');
});

test('status --all --check counts causes that the screen does not have', async () => {
  const side = { db: api.db, teamId: api.teamId };
  expect((await operator('status', '--all', '--check')).code).toBe(0);
  for (let index = 0; index <= 20; index += 1) {
    const destination = { type: 'S3', config: { bucket_name: `b-${index}` }, secrets: null };
    const stored = await storeExport(api.db, await exportOfThePast(side, { destination }));
    await api.sql`
      update batch_exports set failing_since = now(),
        failing_code = ${index < 20 ? 'destination.bucket_not_found' : 'internal.unexpected'}, failing_error = 'gone'
        where id = ${stored?.id}`;
  }
  const checked = await operator('status', '--all', '--check');
  expect(checked.out).not.toContain('internal.unexpected');
  expect([checked.code, checked.err]).toEqual([1, 'Something needs the operator.\n']);
});

test('the first key needs no other, and the family that is gone names the one that stays', async () => {
  const args = ['keys', 'create', '--operator', '--scopes', '*', '--name', 'first', '--json'];
  const made = await runCli(args, { env: { DATABASE_URL: api.databaseUrl } });
  expect(made.code, made.output).toBe(0);
  const env = { ...operatorEnv, SLUICE_KEY: JSON.parse(made.out).key };
  const listed = await runCli(['keys', 'list', '--operator', '--json'], { env });
  expect(JSON.parse(listed.out)).toContainEqual(expect.objectContaining({ name: 'first' }));
  const none = '00000000-0000-4000-8000-000000000000';
  const both = await operator('keys', 'list', '--operator', '--organization', none);
  expect([both.code, both.output]).toEqual([2, expect.stringContaining('either --organization')]);
  const gone = await operator('admin', 'organizations', 'create', '--name', 'Acme');
  expect([gone.code, gone.output]).toEqual([2, expect.stringContaining('Leave out "admin"')]);
  const late = ['--name', 'late', '--expires-at', '2024-01-01', '--scopes', '*'];
  const ended = await operator('keys', 'create', '--operator', ...late);
  expect([ended.code, ended.output]).toEqual([1, expect.stringContaining('is in the past')]);
});
