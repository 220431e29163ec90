import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import type { NotificationSender } from '../../../src/foundation/domain/notification.ts';
import { listDeliveries } from '../../../src/state/store/notifications/notification-deliveries.ts';
import { changeTarget } from '../../../src/service/use-cases/notifications/change-targets.ts';
import { redeliver } from '../../../src/service/use-cases/notifications/deliver.ts';
import {
  type Couriers,
  createWebhook,
  deliveriesOf,
  exportWithRuns,
  forgetNotifications,
  openCouriers,
  senderTo,
  skipWaits,
} from '../../support/notified.ts';
import { type Receiver, startReceiver } from '../../support/receiver.ts';
import { openRunSide, type RunSide } from '../../support/run-side.ts';
import { until } from '../../support/until.ts';

/** Many changes of one type for one target, as one cause makes them. */

const singles = 20;
const storm = 50;

interface Body {
  readonly id: string;
  readonly type: string;
  readonly project_id: number | null;
  readonly data: {
    readonly type: string;
    readonly count: number;
    readonly errors: readonly object[];
    readonly events: readonly { readonly id: string; readonly export: { readonly name: string } }[];
    readonly export?: { readonly name: string };
  };
}

let side: RunSide;
let receiver: Receiver;
let sender: NotificationSender;
let couriers: Couriers;

beforeAll(async () => {
  side = await openRunSide();
  const { id } = await exportWithRuns(side, 1);
  await side.db.query(
    `insert into batch_exports (team_id, name, destination_type, destination_config, "interval", schedule, next_tick_at)
     select team_id, 'Export ' || lpad(n::text, 2, '0'), destination_type, destination_config, "interval", schedule, next_tick_at
       from batch_exports, generate_series(1, ${storm}) n where id = $1`,
    [id],
  );
});
afterAll(() => side?.stop());
beforeEach(async () => {
  receiver = await startReceiver();
  sender = senderTo([receiver], { env: { PUBLIC_URL: 'https://sluice.example.com/' } });
  couriers = openCouriers(side);
});
afterEach(async () => {
  await couriers.closeAll();
  await receiver.close();
  await forgetNotifications(side.db);
});

/** The exports of these numbers change, one after the other. */
async function happen(from: number, to: number, type = 'export.failing') {
  const facts = { error: { code: 'destination.unreachable', detail: 'Down.' } };
  await side.db.query(
    `select notify_targets(id, $1, $2) from (select id from batch_exports where name like 'Export __'
        and substr(name, 8)::int between $3 and $4 order by name) e`,
    [type, JSON.stringify(facts), from, to],
  );
}

/** The minute in which deliveries wait for others is over. */
async function skipGathering() {
  await side.db.query(
    'update notification_deliveries set gathers_until = now() where gathers_until is not null',
  );
}

const bodies = () => receiver.received.map(({ body }) => JSON.parse(body) as Body);
const statusesOf = async (type: string) =>
  (await deliveriesOf(side.db)).filter((each) => each.type === type).map(({ status }) => status);

/** Waits until each request that the receiver got is recorded. */
async function settle() {
  await until(() => couriers.outcomes.length === receiver.received.length);
}

it('twenty are sent one by one, and the rest a minute later in one message that names them', async () => {
  const { target } = await createWebhook(side, sender, receiver);
  await happen(1, storm);
  const courier = couriers.add(sender);
  await until(async () => {
    await courier.collect();
    return receiver.received.length === singles;
  });
  await courier.collect();
  await settle();
  expect(bodies().map(({ type }) => type)).toEqual(Array(singles).fill('export.failing'));

  await skipGathering();
  await courier.collect();
  await until(() => receiver.received.length > singles);
  await settle();
  const digest = bodies().at(-1);
  expect(bodies()).toHaveLength(singles + 1);
  expect(digest).toMatchObject({
    type: 'digest',
    project_id: null,
    data: {
      type: 'export.failing',
      count: storm - singles,
      errors: [{ code: 'destination.unreachable', count: storm - singles }],
      projects: [{ id: side.teamId, count: storm - singles }],
    },
  });
  const ids = [...bodies().slice(0, singles), ...(digest?.data.events ?? [])].map(({ id }) => id);
  expect(new Set(ids).size).toBe(storm);
  expect(digest?.data.events[0]?.export.name).toBe(`Export ${singles + 1}`);
  expect(new Set(await statusesOf('export.failing'))).toEqual(new Set(['delivered']));

  const [carrier] = (await deliveriesOf(side.db)).filter(({ type }) => type === 'digest');
  const page = await listDeliveries(
    side.db,
    target.id,
    { digestId: carrier?.id ?? '', status: null },
    null,
    100,
  );
  expect(page.results.map(({ eventId }) => eventId).toSorted()).toEqual(
    ids.slice(singles).toSorted(),
  );
});

it('a target that wants no digests gets each change by itself, also what waited for others', async () => {
  const { target } = await createWebhook(side, sender, receiver);
  await happen(1, singles + 2);
  const actor = { organizationId: side.tenant.organizationId, keyId: null };
  await changeTarget(side.context, sender, actor, target.id, { digests: false });
  await happen(singles + 3, singles + 4);
  await skipGathering();
  const courier = couriers.add(sender);
  await until(async () => {
    await courier.collect();
    return receiver.received.length === singles + 4;
  });
  expect(new Set(bodies().map(({ type }) => type))).toEqual(new Set(['export.failing']));
});

it('a digest that fails is sent again as it was, and what comes after it waits', async () => {
  await createWebhook(side, sender, receiver);
  await happen(1, singles + 2);
  const courier = couriers.add(sender);
  await until(async () => {
    await courier.collect();
    return receiver.received.length === singles;
  });
  await happen(singles + 1, singles + 1, 'export.recovered');
  await skipGathering();
  await settle();
  receiver.answer(503);
  await courier.collect();
  await until(() => receiver.received.length > singles);
  await settle();
  expect(receiver.received).toHaveLength(singles + 1);
  receiver.answer(204);
  await skipWaits(side.db);
  await until(async () => {
    await courier.collect();
    return receiver.received.length === singles + 3;
  });
  await settle();
  const [failed, again, recovered] = bodies().slice(singles);
  expect(again).toEqual(failed);
  expect([again?.type, again?.data.count, recovered?.type]).toEqual([
    'digest',
    2,
    'export.recovered',
  ]);
  expect(new Set(await statusesOf('export.failing'))).toEqual(new Set(['delivered']));
});

it('one that waited for others alone is sent by itself', async () => {
  await createWebhook(side, sender, receiver);
  await happen(1, singles + 1);
  await skipGathering();
  const courier = couriers.add(sender);
  await until(async () => {
    await courier.collect();
    return receiver.received.length === singles + 1;
  });
  expect(new Set(bodies().map(({ type }) => type))).toEqual(new Set(['export.failing']));
});

it('several workers at once send each change once', async () => {
  await createWebhook(side, sender, receiver);
  await happen(1, storm);
  await skipGathering();
  const all = [1, 2, 3, 4].map(() => couriers.add(sender));
  await until(async () => {
    await Promise.all(all.map((courier) => courier.collect()));
    return (await statusesOf('export.failing')).every((status) => status === 'delivered');
  });
  const ids = bodies().flatMap(({ id, type, data }) =>
    type === 'digest' ? data.events.map((event) => event.id) : [id],
  );
  expect(ids).toHaveLength(storm);
  expect(new Set(ids).size).toBe(storm);
});

it('a digest that is given up gives up all, and each of them can be sent again', async () => {
  const { target } = await createWebhook(side, sender, receiver);
  await happen(1, singles + 2);
  await skipGathering();
  receiver.answer(500);
  const courier = couriers.add(sender);
  await until(async () => {
    await skipWaits(side.db);
    await courier.collect();
    const left = (await deliveriesOf(side.db)).filter(({ status }) => status === 'waiting');
    return left.length === 0;
  });
  expect(new Set(await statusesOf('export.failing'))).toEqual(new Set(['given_up']));
  const before = receiver.received.length;
  receiver.answer(204);
  const carried = (await deliveriesOf(side.db)).filter(({ attempts }) => attempts === 0);
  expect(carried).toHaveLength(2);
  await redeliver(side.context, target, carried[0]?.id ?? '');
  await until(async () => {
    await courier.collect();
    return (await statusesOf('export.failing')).filter((each) => each === 'delivered').length === 1;
  });
  expect(bodies().slice(before)).toMatchObject([{ type: 'export.failing' }]);
});

it('a text for Slack says how many, the first names, the errors and where all are', async () => {
  const [teamId] = side.tenant.projectIds;
  await createWebhook(side, sender, receiver, { format: 'slack', teamId: teamId ?? null });
  await happen(1, storm);
  await skipGathering();
  const courier = couriers.add(sender);
  const texts = () => bodies().map((body) => (body as unknown as { text: string }).text);
  await until(async () => {
    await courier.collect();
    return texts().some((text) => text.startsWith('*30 exports are failing*'));
  });
  const digest = texts().find((text) => text.startsWith('*30 exports'));
  expect(digest).toContain(`"Export 21" (project ${teamId})`);
  expect(digest).toContain('… and 20 more.');
  expect(digest).toContain('Errors: destination.unreachable (30)');
  expect(digest).toContain(`https://sluice.example.com/console/#/${teamId}/?health=failing`);
});
