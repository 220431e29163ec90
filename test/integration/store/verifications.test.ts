/** Which worker verifies by VERIFY_SCHEDULE, what is kept of it, and what is reported. */

import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import type { VerifyResult } from '../../../src/foundation/domain/verification.ts';
import {
  endVerifyTurn,
  listUnverified,
  listVerifications,
  noteBegun,
  noteHandedBack,
  readVerifyState,
  storeVerification,
  takeVerifyTurn,
} from '../../../src/state/store/intervals/verifications.ts';
import {
  createWebhook,
  deliveriesOf,
  forgetNotifications,
  senderTo,
} from '../../support/notified.ts';
import { type Receiver, startReceiver } from '../../support/receiver.ts';
import { createExportOfThePast, openRunSide, type RunSide } from '../../support/run-side.ts';

let side: RunSide;
let receiver: Receiver;
/** The time of day of the database, and one that is seven hours earlier. */
let now: string;
let earlier: string;
let id: string;

beforeAll(async () => {
  side = await openRunSide();
  receiver = await startReceiver();
  await createWebhook(side, senderTo([receiver]), receiver);
});
afterAll(async () => {
  await receiver?.close();
  await side?.stop();
});
beforeEach(async () => {
  await forgetNotifications(side.db);
  await side.db.query('update batch_exports set deleted_at = now()');
  await side.db.query('delete from verifications');
  await side.db.query(
    'update verify_turn set lease = null, leased_until = null, began_at = null, ended_at = null',
  );
  await createWebhook(side, senderTo([receiver]), receiver);
  ({ id } = await createExportOfThePast(side));
  const [row] = await side.db.query<{ now: string; earlier: string }>(
    `select to_char(now() at time zone 'UTC', 'HH24:MI') as now, to_char(now() at time zone 'UTC' - interval '7 hours', 'HH24:MI') as earlier`,
  );
  now = row?.now ?? '';
  earlier = row?.earlier ?? '';
});

const types = async () => (await deliveriesOf(side.db)).map(({ type }) => type);
const expire = () =>
  side.db.query(`update verify_turn set leased_until = now() - interval '1 second'`);

async function take(at = now) {
  const turn = await takeVerifyTurn(side.db, at);
  if (!turn) throw new Error('it was not due');
  return turn;
}

async function verifyOnce(result: VerifyResult): Promise<void> {
  const { lease, dueAt } = await take();
  expect(await listUnverified(side.db, dueAt)).toEqual([id]);
  expect(await noteBegun(side.db, lease, id)).toBe(true);
  const found = { exportId: id, result, intervals: 3, rows: 30, breaches: 1, detail: 'As found.' };
  await storeVerification(side.db, lease, found);
  expect(await listUnverified(side.db, dueAt)).toEqual([]);
  await endVerifyTurn(side.db, lease, true);
  await side.db.query(`update verifications set verified_at = now() - interval '1 day'`);
  await side.db.query('update verify_turn set ended_at = null');
}

test('one worker has the turn, in the six hours after its time, once a day', async () => {
  expect(await takeVerifyTurn(side.db, earlier)).toBeNull();
  const { lease, leftMs } = await take();
  expect(leftMs).toBeGreaterThan(5.9 * 3_600_000);
  expect(await takeVerifyTurn(side.db, now)).toBeNull();
  await endVerifyTurn(side.db, lease, false);
  // It was stopped: another worker goes on.
  const next = await take();
  await endVerifyTurn(side.db, next.lease, true);
  expect(await takeVerifyTurn(side.db, now)).toBeNull();
  expect((await readVerifyState(side.db)).ageSeconds).toBeLessThan(60);
});

test('a worker that froze and has lost its turn stores nothing', async () => {
  const { lease } = await take();
  await noteBegun(side.db, lease, id);
  await expire();
  const other = await take();
  const found = { exportId: id, intervals: 0, rows: 0, breaches: 0, detail: '' };
  await storeVerification(side.db, lease, { ...found, result: 'broken' });
  expect(await noteBegun(side.db, lease, id)).toBe(false);
  await endVerifyTurn(side.db, lease, true);
  const { count } = await listVerifications(side.db, null, { limit: 10, offset: 0 });
  expect(count).toBe(0);
  expect(await noteBegun(side.db, other.lease, id)).toBe(true);
});

test('an export that ends its process twice is not read, and the others go on', async () => {
  for (let n = 0; n < 2; n += 1) {
    const { lease, dueAt } = await take();
    expect(await listUnverified(side.db, dueAt)).toEqual([id]);
    await noteBegun(side.db, lease, id);
    await endVerifyTurn(side.db, lease, false);
  }
  const { lease, dueAt } = await take();
  expect(await listUnverified(side.db, dueAt)).toEqual([]);
  const { results } = await listVerifications(side.db, ['unread'], { limit: 10, offset: 0 });
  expect(results).toMatchObject([{ exportId: id, detail: expect.stringContaining('twice') }]);
  expect(await types()).toEqual(['verify.failed']);
  await endVerifyTurn(side.db, lease, true);
});

test('a worker that is stopped in the middle counts for nothing', async () => {
  for (let n = 0; n < 3; n += 1) {
    const { lease, dueAt } = await take();
    expect(await listUnverified(side.db, dueAt)).toEqual([id]);
    await noteBegun(side.db, lease, id);
    await noteHandedBack(side.db, lease, id);
    await endVerifyTurn(side.db, lease, false);
  }
  expect(await types()).toEqual([]);
});

test('says once that an export is not proven, since when, and once that it is proven again', async () => {
  await verifyOnce('nothing_yet');
  await verifyOnce('proven');
  expect(await types()).toEqual([]);
  await verifyOnce('broken');
  await verifyOnce('unread');
  expect(await types()).toEqual(['verify.failed']);
  const [event] = await deliveriesOf(side.db);
  expect(event?.facts).toMatchObject({
    result: 'broken',
    breaches: 1,
    detail: 'As found.',
    failed_since: expect.stringMatching(/Z$/),
  });
  expect((await readVerifyState(side.db)).failed).toBe(1);
  await verifyOnce('incomplete');
  expect(await types()).toEqual(['verify.failed', 'verify.passed']);
  expect((await readVerifyState(side.db)).failed).toBe(0);
});
