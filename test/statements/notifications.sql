-- notifications/group-events.ts notifyGroup
-- takes $1 uuid, $2 integer, $3 text, $4 jsonb
-- gives notify_group void
select notify_group($1, $2, $3, $4);

-- notifications/group-events.ts notifyInstallation
-- takes $1 uuid, $2 uuid, $3 text, $4 jsonb
-- gives notify_group void
select notify_group($1, null, $3, $4::jsonb || coalesce(
       (select jsonb_build_object('organization', jsonb_build_object('id', o.id, 'name', o.name)) from organizations o where o.id = $2), '{}'));

-- notifications/group-events.ts raiseAlarm
update installation set no_workers_since = clock_timestamp() where no_workers_since is null and (select coalesce(sum(capacity), 0)::int from workers where heartbeat_at > now() - interval '30 s') = 0;

-- notifications/group-events.ts endAlarm
-- gives only_row boolean
update installation set no_workers_since = null where no_workers_since is not null returning only_row;

-- notifications/notification-deliveries.ts listDeliveries
-- takes $1 uuid, $2 bigint
-- gives id uuid, targetId uuid, eventId uuid, eventType text, exportId uuid, happenedAt timestamp with time zone, status text, attempts integer, nextAttemptAt timestamp with time zone, attemptLog jsonb, createdAt timestamp with time zone, finishedAt timestamp with time zone
select d.id, d.target_id as "targetId", d.event_id as "eventId", d.type as "eventType", d.export_id as "exportId",
  d.happened_at as "happenedAt", d.status, d.attempts,
  case when d.status = 'waiting' then d.next_attempt_at end as "nextAttemptAt", d.attempt_log as "attemptLog",
  d.created_at as "createdAt", d.finished_at as "finishedAt" from notification_deliveries d where d.target_id = $1 order by d.created_at desc, d.id desc limit $2;

-- notifications/notification-deliveries.ts listDeliveries
-- takes $1 uuid, $2 timestamp with time zone, $3 uuid, $4 bigint
-- gives id uuid, targetId uuid, eventId uuid, eventType text, exportId uuid, happenedAt timestamp with time zone, status text, attempts integer, nextAttemptAt timestamp with time zone, attemptLog jsonb, createdAt timestamp with time zone, finishedAt timestamp with time zone
select d.id, d.target_id as "targetId", d.event_id as "eventId", d.type as "eventType", d.export_id as "exportId",
  d.happened_at as "happenedAt", d.status, d.attempts,
  case when d.status = 'waiting' then d.next_attempt_at end as "nextAttemptAt", d.attempt_log as "attemptLog",
  d.created_at as "createdAt", d.finished_at as "finishedAt" from notification_deliveries d where d.target_id = $1 and (d.created_at, d.id) < ($2::timestamptz, $3::uuid) order by d.created_at desc, d.id desc limit $4;

-- notifications/notification-deliveries.ts listDeliveries
-- takes $1 uuid, $2 timestamp with time zone, $3 uuid, $4 bigint
-- gives id uuid, targetId uuid, eventId uuid, eventType text, exportId uuid, happenedAt timestamp with time zone, status text, attempts integer, nextAttemptAt timestamp with time zone, attemptLog jsonb, createdAt timestamp with time zone, finishedAt timestamp with time zone
select d.id, d.target_id as "targetId", d.event_id as "eventId", d.type as "eventType", d.export_id as "exportId",
  d.happened_at as "happenedAt", d.status, d.attempts,
  case when d.status = 'waiting' then d.next_attempt_at end as "nextAttemptAt", d.attempt_log as "attemptLog",
  d.created_at as "createdAt", d.finished_at as "finishedAt" from notification_deliveries d where d.target_id = $1 and (d.created_at, d.id) > ($2::timestamptz, $3::uuid) order by d.created_at asc, d.id asc limit $4;

-- notifications/notification-deliveries.ts listDeliveries
-- takes $1 uuid, $2 text, $3 bigint
-- gives id uuid, targetId uuid, eventId uuid, eventType text, exportId uuid, happenedAt timestamp with time zone, status text, attempts integer, nextAttemptAt timestamp with time zone, attemptLog jsonb, createdAt timestamp with time zone, finishedAt timestamp with time zone
select d.id, d.target_id as "targetId", d.event_id as "eventId", d.type as "eventType", d.export_id as "exportId",
  d.happened_at as "happenedAt", d.status, d.attempts,
  case when d.status = 'waiting' then d.next_attempt_at end as "nextAttemptAt", d.attempt_log as "attemptLog",
  d.created_at as "createdAt", d.finished_at as "finishedAt" from notification_deliveries d where d.target_id = $1 and d.status = $2 order by d.created_at desc, d.id desc limit $3;

-- notifications/notification-deliveries.ts claimSql, claimDeliveries
-- takes $1 text, $2 bigint, $3 integer, $4 double precision
-- gives id uuid, lease uuid, targetId uuid, kind text, attempts integer, claimedAt bigint, eventId uuid, type text, happenedAt timestamp with time zone, organizationId uuid, projectId integer, facts jsonb, format text, recipients text[], secrets bytea, usesPreviousSecret boolean
with recursive organizations_with as (
       (select organization_id as id from notification_deliveries where status = 'waiting' and kind = $1 order by 1 limit 1)
       union all
       select (select d.organization_id from notification_deliveries d
                where d.status = 'waiting' and d.kind = $1 and d.organization_id > o.id order by 1 limit 1)
         from organizations_with o where o.id is not null
     ), due as (
       select d.id, busy.count + row_number() over (partition by o.id order by d.next_attempt_at, d.seq) as turn
         from organizations_with o
        cross join lateral (
          select count(*) as count from notification_deliveries d where d.organization_id = o.id and d.kind = $1 and d.status = 'waiting' and d.leased_until > now()) as busy
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
             and not exists (select from notification_deliveries d where d.organization_id = o.id and d.kind = $1 and d.status = 'waiting' and d.leased_until > now() and d.target_id = t.id)
           order by head.next_attempt_at, head.seq limit greatest($3::int - busy.count, 0)) as d
        where o.id is not null
     ), taken as (
       select d.id from notification_deliveries d join due on due.id = d.id
        where d.status = 'waiting' and (d.leased_until is null or d.leased_until <= now()) order by due.turn limit $2 for update of d skip locked
     )
     update notification_deliveries d
        set lease = gen_random_uuid(), leased_until = now() + $4 * interval '1 ms', attempts = d.attempts + 1
       from taken, notification_targets t
      where d.id = taken.id and t.id = d.target_id and t.enabled
     returning d.id, d.lease, d.target_id as "targetId", d.kind, d.attempts, extract(epoch from now())::bigint as "claimedAt",
  d.event_id as "eventId", d.type, d.happened_at as "happenedAt", d.about_organization_id as "organizationId",
  d.team_id as "projectId", d.facts, t.format, t.recipients, t.secrets,
  coalesce(t.previous_secret_until > now(), false) as "usesPreviousSecret";

-- notifications/notification-deliveries.ts insertTest
-- takes $1 uuid, $2 double precision
-- gives id uuid, lease uuid, targetId uuid, kind text, attempts integer, claimedAt bigint, eventId uuid, type text, happenedAt timestamp with time zone, organizationId uuid, projectId integer, facts jsonb, format text, recipients text[], secrets bytea, usesPreviousSecret boolean
with t as (
       select * from notification_targets where id = $1 for key share
     ), d as (
       insert into notification_deliveries (target_id, organization_id, kind, event_id, type, facts, about_organization_id, team_id,
              is_repeat, attempts, lease, leased_until)
       select id, organization_id, kind, gen_random_uuid(), 'test', '{}', organization_id, team_id,
              true, 1, gen_random_uuid(), now() + $2 * interval '1 ms' from t
       returning *
     )
     select d.id, d.lease, d.target_id as "targetId", d.kind, d.attempts, extract(epoch from now())::bigint as "claimedAt",
  d.event_id as "eventId", d.type, d.happened_at as "happenedAt", d.about_organization_id as "organizationId",
  d.team_id as "projectId", d.facts, t.format, t.recipients, t.secrets,
  coalesce(t.previous_secret_until > now(), false) as "usesPreviousSecret" from d, t;

-- notifications/notification-deliveries.ts finishSql, recordAttempt
-- takes $1 uuid, $2 uuid, $3 boolean, $4 text, $5 integer, $6 bigint, $7 double precision
-- gives isRecorded boolean, isDisabled boolean
with ended as (
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
     select exists (select from ended) as "isRecorded", exists (select from noted where not enabled) as "isDisabled";

-- notifications/notification-targets.ts findNotificationTarget
-- takes $1 uuid, $2 integer, $3 uuid
-- gives id uuid, organizationId uuid, teamId integer, kind text, description text, urlPreview text, format text, recipients text[], events text[], enabled boolean, secrets bytea, disabledReason text, previousSecretUntil timestamp with time zone, failingSince timestamp with time zone, createdAt timestamp with time zone, lastUpdatedAt timestamp with time zone
select t.id, t.organization_id as "organizationId", t.team_id as "teamId", t.kind, t.description,
  t.url_preview as "urlPreview", t.format, t.recipients, t.events, t.enabled, t.secrets,
  t.disabled_reason as "disabledReason",
  case when t.previous_secret_until > now() then t.previous_secret_until end as "previousSecretUntil",
  t.failing_since as "failingSince", t.created_at as "createdAt", t.last_updated_at as "lastUpdatedAt" from notification_targets t where t.organization_id = $1 and ($2::int is null or t.team_id = $2) and t.id = $3;

-- notifications/notification-targets.ts listNotificationTargets
-- takes $1 uuid, $2 integer
-- gives count bigint
select count(*) from notification_targets t where t.organization_id = $1 and ($2::int is null or t.team_id = $2);

-- notifications/notification-targets.ts listNotificationTargets
-- takes $1 uuid, $2 integer, $3 bigint, $4 bigint
-- gives id uuid, organizationId uuid, teamId integer, kind text, description text, urlPreview text, format text, recipients text[], events text[], enabled boolean, secrets bytea, disabledReason text, previousSecretUntil timestamp with time zone, failingSince timestamp with time zone, createdAt timestamp with time zone, lastUpdatedAt timestamp with time zone
select t.id, t.organization_id as "organizationId", t.team_id as "teamId", t.kind, t.description,
  t.url_preview as "urlPreview", t.format, t.recipients, t.events, t.enabled, t.secrets,
  t.disabled_reason as "disabledReason",
  case when t.previous_secret_until > now() then t.previous_secret_until end as "previousSecretUntil",
  t.failing_since as "failingSince", t.created_at as "createdAt", t.last_updated_at as "lastUpdatedAt" from notification_targets t where t.organization_id = $1 and ($2::int is null or t.team_id = $2)
      order by t.created_at desc, t.id desc limit $3 offset $4;

-- notifications/notification-targets.ts countTargetsLocked
-- takes $1 uuid
select from organizations where id = $1 for no key update;

-- notifications/notification-targets.ts countTargetsLocked
-- takes $1 uuid
-- gives count bigint
select count(*) from notification_targets where organization_id = $1;

-- notifications/notification-targets.ts insertTarget
-- takes $1 uuid, $2 text, $3 text, $4 text, $5 text[], $6 text[], $7 boolean, $8 bytea, $9 uuid, $10 integer, $11 text
-- gives id uuid, organizationId uuid, teamId integer, kind text, description text, urlPreview text, format text, recipients text[], events text[], enabled boolean, secrets bytea, disabledReason text, previousSecretUntil timestamp with time zone, failingSince timestamp with time zone, createdAt timestamp with time zone, lastUpdatedAt timestamp with time zone
insert into notification_targets as t (organization_id, team_id, kind, id, description, url_preview, format, recipients, events, enabled, secrets)
     values ($9, $10, $11, $1, $2::text, $3::text, $4::text, $5::text[], $6::text[], $7::boolean, $8::bytea) returning t.id, t.organization_id as "organizationId", t.team_id as "teamId", t.kind, t.description,
  t.url_preview as "urlPreview", t.format, t.recipients, t.events, t.enabled, t.secrets,
  t.disabled_reason as "disabledReason",
  case when t.previous_secret_until > now() then t.previous_secret_until end as "previousSecretUntil",
  t.failing_since as "failingSince", t.created_at as "createdAt", t.last_updated_at as "lastUpdatedAt";

-- notifications/notification-targets.ts lockTarget
-- takes $1 uuid
-- gives id uuid, organizationId uuid, teamId integer, kind text, description text, urlPreview text, format text, recipients text[], events text[], enabled boolean, secrets bytea, disabledReason text, previousSecretUntil timestamp with time zone, failingSince timestamp with time zone, createdAt timestamp with time zone, lastUpdatedAt timestamp with time zone
select t.id, t.organization_id as "organizationId", t.team_id as "teamId", t.kind, t.description,
  t.url_preview as "urlPreview", t.format, t.recipients, t.events, t.enabled, t.secrets,
  t.disabled_reason as "disabledReason",
  case when t.previous_secret_until > now() then t.previous_secret_until end as "previousSecretUntil",
  t.failing_since as "failingSince", t.created_at as "createdAt", t.last_updated_at as "lastUpdatedAt" from notification_targets t where t.id = $1 for no key update;

-- notifications/notification-targets.ts updateTarget
-- takes $1 uuid, $2 text, $3 text, $4 text, $5 text[], $6 text[], $7 boolean, $8 bytea
-- gives id uuid, organizationId uuid, teamId integer, kind text, description text, urlPreview text, format text, recipients text[], events text[], enabled boolean, secrets bytea, disabledReason text, previousSecretUntil timestamp with time zone, failingSince timestamp with time zone, createdAt timestamp with time zone, lastUpdatedAt timestamp with time zone
update notification_targets t
        set (description, url_preview, format, recipients, events, enabled, secrets) = row ($2::text, $3::text, $4::text, $5::text[], $6::text[], $7::boolean, $8::bytea),
            disabled_reason = case when $7 then null else t.disabled_reason end,
            failing_since = case when $7 and not t.enabled then null else failing_since end,
            last_updated_at = clock_timestamp()
      where t.id = $1 returning t.id, t.organization_id as "organizationId", t.team_id as "teamId", t.kind, t.description,
  t.url_preview as "urlPreview", t.format, t.recipients, t.events, t.enabled, t.secrets,
  t.disabled_reason as "disabledReason",
  case when t.previous_secret_until > now() then t.previous_secret_until end as "previousSecretUntil",
  t.failing_since as "failingSince", t.created_at as "createdAt", t.last_updated_at as "lastUpdatedAt";

-- notifications/notification-targets.ts storeRotatedSecret
-- takes $1 uuid, $2 bytea, $3 double precision
-- gives id uuid, organizationId uuid, teamId integer, kind text, description text, urlPreview text, format text, recipients text[], events text[], enabled boolean, secrets bytea, disabledReason text, previousSecretUntil timestamp with time zone, failingSince timestamp with time zone, createdAt timestamp with time zone, lastUpdatedAt timestamp with time zone

     update notification_targets t set secrets = $2, previous_secret_until = now() + $3 * interval '1 hour',
            last_updated_at = clock_timestamp()
      where t.id = $1 returning t.id, t.organization_id as "organizationId", t.team_id as "teamId", t.kind, t.description,
  t.url_preview as "urlPreview", t.format, t.recipients, t.events, t.enabled, t.secrets,
  t.disabled_reason as "disabledReason",
  case when t.previous_secret_until > now() then t.previous_secret_until end as "previousSecretUntil",
  t.failing_since as "failingSince", t.created_at as "createdAt", t.last_updated_at as "lastUpdatedAt";

-- notifications/notification-targets.ts deleteTarget
-- takes $1 uuid
-- gives ?column? integer
delete from notification_targets where id = $1 returning 1;

-- notifications/notification-targets.ts cancelDeliveriesOf
-- takes $1 uuid
with locked as materialized (
       select id from notification_deliveries where target_id = $1 and status = 'waiting' order by id for update
     )
     update notification_deliveries d set status = 'cancelled', lease = null, leased_until = null, finished_at = now()
       from locked where d.id = locked.id and d.status = 'waiting';
