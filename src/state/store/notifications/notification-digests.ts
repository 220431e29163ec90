import type { Sql } from '../database/database.ts';
import { prepared } from '../database/prepared.ts';

/** Events that a digest lists; the log of deliveries has all. */
const listedEvents = 100;
/** Projects that a digest counts: those with the most events. */
const listedProjects = 100;

/** Digests that one call makes at most; the next call makes the rest. */
const batch = 20;

/** Whether the delivery `d` is sent by itself, and not by a digest or before its others have been gathered. */
export const isSingle = (d: string): string =>
  `${d}.gathers_until is null and (${d}.digest_id is null or ${d}.is_repeat)`;

/** Events of one export keep their order: nothing of it may wait that comes before. */
const isFirst = `not exists (select from notification_deliveries b
    where b.target_id = d.target_id and b.export_id = d.export_id and b.status = 'waiting' and not b.is_repeat and b.seq < d.seq)`;

/**
 * Takes what waits for others of its type at one target, if the first of it has waited long enough. One by itself
 * becomes due, and so do all of a target that wants no digests by now. More become a digest, which is an event and a delivery of its own. Rows that another process takes at
 * the same moment are left to it.
 */
const gatherSql = prepared(`with due as (
       select d.target_id, d.type from notification_deliveries d
        where d.status = 'waiting' and d.gathers_until <= now() and ${isFirst}
        order by d.gathers_until limit 1
     ), gathered as materialized (
       select d.id, d.target_id, d.organization_id, d.kind, d.type, d.seq, d.created_at
         from due join notification_deliveries d on d.target_id = due.target_id and d.type = due.type
        where d.status = 'waiting' and d.gathers_until is not null and ${isFirst}
          for update of d skip locked
     ), many as (
       select target_id, organization_id, kind, type, count(*) as count, min(created_at) as first_at, max(created_at) as last_at
         from gathered where exists (select from notification_targets t where t.id = target_id and t.digests)
        group by 1, 2, 3, 4 having count(*) > 1
     ), event as (
       insert into notification_events (organization_id, team_id, type, facts)
       select many.organization_id, t.team_id, 'digest', jsonb_build_object('type', many.type, 'count', many.count,
                'first_at', api_time(many.first_at), 'last_at', api_time(many.last_at))
         from many join notification_targets t on t.id = many.target_id
       returning id, seq
     ), digest as (
       insert into notification_deliveries (target_id, event_id, organization_id, seq, kind, type)
       select many.target_id, event.id, many.organization_id, event.seq, many.kind, 'digest' from many, event
       returning id
     )
     update notification_deliveries d set gathers_until = null, digest_id = (select id from digest)
       from gathered where d.id = gathered.id returning 1`);

/**
 * Makes digests of what has waited long enough for others of its type.
 *
 * @returns how many deliveries wait no longer for others
 */
export async function gatherDigests(sql: Sql): Promise<number> {
  let gathered = 0;
  for (let made = 0; made < batch; made += 1) {
    const rows = await sql.query(gatherSql);
    if (rows.length === 0) break;
    gathered += rows.length;
  }
  return gathered;
}

/** What the digest `d` adds to the facts of its event `e`: its exports, as they are named when it is sent. */
export const digestFacts = `case when e.type = 'digest' then jsonb_build_object('target_id', d.target_id, 'digest_id', d.id,
    'errors', (select coalesce(jsonb_agg(jsonb_build_object('code', c.code, 'count', c.count) order by c.count desc, c.code), '[]') from (
        select me.facts->'error'->>'code' as code, count(*) as count
          from notification_deliveries m join notification_events me on me.id = m.event_id
         where m.digest_id = d.id and me.facts->'error'->>'code' is not null group by 1) as c),
    'projects', (select coalesce(jsonb_agg(jsonb_build_object('id', c.id, 'count', c.count) order by c.count desc, c.id), '[]') from (
        select me.team_id as id, count(*) as count
          from notification_deliveries m join notification_events me on me.id = m.event_id
         where m.digest_id = d.id group by 1 order by 2 desc, 1 limit ${listedProjects}) as c),
    'events', (select coalesce(jsonb_agg(jsonb_build_object('id', f.id, 'timestamp', api_time(f.happened_at),
          'project_id', f.team_id, 'export', f.facts->'export') order by f.seq), '[]') from (
        select me.* from notification_deliveries m join notification_events me on me.id = m.event_id
         where m.digest_id = d.id order by m.seq limit ${listedEvents}) as f))
  else '{}' end`;
