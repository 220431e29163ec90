/** Which exports are verified by VERIFY_SCHEDULE, what is kept of it, and what is reported. */

import { beforeEach, expect, test } from 'vitest';
import type { VerifyResult } from '../../../src/foundation/domain/verification.ts';
import { beginWork, endWork } from '../../../src/state/store/files/guarded-work.ts';
import {
  isVerificationDue,
  listDueVerifications,
  listVerifications,
  readVerifyState,
  storeVerification,
  type VerifyJob,
} from '../../../src/state/store/intervals/verifications.ts';
import {
  createWebhook,
  deliveriesOf,
  forgetNotifications,
  senderTo,
} from '../../support/notified.ts';
import { startReceiver } from '../../support/receiver.ts';
import { openRunSide } from '../../support/run-side.ts';
import { useStage } from '../../support/use-stage.ts';

const receiver = useStage(startReceiver);
/** The time of day of the database, and one that is seven hours earlier. */
let now: string;
let earlier: string;
let id: string;

const side = useStage(openRunSide);
beforeEach(async () => {
  await forgetNotifications(side.db);
  await side.sql`update batch_exports set deleted_at = now()`;
  await side.sql`delete from export_checks`;
  await createWebhook(side, senderTo([receiver]), receiver);
  ({ id } = await side.createExport());
  await side.sql`update batch_exports set created_at = now() - interval '9 days'`;
  const [row] = await side.sql<{ now: string; earlier: string }>`
    select to_char(now() at time zone 'UTC', 'HH24:MI') as now, to_char(now() at time zone 'UTC' - interval '7 hours',
      'HH24:MI') as earlier`;
  now = row?.now ?? '';
  earlier = row?.earlier ?? '';
});

const types = async () => (await deliveriesOf(side.db)).map(({ type }) => type);
const due = () => listDueVerifications(side.db, now);
const found = { intervals: 3, rows: 30, breaches: 1, detail: 'As found.' };

async function dueJob(): Promise<VerifyJob> {
  const jobs = await due();
  expect(jobs).toEqual([{ exportId: id, dueAt: expect.stringMatching(/Z$/) }]);
  return jobs[0] as VerifyJob;
}

async function verifyOnce(result: VerifyResult): Promise<void> {
  const { dueAt } = await dueJob();
  await storeVerification(side.db, dueAt, { exportId: id, result, ...found });
  expect(await due()).toEqual([]);
  await side.sql`update export_checks set verified_at = verified_at - interval '1 day'`;
}

test('an export is due in the six hours after the time of day, until it has a result of the day', async () => {
  expect(await listDueVerifications(side.db, earlier)).toEqual([]);
  const job = await dueJob();
  expect(await isVerificationDue(side.db, job)).toBe(true);
  // A job that waited in the queue until the round was over.
  const [late] = await side.sql<{ dueAt: string }>`
    select api_time(${job.dueAt}::timestamptz - interval '7 hours') as "dueAt"`;
  expect(await isVerificationDue(side.db, { exportId: id, dueAt: late?.dueAt ?? '' })).toBe(false);
  await storeVerification(side.db, job.dueAt, { exportId: id, result: 'proven', ...found });
  expect(await due()).toEqual([]);
  expect(await isVerificationDue(side.db, job)).toBe(false);
  await side.sql`delete from export_checks`;
  await side.sql`update batch_exports set created_at = now()`;
  expect(await due(), 'it was created since').toEqual([]);
});

test('a worker that froze stores nothing over the result of another one', async () => {
  const { dueAt } = await dueJob();
  await storeVerification(side.db, dueAt, { exportId: id, result: 'proven', ...found });
  await storeVerification(side.db, dueAt, { exportId: id, result: 'broken', ...found });
  const { results } = await listVerifications(side.db, 10);
  expect(results).toMatchObject([{ exportId: id, result: 'proven' }]);
  expect(await types()).toEqual([]);
});

test('an export that a process verifies now is not enqueued, and one whose process died is', async () => {
  const work = { kind: 'verify', id } as const;
  const [holder, other] = [crypto.randomUUID(), crypto.randomUUID()];
  expect(await beginWork(side.db, work, holder, 60_000, false)).toBe('begun');
  expect(await due()).toEqual([]);
  await side.sql`update guarded_work set expires_at = now() - interval '1 second'`;
  await dueJob();
  expect(await beginWork(side.db, work, other, 60_000, false)).toBe('begun');
  await endWork(side.db, work, other);
  await dueJob();
  await side.sql`update guarded_work set set_aside_at = now()`;
  expect(await due()).toEqual([]);
  await side.sql`delete from guarded_work`;
});

test('a first result that proves nothing is said too', async () => {
  await verifyOnce('unread');
  expect(await types()).toEqual(['verify.failed']);
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
