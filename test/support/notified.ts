import { afterEach } from 'vitest';
import { readConfig } from '../../src/foundation/config/config.ts';
import {
  type NotificationOutcome,
  type NotificationSender,
  type NotificationType,
  notificationTypes,
} from '../../src/foundation/domain/notification.ts';
import type { Policy } from '../../src/foundation/domain/policy.ts';
import { openNotifications } from '../../src/main/notifications.ts';
import type { Database } from '../../src/state/store/database/database.ts';
import {
  createTarget,
  type TargetWithSecret,
} from '../../src/service/use-cases/notifications/targets.ts';
import { NotificationCourier } from '../../src/service/worker/notification-courier.ts';
import { type Receiver, startReceiver } from './receiver.ts';
import { openRunSide, type RunSide } from './run-side.ts';
import { useStage } from './use-stage.ts';

/** What sends to a receiver on 127.0.0.1, which the operator allows. */
export function senderTo(
  receivers: readonly Receiver[],
  { env = {}, timeoutMs }: { env?: Record<string, string>; timeoutMs?: number } = {},
): NotificationSender {
  const allowed = receivers.map(({ endpoint }) => endpoint).join(',');
  return openNotifications(readConfig({ ALLOWED_PRIVATE_ENDPOINTS: allowed, ...env }), timeoutMs);
}

export interface TargetWanted {
  readonly teamId?: number | null;
  readonly organizationId?: string;
  readonly events?: readonly NotificationType[];
  readonly format?: 'json' | 'slack';
}

/** A webhook target of the tenant. */
export function createWebhook(
  side: Pick<RunSide, 'context' | 'tenant'>,
  sender: NotificationSender,
  receiver: Pick<Receiver, 'url'>,
  wanted: TargetWanted = {},
): Promise<TargetWithSecret> {
  const { organizationId = side.tenant.organizationId, teamId = null } = wanted;
  const actor = { organizationId, keyId: null };
  return createTarget(side.context, sender, actor, teamId, {
    kind: 'webhook',
    description: '',
    url: receiver.url,
    format: wanted.format ?? 'json',
    recipients: [],
    events: wanted.events ?? notificationTypes,
    enabled: true,
  });
}

export interface Couriers {
  readonly outcomes: readonly NotificationOutcome[];
  /** A courier of another process. */
  add(sender: NotificationSender): NotificationCourier;
  closeAll(): Promise<void>;
}

/** Couriers whose errors fail the test at its end. */
export function openCouriers(side: Pick<RunSide, 'context'>): Couriers {
  const couriers: NotificationCourier[] = [];
  const outcomes: NotificationOutcome[] = [];
  const errors: unknown[] = [];
  return {
    outcomes,
    add(sender) {
      const courier = new NotificationCourier({
        context: side.context,
        sender,
        onSent: (_, outcome) => outcomes.push(outcome),
        onError: (error) => errors.push(error),
      });
      couriers.push(courier);
      return courier;
    },
    async closeAll() {
      for (const courier of couriers) await courier.close();
      if (errors.length > 0) throw errors[0];
    },
  };
}

export interface DeliveryRow {
  readonly id: string;
  readonly targetId: string;
  readonly type: string;
  readonly exportId: string | null;
  readonly status: string;
  readonly attempts: number;
  readonly facts: Readonly<Record<string, unknown>>;
}

/** All deliveries, in the order of their events. */
export function deliveriesOf(db: Database): Promise<DeliveryRow[]> {
  return db.query<DeliveryRow>(
    `select d.id, d.target_id as "targetId", d.type, d.export_id as "exportId", d.status, d.attempts, d.facts
       from notification_deliveries d
      order by min(d.seq) over (partition by d.event_id), d.target_id`,
  );
}

/** Lets every wait for a next attempt end now. */
export async function skipWaits(db: Database): Promise<void> {
  await db.query(
    `update notification_deliveries set next_attempt_at = now() where status = 'waiting'`,
  );
}

export async function forgetNotifications(db: Database): Promise<void> {
  await db.query('delete from notification_targets');
}

/** A run side, and a receiver that its targets notify. They are forgotten after each test. */
export function useNotified(policy: Partial<Policy> = {}, env: Record<string, string> = {}) {
  const side = useStage(() => openRunSide(policy));
  const receiver = useStage(startReceiver);
  let opened: NotificationSender | null = null;
  const sender = () => {
    opened ??= senderTo([receiver], { env });
    return opened;
  };
  afterEach(() => forgetNotifications(side.db));
  return {
    side,
    receiver,
    sender,
    webhook: (wanted?: TargetWanted) => createWebhook(side, sender(), receiver, wanted),
    types: async () => (await deliveriesOf(side.db)).map(({ type }) => type),
  };
}
