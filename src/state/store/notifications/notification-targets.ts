import type {
  NotificationType,
  TargetKind,
  WebhookFormat,
} from '../../../foundation/domain/notification.ts';
import type { Timestamp } from '../../../foundation/domain/time.ts';
import type { Sql } from '../database/database.ts';
import {
  command,
  inPages,
  queryAny,
  queryFirst,
  queryNumber,
  queryOne,
  queryRows,
} from '../database/statement.ts';
import type { Reach } from '../tenants/tenants.ts';

/** The settings of a target that a request can change. */
export interface TargetSettings {
  readonly description: string;
  /** The part of a webhook's URL that is shown. */
  readonly urlPreview: string | null;
  readonly format: WebhookFormat;
  readonly recipients: readonly string[];
  readonly events: readonly NotificationType[];
  readonly enabled: boolean;
  /** URL and signing secrets, sealed; null for e-mail. */
  readonly secrets: Buffer | null;
}

export interface NotificationTarget extends TargetSettings {
  readonly id: string;
  readonly organizationId: string;
  /** Null: all projects of the organization. */
  readonly teamId: number | null;
  readonly kind: TargetKind;
  /** Why Sluice disabled it; null if it is enabled, or a person disabled it. */
  readonly disabledReason: string | null;
  /** Until then the previous secret signs too; null if there is none. */
  readonly previousSecretUntil: Timestamp | null;
  /** Since when each attempt has failed. */
  readonly failingSince: Timestamp | null;
  readonly createdAt: Timestamp;
  readonly lastUpdatedAt: Timestamp;
}

export type NewTarget = TargetSettings &
  Pick<NotificationTarget, 'id' | 'organizationId' | 'teamId' | 'kind'>;

const columns = `t.id, t.organization_id as "organizationId", t.team_id as "teamId", t.kind, t.description,
  t.url_preview as "urlPreview", t.format, t.recipients, t.events, t.enabled, t.secrets,
  t.disabled_reason as "disabledReason",
  case when t.previous_secret_until > now() then t.previous_secret_until end as "previousSecretUntil",
  t.failing_since as "failingSince", t.created_at as "createdAt", t.last_updated_at as "lastUpdatedAt"`;

const settingColumns = 'description, url_preview, format, recipients, events, enabled, secrets';
const settingParameters =
  '$2::text, $3::text, $4::text, $5::text[], $6::text[], $7::boolean, $8::bytea';
const valuesOf = (settings: TargetSettings): readonly unknown[] => [
  settings.description,
  settings.urlPreview,
  settings.format,
  settings.recipients,
  settings.events,
  settings.enabled,
  settings.secrets,
];

/** A project sees its own targets, an organization all of its projects' too. `$1`, `$2` are `reachValues`. */
const inReach = `t.organization_id = $1 and ($2::int is null or t.team_id = $2)`;
const reachValues = ({ organizationId, teamId }: Reach) => [organizationId, teamId];

export const findNotificationTarget = queryFirst<NotificationTarget, [reach: Reach, id: string]>(
  `select ${columns} from notification_targets t where ${inReach} and t.id = $3`,
  (reach, id) => [...reachValues(reach), id],
);

export const listNotificationTargets = inPages(
  queryNumber(`select count(*) from notification_targets t where ${inReach}`, reachValues),
  queryRows<NotificationTarget, [reach: Reach, limit: number, offset: number]>(
    `select ${columns} from notification_targets t where ${inReach}
      order by t.created_at desc, t.id desc limit $3 offset $4`,
    (reach, limit, offset) => [...reachValues(reach), limit, offset],
  ),
);

/** Targets of an organization. Two transactions that ask wait for each other. */
export async function countTargetsLocked(tx: Sql, organizationId: string): Promise<number> {
  await tx.query('select from organizations where id = $1 for no key update', [organizationId]);
  const [row] = await tx.query<{ count: number }>(
    'select count(*) from notification_targets where organization_id = $1',
    [organizationId],
  );
  return row?.count ?? 0;
}

export const insertTarget = queryOne<NotificationTarget, [target: NewTarget]>(
  `insert into notification_targets as t (organization_id, team_id, kind, id, ${settingColumns})
     values ($9, $10, $11, $1, ${settingParameters}) returning ${columns}`,
  (target) => [target.id, ...valuesOf(target), target.organizationId, target.teamId, target.kind],
);

/** Locks a target until the transaction ends; null if it was deleted. */
export const lockTarget = queryFirst<NotificationTarget, [id: string]>(
  `select ${columns} from notification_targets t where t.id = $1 for no key update`,
);

/** Writes all settings of a target that the transaction has locked. To enable it again forgets its failures. */
export const updateTarget = queryOne<NotificationTarget, [id: string, settings: TargetSettings]>(
  `update notification_targets t
        set (${settingColumns}) = row (${settingParameters}),
            disabled_reason = case when $7 then null else t.disabled_reason end,
            failing_since = case when $7 and not t.enabled then null else failing_since end,
            last_updated_at = clock_timestamp()
      where t.id = $1 returning ${columns}`,
  (id, settings) => [id, ...valuesOf(settings)],
);

/** The previous one among them signs for `graceHours` more. */
export const storeRotatedSecret = queryOne<
  NotificationTarget,
  [id: string, secrets: Buffer, graceHours: number]
>(`
     update notification_targets t set secrets = $2, previous_secret_until = now() + $3 * interval '1 hour',
            last_updated_at = clock_timestamp()
      where t.id = $1 returning ${columns}`);

export const deleteTarget = queryAny<[id: string]>(
  'delete from notification_targets where id = $1 returning 1',
);

/** Ends the deliveries of a disabled target that wait. */
export const cancelDeliveriesOf = command<[targetId: string]>(`with locked as materialized (
       select id from notification_deliveries where target_id = $1 and status = 'waiting' order by id for update
     )
     update notification_deliveries d set status = 'cancelled', lease = null, leased_until = null, finished_at = now()
       from locked where d.id = locked.id and d.status = 'waiting'`);
