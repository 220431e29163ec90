import { queryCount } from '../database/statement.ts';
import { lateSince } from './export-states.ts';
import { prepared } from '../database/prepared.ts';

/** Exports that one check changes at most: short locks. The next check changes the rest. */
const batch = 500;

const checkSql = prepared(`with changed as (
       select e.id from batch_exports e
        where e.deleted_at is null and (e.late_since is null) <> (${lateSince} is null)
        order by e.id limit ${batch} for no key update skip locked
     )
     update batch_exports e set late_since = ${lateSince}
       from changed where e.id = changed.id returning 1`);

/** By Postgres' clock. Workers may check at the same time; an export that is locked is left. @returns how many changed */
export const checkLateness = queryCount(checkSql);

/** An interval without data that no run fills by itself is reported after so long. */
const reportedAfter = `interval '1 hour'`;

const isIncomplete = `(e.failing_since is null and not (e.paused and e.paused_reason is null) and exists (
    select from missing_intervals h where h.export_id = e.id and h.noted_at < now() - ${reportedAfter}))`;

/** For an hour without data, though they do not fail, or no more. @returns how many changed */
export const checkCompleteness = queryCount(
  prepared(`with candidates as (
       select distinct export_id as id from holes where noted_at < now() - ${reportedAfter}
       union select id from batch_exports where incomplete_since is not null
     ), changed as (
       select e.id from batch_exports e
        where e.id in (select id from candidates) and e.deleted_at is null and (e.incomplete_since is not null) <> ${isIncomplete}
        order by e.id limit ${batch} for no key update of e skip locked
     )
     update batch_exports e set incomplete_since = case when ${isIncomplete} then
              (select min(h.noted_at) from missing_intervals h where h.export_id = e.id) end
       from changed where e.id = changed.id returning 1`),
);
