import { type DataInterval, type Instant, toTimestamp } from '../../../foundation/domain/time.ts';
import type { Sql } from '../database/database.ts';
import { instantOf } from '../database/times.ts';
import { live } from '../runs/run-moves.ts';

/** The rows that show that an interval was requested; a tick that fell outside of the window requested none. */
const requests = [
  ['receipts', 'true'],
  ['runs', 'true'],
  ['holes', 'true'],
  ['accepted_intervals', 'true'],
  ['ticks', `x.fate <> 'outside_window'`],
] as const;

/** SQL: a value of the requested interval that `order` puts first; null if there is none. */
const first = (value: string, where: string, order: string): readonly string[] =>
  requests.map(
    ([table, counts]) =>
      `(select x.${value} from ${table} x where x.export_id = $1 and ${counts} and ${where}
         order by x.data_interval_start ${order} limit 1)`,
  );

/** A running backfill that makes a run for each interval of its range that was never requested. */
const running = `b.status = 'Running' and b.reprocess <> 'missing'`;

/** Instants at which something began to request intervals. */
const starts = `
  select least(${first('data_interval_start', 'x.data_interval_start >= $2', 'asc')}) as at
  union select start_at from backfills where export_id = $1
  union select planned_to from backfills where export_id = $1 and planned_to is not null
  union select t.data_interval_start from (
      select data_interval_start, lag(data_interval_end) over (order by data_interval_start) as ended
        from ticks where export_id = $1 and fate <> 'outside_window') as t
     where t.ended is distinct from t.data_interval_start`;

const isRequested = requests
  .map(
    ([table, counts]) =>
      `exists (select from ${table} x where x.export_id = $1 and x.data_interval_start = s.at and ${counts})`,
  )
  .join(' or ');

const gaps = `
  select e.at as start, s.at as "end" from (${starts}) as s
   cross join lateral (select greatest(
     ${first('data_interval_end', 'x.data_interval_start < s.at', 'desc')},
     (select max(least(b.end_at, s.at)) from backfills b where b.export_id = $1 and ${running} and b.start_at < s.at)) as at) as e
   where e.at < s.at and (${isRequested}
     or exists (select from backfills b where b.export_id = $1 and ${running} and b.start_at <= s.at and s.at < b.end_at))`;

/**
 * Stretches before the schedule or a backfill began to request intervals, back to the interval that was requested before,
 * newest first. Reads a few entries of indexes for each backfill and the export's ticks, however many intervals there are.
 *
 * @param since the first interval that the schedule can have requested
 */
export async function findGaps(
  sql: Sql,
  exportId: string,
  since: Instant,
): Promise<readonly DataInterval[]> {
  return sql.query<DataInterval>(
    `select ${instantOf('g.start')} as start, ${instantOf('g."end"')} as "end" from (${gaps}) as g order by g."end" desc`,
    [exportId, toTimestamp(since)],
  );
}

/** The tables with intervals that were decided, the strongest first: what is current, what runs, what was due. */
const facts = [
  'receipts',
  `runs where status in ${live}`,
  'ticks',
  'accepted_intervals',
  'runs where finished_at is not null',
  'holes',
];

const ofFacts = facts
  .map((table, rank) => {
    const [name, condition = 'true'] = table.split(' where ');
    return `select ${rank} as rank, f.data_interval_start, f.data_interval_end from spans s, ${name} f
             where f.export_id = $1 and f.data_interval_start >= s.span_start and f.data_interval_start < s.span_end and ${condition}`;
  })
  .join(' union all ');

/**
 * The intervals of an export that were decided and start in one of the spans, each once, the strongest first, then
 * oldest first.
 */
export async function findDecidedIntervals(
  sql: Sql,
  exportId: string,
  spans: readonly DataInterval[],
): Promise<DataInterval[]> {
  return sql.query<DataInterval>(
    `with spans as materialized (
       select * from unnest($2::timestamptz[], $3::timestamptz[]) as s (span_start, span_end)
     )
     select ${instantOf('data_interval_start')} as start, ${instantOf('data_interval_end')} as "end"
       from (${ofFacts}) as decided group by data_interval_start, data_interval_end
      order by min(rank), data_interval_start`,
    [
      exportId,
      spans.map(({ start }) => toTimestamp(start)),
      spans.map(({ end }) => toTimestamp(end)),
    ],
  );
}
