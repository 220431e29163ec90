import type { Sql } from './database.ts';
import { queryCount } from './statement.ts';
import { isSameInterval } from './times.ts';

/** Rows per statement: short locks, so that no other statement waits long. */
const batch = 5_000;

/** Deletes one batch of rows older than `days`. @returns how many; 0 means that none is left */
export type DeleteOld = (sql: Sql, days: number) => Promise<number>;

const deleteBy = (text: string): DeleteOld => queryCount<[days: number]>(text);

const isOld = (column: string): string => `${column} < now() - $1 * interval '1 day'`;

/** By number: a search by time would walk all deleted rows. The ids are an array, or the planner may read the whole table. */
export const deleteOldLogEntries = deleteBy(
  `delete from log_entries where id = any (array(
     select id from (select id, timestamp from log_entries order by id limit ${batch}) oldest
      where ${isOld('timestamp')})) returning 1`,
);

export const deleteOldActivity = deleteBy(
  `delete from activity where id = any (array(
     select id from (select id, happened_at from activity order by id limit ${batch}) oldest
      where ${isOld('happened_at')})) returning 1`,
);

/** Events of notifications, of each target; by number too. */
export const deleteOldNotifications = deleteBy(
  `delete from notification_deliveries where id in (
     select id from (select id, happened_at from notification_deliveries order by seq limit ${batch}) oldest
      where ${isOld('happened_at')}) returning 1`,
);

/** Up to the first of an export that is young or that the high-water mark needs: those that are left share their bounds. */
export const deleteOldTicks = deleteBy(
  `delete from ticks where ctid = any (array(
     select t.ctid from batch_exports e
       left join lateral (
         select k.tick_at from ticks k
          where k.export_id = e.id and not (${isOld('k.decided_at')}
            and (e.deleted_at is not null or k.fate <> 'ran' or coalesce(k.data_interval_end <= e.high_water_mark, false)))
          order by k.tick_at limit 1) as first_kept on true
       cross join lateral (
         select o.ctid from ticks o where o.export_id = e.id and o.tick_at < coalesce(first_kept.tick_at, 'infinity')
          order by o.tick_at limit ${batch}) as t
      limit ${batch})) returning 1`,
);

/** Ended runs that no current receipt refers to. The newest run of an interval without files stays: it says why. */
export const deleteOldRuns = deleteBy(
  `delete from runs where id = any (array(
     select r.id from runs r
      where ${isOld('r.finished_at')}
        and not exists (select 1 from receipts c where c.run_id = r.id)
        and not exists (select 1 from outbox o where o.run_id = r.id)
        and not exists (
          select 1 from holes h join batch_exports e on e.id = h.export_id and e.deleted_at is null
           where ${isSameInterval('h', 'r')}
             and not exists (select 1 from runs newer where ${isSameInterval('newer', 'r')}
                   and newer.generation > r.generation))
      limit ${batch})) returning 1`,
);

/** Exports deleted that long ago, with everything of theirs. */
export const deleteForgottenExports = deleteBy(
  `delete from batch_exports where id = any (array(
     select e.id from batch_exports e where ${isOld('e.deleted_at')} limit 10)) returning 1`,
);

/** That no config, run or receipt names. They are found unused twice, an hour apart: a claim that began before may pin one. */
export const deleteOldStepVersions: DeleteOld = async (sql, days) => {
  await sql.query(
    `update transformation_versions set unused_since = now() where unused_since is null and ${unusedVersions('true')}`,
    [days],
  );
  const deleted = await sql.query(
    `delete from transformation_versions where ${unusedVersions(`v.unused_since < now() - interval '1 hour'`)} returning 1`,
    [days],
  );
  return deleted.length;
};

const unusedVersions = (more: string): string => `ctid = any (array(
     select v.ctid from transformation_versions v
      where ${isOld('v.created_at')} and ${more}
        and not exists (select 1 from pipeline_transformation_configs c where c.id = v.config_id and c.version = v.version)
        and not exists (select 1 from runs r where r.team_id = v.team_id
              and r.chain @> jsonb_build_array(jsonb_build_object('config', v.config_id, 'version', v.version)))
        and not exists (select 1 from receipts c join batch_exports e on e.id = c.export_id where e.team_id = v.team_id
              and c.recipe -> 'chain' @> jsonb_build_array(jsonb_build_object('config', v.config_id, 'version', v.version)))
      limit ${batch}))`;

/** Work that no process does, `days` after it began; what was set aside stays until an operator allows it again. */
export const deleteOldGuardedWork = deleteBy(
  `delete from guarded_work where set_aside_at is null and ${isOld('expires_at')} returning 1`,
);

/** Sources that were replaced `days` ago, that no plugin has now and that no run and no receipt names. */
export const deleteOldPluginSources: DeleteOld = async (sql, days) => {
  const old = `replaced_at is not null and ${isOld('replaced_at')}
        and not exists (select 1 from plugins p where p.source_sha256 = s.sha256)`;
  const oldSources = await sql.query(`select 1 from plugin_sources s where ${old} limit 1`, [days]);
  // Only then are all chains read.
  if (oldSources.length === 0) return 0;
  const rows = await sql.query(
    `with named as (
       select pinned ->> 'source' as sha256 from runs r, jsonb_array_elements(r.chain) pinned where r.chain is not null
       union select pinned ->> 'source' from receipts c, jsonb_array_elements(c.recipe -> 'chain') pinned
               where jsonb_typeof(c.recipe -> 'chain') = 'array'
     )
     delete from plugin_sources s where ${old} and not exists (select 1 from named n where n.sha256 = s.sha256)
     returning 1`,
    [days],
  );
  return rows.length;
};
