import type {
  DeliveryStatus,
  Notification,
  NotificationType,
  TargetKind,
  WebhookFormat,
} from '../../../foundation/domain/notification.ts';
import type { Timestamp } from '../../../foundation/domain/time.ts';
import type { Sql } from '../database/database.ts';
import { queryOne } from '../database/statement.ts';
import {
  Conditions,
  type KeysetPage,
  type KeysetPosition,
  seek,
  toKeysetPage,
} from '../database/lists.ts';
import { prepared } from '../database/prepared.ts';

export interface DeliveryAttempt {
  readonly at: Timestamp;
  readonly answer: string;
  readonly latency_ms: number;
}

export interface Delivery {
  readonly id: string;
  readonly targetId: string;
  readonly eventId: string;
  readonly eventType: NotificationType | 'test';
  readonly exportId: string | null;
  readonly happenedAt: Timestamp;
  readonly status: DeliveryStatus;
  readonly attempts: number;
  /** Null unless it waits. */
  readonly nextAttemptAt: Timestamp | null;
  /** Oldest first. */
  readonly attemptLog: readonly DeliveryAttempt[];
  readonly createdAt: Timestamp;
  readonly finishedAt: Timestamp | null;
}

const columns = `d.id, d.target_id as "targetId", d.event_id as "eventId", d.type as "eventType", d.export_id as "exportId",
  d.happened_at as "happenedAt", d.status, d.attempts,
  case when d.status = 'waiting' then d.next_attempt_at end as "nextAttemptAt", d.attempt_log as "attemptLog",
  d.created_at as "createdAt", d.finished_at as "finishedAt"`;

export async function listDeliveries(
  sql: Sql,
  targetId: string,
  status: DeliveryStatus | null,
  position: KeysetPosition | null,
  limit: number,
): Promise<KeysetPage<Delivery>> {
  const conditions = new Conditions().add('d.target_id = ?', targetId).add('d.status = ?', status);
  const order = { column: 'd.created_at', descending: true };
  const page = seek(conditions, order, 'd.id', position, limit);
  const rows = await sql.query<Delivery>(
    `select ${columns} from notification_deliveries d where ${conditions.sql} ${page}`,
    conditions.values,
  );
  return toKeysetPage(rows, position, limit);
}

/** A delivery that this process must attempt now. */
export interface ClaimedDelivery {
  readonly id: string;
  readonly lease: string;
  readonly targetId: string;
  readonly kind: TargetKind;
  /** This one included. */
  readonly attempts: number;
  /** Seconds since the epoch by Postgres' clock, as it was claimed. */
  readonly claimedAt: number;
  readonly notification: Notification;
  readonly format: WebhookFormat;
  readonly recipients: readonly string[];
  /** Sealed; null for e-mail. */
  readonly secrets: Buffer | null;
  /** True if the previous secret signs too. */
  readonly usesPreviousSecret: boolean;
}

type ClaimRow = Omit<ClaimedDelivery, 'notification'> & Notification;

const claimColumns = `d.id, d.lease, d.target_id as "targetId", d.kind, d.attempts, extract(epoch from now())::bigint as "claimedAt",
  d.event_id as "eventId", d.type, d.happened_at as "happenedAt", d.about_organization_id as "organizationId",
  d.team_id as "projectId", d.facts, t.format, t.recipients, t.secrets,
  coalesce(t.previous_secret_until > now(), false) as "usesPreviousSecret"`;

function toClaimed(row: ClaimRow): ClaimedDelivery {
  const { eventId, type, happenedAt, organizationId, projectId, facts, ...rest } = row;
  const notification = { eventId, type, happenedAt, organizationId, projectId, facts };
  return { ...rest, notification };
}

const isFree = `d.status = 'waiting' and (d.leased_until is null or d.leased_until <= now())`;

const isInProgress = (d: string): string =>
  `${d}.organization_id = o.id and ${d}.kind = $1 and ${d}.status = 'waiting' and ${d}.leased_until > now()`;

/** One index descent per organization. Its next is chosen if its target is idle and none of its export comes before. */
const claimSql = prepared(`with recursive organizations_with as (
       (select organization_id as id from notification_deliveries where status = 'waiting' and kind = $1 order by 1 limit 1)
       union all
       select (select d.organization_id from notification_deliveries d
                where d.status = 'waiting' and d.kind = $1 and d.organization_id > o.id order by 1 limit 1)
         from organizations_with o where o.id is not null
     ), due as (
       select d.id, busy.count + row_number() over (partition by o.id order by d.next_attempt_at, d.seq) as turn
         from organizations_with o
        cross join lateral (
          select count(*) as count from notification_deliveries d where ${isInProgress('d')}) as busy
        cross join lateral (
          select head.* from notification_targets t cross join lateral (
              select * from (
                -- Of each export only the first one can be due.
                (select distinct on (d.export_id) d.id, d.next_attempt_at, d.seq, d.leased_until
                   from notification_deliveries d
                  where d.target_id = t.id and d.status = 'waiting' and d.export_id is not null and not d.is_repeat
                  order by d.export_id, d.seq)
                union all
                select d.id, d.next_attempt_at, d.seq, d.leased_until from notification_deliveries d
                 where d.target_id = t.id and d.status = 'waiting' and (d.export_id is null or d.is_repeat)) as firsts
               where next_attempt_at <= now() and (leased_until is null or leased_until <= now())
               order by next_attempt_at, seq limit 1) as head
           where t.organization_id = o.id and t.kind = $1 and t.enabled
             and not exists (select from notification_deliveries d where ${isInProgress('d')} and d.target_id = t.id)
           order by head.next_attempt_at, head.seq limit greatest($3::int - busy.count, 0)) as d
        where o.id is not null
     ), taken as (
       select d.id from notification_deliveries d join due on due.id = d.id
        where ${isFree} order by due.turn limit $2 for update of d skip locked
     )
     update notification_deliveries d
        set lease = gen_random_uuid(), leased_until = now() + $4 * interval '1 ms', attempts = d.attempts + 1
       from taken, notification_targets t
      where d.id = taken.id and t.id = d.target_id and t.enabled
     returning ${claimColumns}`);

export interface ClaimLimits {
  readonly limit: number;
  /** The number of deliveries of one organization that may be in progress, in all processes. */
  readonly perOrganization: number;
  readonly leaseMs: number;
}

/** Takes deliveries that are due. Each is for one process, until its lease ends. */
export async function claimDeliveries(
  sql: Sql,
  kind: TargetKind,
  { limit, perOrganization, leaseMs }: ClaimLimits,
): Promise<ClaimedDelivery[]> {
  const rows = await sql.query<ClaimRow>(claimSql, [kind, limit, perOrganization, leaseMs]);
  return rows.map(toClaimed);
}

/** Records a test of a target, claimed by the caller: no worker sends it. */
export async function insertTest(
  sql: Sql,
  targetId: string,
  leaseMs: number,
): Promise<ClaimedDelivery | null> {
  const [row] = await sql.query<ClaimRow>(
    `with t as (
       select * from notification_targets where id = $1 for key share
     ), d as (
       insert into notification_deliveries (target_id, organization_id, kind, event_id, type, facts, about_organization_id, team_id,
              is_repeat, attempts, lease, leased_until)
       select id, organization_id, kind, gen_random_uuid(), 'test', '{}', organization_id, team_id,
              true, 1, gen_random_uuid(), now() + $2 * interval '1 ms' from t
       returning *
     )
     select ${claimColumns} from d, t`,
    [targetId, leaseMs],
  );
  return row ? toClaimed(row) : null;
}

export interface AttemptEnd {
  readonly delivered: boolean;
  readonly answer: string;
  readonly latencyMs: number;
  /** The wait before the next attempt; null: none follows. */
  readonly retryMs: number | null;
}

const finishSql = prepared(`with ended as (
       update notification_deliveries d
          set status = case when $3 then 'delivered' when $6::bigint is null then 'given_up' else 'waiting' end,
              lease = null, leased_until = null,
              next_attempt_at = case when $3 or $6::bigint is null then next_attempt_at else now() + $6::bigint * interval '1 ms' end,
              finished_at = case when $3 or $6::bigint is null then now() end,
              attempt_log = attempt_log || jsonb_build_array(jsonb_build_object('at', api_time(now()), 'answer', $4::text, 'latency_ms', $5::int))
        where d.id = $1 and d.lease = $2 and d.status = 'waiting'
       returning d.target_id
     ), noted as (
       update notification_targets t
          set failing_since = case when $3 then null else coalesce(t.failing_since, now()) end,
              enabled = t.enabled and ($3 or coalesce(t.failing_since, now()) > now() - $7 * interval '1 day'),
              disabled_reason = case when $3 or not t.enabled or coalesce(t.failing_since, now()) > now() - $7 * interval '1 day'
                then t.disabled_reason
                else 'No delivery has succeeded for ' || $7::int || ' days; the last answer was: ' || $4::text || '. Fix the receiver, then enable the target.' end
         from ended where t.id = ended.target_id and (not $3 or t.failing_since is not null)
       returning t.enabled
     )
     select exists (select from ended) as "isRecorded", exists (select from noted where not enabled) as "isDisabled"`);

/** Disables a target that fails for `disableAfterDays`. @returns isRecorded: false if another process took the delivery */
export const recordAttempt = queryOne<
  { isRecorded: boolean; isDisabled: boolean },
  [claimed: Pick<ClaimedDelivery, 'id' | 'lease'>, end: AttemptEnd, disableAfterDays: number]
>(finishSql, ({ id, lease }, { delivered, answer, latencyMs, retryMs }, days) => [
  ...[id, lease, delivered, answer, latencyMs, retryMs, days],
]);
