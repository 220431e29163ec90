import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { NotificationSender } from '../../../src/foundation/domain/notification.ts';
import { claimDeliveries } from '../../../src/state/store/notifications/notification-deliveries.ts';
import { rotateSecret } from '../../../src/service/use-cases/notifications/targets.ts';
import { deliver } from '../../../src/service/use-cases/notifications/deliver.ts';
import {
  type Couriers,
  createWebhook,
  deliveriesOf,
  forgetNotifications,
  openCouriers,
  senderTo,
  skipWaits,
} from '../../support/notified.ts';
import { type Receiver, startReceiver } from '../../support/receiver.ts';
import { openRunSide } from '../../support/run-side.ts';
import { createTenant } from '../../support/tenants.ts';
import { until } from '../../support/until.ts';
import { useStage } from '../../support/use-stage.ts';

let receiver: Receiver;
let sender: NotificationSender;
let couriers: Couriers;
let exportId: string;

const side = useStage(openRunSide);
beforeAll(async () => {
  exportId = (await side.exportWithRuns(1)).id;
});
beforeEach(async () => {
  receiver = await startReceiver();
  sender = senderTo([receiver]);
  couriers = openCouriers(side);
});
afterEach(async () => {
  await couriers.closeAll();
  await receiver.close();
  await forgetNotifications(side.db);
});

/** An event, as a trigger records it. */
async function happen(facts: object = {}, about = exportId, type = 'export.failing') {
  await side.sql`select notify_targets(${about}, ${type}, ${JSON.stringify(facts)})`;
}

const statuses = async () => (await deliveriesOf(side.db)).map(({ status }) => status);
const allAre = (status: string) => async () => (await statuses()).every((each) => each === status);
const factsOf = ({ body }: { readonly body: string }) =>
  (JSON.parse(body) as { data: { n?: number } }).data.n;

/** A webhook to the receiver, and a process that sends what happens. */
async function openHook() {
  const hook = await createWebhook(side, sender, receiver);
  return { ...hook, courier: couriers.add(sender) };
}
/** Looks once for what to send, and waits until as many attempts have ended. */
async function send(courier: ReturnType<Couriers['add']>, outcomes: number) {
  await courier.collect();
  await until(() => couriers.outcomes.length === outcomes);
}

const lease = { limit: 10, perOrganization: 10, leaseMs: 60_000 };

describe('a delivery', () => {
  it('is sent once, however many workers there are', async () => {
    await createWebhook(side, sender, receiver);
    const all = [1, 2, 3, 4].map(() => couriers.add(sender));
    const exports = await Promise.all([1, 2, 3].map(() => side.exportWithRuns(1)));
    for (const n of [1, 2, 3, 4, 5]) {
      for (const { id } of exports) await happen({ n }, id);
    }
    const collectAll = () => Promise.all(all.map((courier) => courier.collect()));
    await until(async () => {
      await collectAll();
      return allAre('delivered')();
    });
    expect(receiver.received).toHaveLength(15);
    const ids = receiver.received.map(({ headers }) => headers['webhook-id']);
    expect(new Set(ids).size).toBe(15);
  });

  it('of an export comes after those before it, also after a failure', async () => {
    const { courier } = await openHook();
    receiver.answer(503);
    for (const n of [1, 2, 3]) await happen({ n });
    await send(courier, 1);
    receiver.answer(204);
    // The first one waits for its next attempt, and the others wait for the first.
    await courier.collect();
    expect(receiver.received.map(factsOf)).toEqual([1]);
    await skipWaits(side.db);
    await courier.collect();
    await until(allAre('delivered'));
    expect(receiver.received.map(factsOf)).toEqual([1, 1, 2, 3]);
    const answers = couriers.outcomes.map(({ answer }) => answer);
    expect(answers).toEqual(['HTTP 503', 'HTTP 204', 'HTTP 204', 'HTTP 204']);
  });

  it('of another export is not delayed by it', async () => {
    const { courier } = await openHook();
    const other = await side.exportWithRuns(1);
    receiver.answer((response, { body }) => {
      response.writeHead(body.includes(exportId) ? 500 : 204).end();
    });
    await happen();
    await happen({}, other.id);
    await send(courier, 2);
    expect((await statuses()).sort()).toEqual(['delivered', 'waiting']);
  });

  it('is given up after its last attempt, each with the same id', async () => {
    const { courier } = await openHook();
    receiver.answer(500);
    await happen();
    await until(async () => {
      await skipWaits(side.db);
      await courier.collect();
      return (await statuses())[0] === 'given_up';
    });
    const [delivery] = await deliveriesOf(side.db);
    expect(delivery?.attempts).toBe(11);
    const ids = receiver.received.map(({ headers }) => headers['webhook-id']);
    expect(ids).toHaveLength(11);
    expect(new Set(ids).size).toBe(1);
  });

  it('of a process that died is sent by another one, once its lease has ended', async () => {
    const { courier } = await openHook();
    await happen();
    expect(await claimDeliveries(side.db, 'webhook', lease)).toHaveLength(1);
    await courier.collect();
    expect(receiver.received).toEqual([]);
    await side.sql`update notification_deliveries set leased_until = now() - interval '1 s'`;
    await courier.collect();
    await until(allAre('delivered'));
    expect(receiver.received).toHaveLength(1);
  });

  it('is left alone by a process that was frozen for an hour', async () => {
    await createWebhook(side, sender, receiver);
    await happen();
    const [claimed] = await claimDeliveries(side.db, 'webhook', lease);
    if (!claimed) throw new Error('nothing was claimed');
    // The clock of a process begins at 0.
    const anHourAgo = -3_600_000;
    expect(await deliver(side.context, sender, claimed, anHourAgo, 0)).toBeNull();
    expect(receiver.received).toEqual([]);

    // Frozen after it sent: another process has taken the delivery, and has failed.
    await side.sql`update notification_deliveries set leased_until = now() - interval '1 s'`;
    const [second] = await claimDeliveries(side.db, 'webhook', lease);
    expect(second?.id).toBe(claimed.id);
    await deliver(side.context, sender, claimed, performance.now(), 0);
    const [row] = await deliveriesOf(side.db);
    expect(row?.status).toBe('waiting');
    // What it sent carries the time of its claim, so that a receiver can refuse it.
    expect(receiver.received[0]?.headers['webhook-timestamp']).toBe(String(claimed.claimedAt));
  });
});

describe('a receiver', () => {
  it('gets signatures by the new and the previous secret after a rotation', async () => {
    const created = await createWebhook(side, sender, receiver);
    const rotated = await rotateSecret(side.context, side.actor, created.target.id);
    expect(rotated.secret).not.toBe(created.secret);
    const courier = couriers.add(sender);
    const signatures = async () => {
      await happen();
      await courier.collect();
      await until(allAre('delivered'));
      return receiver.received.at(-1)?.headers['webhook-signature']?.split(' ');
    };
    expect(await signatures()).toHaveLength(2);
    await side.sql`update notification_targets set previous_secret_until = now() - interval '1 s'`;
    expect(await signatures()).toHaveLength(1);
  });

  it('is not followed to where it redirects, and its answer is not read', async () => {
    const { courier } = await openHook();
    receiver.answer((response) => {
      response.writeHead(302, { location: '/elsewhere' });
      response.write('x'.repeat(1_000));
    });
    await happen();
    await send(courier, 1);
    expect(couriers.outcomes[0]).toMatchObject({ delivered: false, answer: 'HTTP 302' });
    expect(receiver.received.map(({ path }) => path)).toEqual(['/hooks/sluice']);
  });

  it('that never answers, or drips, holds no slot of another tenant', async () => {
    const hurried = senderTo([receiver], { timeoutMs: 700 });
    const drips: NodeJS.Timeout[] = [];
    receiver.answer((response) => {
      // A header that never ends, byte by byte.
      response.socket?.write('HTTP/1.1 200 OK\r\nx: ');
      drips.push(setInterval(() => response.socket?.write('x'), 20));
    });
    const slow = await startReceiver();
    const quick = senderTo([slow], { timeoutMs: 700 });
    const other = await createTenant(side.db);
    const [team] = other.projectIds;
    for (const _ of Array(20)) await createWebhook(side, hurried, receiver);
    await createWebhook(side, quick, slow, { organizationId: other.organizationId });
    const theirs = await side.exportWithRuns(1, team);
    // Theirs happened first, and there are five times as many as one tenant may have in progress.
    await happen();
    await happen({}, theirs.id);
    const courier = couriers.add(senderTo([receiver, slow], { timeoutMs: 700 }));
    await courier.collect();
    const [underWay] = await side.sql<{ n: number }>`
      select count(*) as n from notification_deliveries where organization_id = ${side.tenant.organizationId}
        and leased_until > now()`;
    expect(underWay?.n).toBe(4);
    await until(() => slow.received.length === 1);
    await until(() => couriers.outcomes.filter(({ delivered }) => !delivered).length >= 8);
    const dripped = couriers.outcomes.filter(({ delivered }) => !delivered);
    expect(new Set(dripped.map(({ answer }) => answer))).toEqual(new Set(['timeout']));
    for (const drip of drips) clearInterval(drip);
    await receiver.close();
    await couriers.closeAll();
    await slow.close();
    receiver = await startReceiver();
  });

  it('that fails for five days is disabled, with the reason, and what waits for it ends', async () => {
    const { courier } = await openHook();
    receiver.answer(500);
    await happen();
    await happen();
    await send(courier, 1);
    const stateOf = async () => {
      const [row] = await side.sql<{ enabled: boolean; reason: string; since: string }>`
        select enabled, disabled_reason as reason, failing_since as since from notification_targets`;
      return row;
    };
    expect(await stateOf()).toMatchObject({ enabled: true, reason: null });
    expect((await stateOf())?.since).not.toBeNull();
    await side.sql`
      update notification_targets set failing_since = now() - interval '5 days 1 second'`;
    await skipWaits(side.db);
    await courier.collect();
    await until(async () => (await stateOf())?.enabled === false);
    expect((await stateOf())?.reason).toContain('5 days; the last answer was: HTTP 500');
    await until(allAre('cancelled'));
    await happen();
    expect(await statuses()).toHaveLength(2);
  });

  it('at a private address gets nothing', async () => {
    const strict = senderTo([]);
    // It was stored while the operator allowed it.
    const earlier = { ...strict, refusalOf: () => null };
    for (const host of ['127.0.0.1:9/', '169.254.169.254/latest', '[::1]/']) {
      const url = `https://${host}`;
      await createWebhook(side, earlier, { url }, { events: ['export.failing'] });
    }
    const courier = couriers.add(strict);
    await happen();
    await send(courier, 3);
    const answers = couriers.outcomes.map(({ answer }) => answer);
    expect(answers).toEqual(Array(3).fill('endpoint_forbidden'));
  });
});
