import type { ExportHealth } from '../../../foundation/domain/batch-export.ts';
import { prepared } from '../database/prepared.ts';
import { queryCount } from '../database/statement.ts';

/** Time for the jitter of a run's start and for the run itself. */
const grace = `interval '6 minutes'`;

/** The longest that an interval of the export `e` can be: a day has up to 25 hours. */
const longest = `case e."interval" when 'hour' then interval '1 hour' when 'day' then interval '25 hours'
  when 'week' then interval '169 hours' else split_part(e."interval", ' ', 2)::int * interval '1 minute' end`;

/** The time up to which the export `e` has data; before its first interval, the time from which it should have. */
const dataUntil = `coalesce(e.high_water_mark, greatest(e.created_at, e.start_at))`;

/** SQL of how old the data of the export `e` may be: two intervals, and time for the run. Null: its deadline says when data is late. */
const oldest = `case when e.deadline_minutes is null and e.deadline_at is null then 2 * (${longest}) + ${grace} end`;

/** The deadline of the oldest interval of the export `e` that missed it and has not arrived. */
const missedDeadline = `(select min(l.due_by) from late_intervals l
  where l.export_id = e.id and l.delivered_at is null and l.missed_at is not null)`;

/**
 * SQL of the rule that says since when the data of the export `e` is late; null: it is not. An interval has missed its deadline and
 * has not arrived. Without a deadline, the data is too old. While a person pauses the export, it is not late. After
 * its end no data is expected. `checkLateness` writes this to `late_since`, which everything else shows.
 */
export const lateSince = `case when not (e.paused and e.paused_reason is null) then least(
  case when ${dataUntil} + ${oldest} < least(clock_timestamp(), e.end_at) then ${dataUntil} + ${oldest} end, ${missedDeadline}) end`;

const hasHole = `exists (select from missing_intervals h where h.export_id = e.id)`;

/** SQL. It reads the row of the export `e`, and at most its holes. @param isIncomplete SQL: whether intervals are missing */
export const healthOf = (isIncomplete: string): string => `case
  when e.paused and e.paused_reason is null then 'paused'
  when e.failing_since is not null then 'failing'
  when e.paused then 'paused'
  when e.late_since is not null then 'late'
  when ${isIncomplete} then 'incomplete'
  else 'fine' end`;

export const healthOfExport = healthOf(hasHole);

export type HealthCounts = Readonly<Record<ExportHealth, number>>;

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
