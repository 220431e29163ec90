import {
  type BatchExport,
  type ExportHealth,
  exportHealths,
} from '../../../foundation/domain/batch-export.ts';
import type { Timestamp } from '../../../foundation/domain/time.ts';
import type { Sql } from '../database/database.ts';
import { type HealthCounts, healthOfExport } from './export-states.ts';
import { columns, type ExportRow, toBatchExport } from './exports.ts';
import {
  Conditions,
  escapeLike,
  jsonBytes,
  type OffsetPage,
  type PageRequest,
  upToPageBytes,
} from '../database/lists.ts';
import { prepared } from '../database/prepared.ts';
import { byReach, type Reach, reaches, reachValue } from '../tenants/tenants.ts';
import {
  type Holes,
  holesColumns,
  holesFrom,
  type HolesRow,
  toHoles,
} from '../intervals/coverage.ts';
import { ownRunColumns, type Run } from '../runs/runs.ts';

const inReach = (reach: Reach, number: number): string =>
  `e.deleted_at is null and ${reaches(reach, 'e.team_id', number)}`;

/** Bytes of an export in an answer, about. */
const sizeOf = (alias: string): string =>
  `octet_length(${alias}.destination_config::text) + ${jsonBytes(`${alias}.dsl_query`)}
     + coalesce(octet_length(${alias}.query_schema::text), 0)
     + coalesce(octet_length(${alias}.filters::text), 0) as size`;

const counting = (reach: Reach): string =>
  `select count(*) from batch_exports e where ${inReach(reach, 1)}`;

const listing = byReach((reach) => {
  const sized = `select e.*, ${sizeOf('e')}
        from batch_exports e where ${inReach(reach, 1)} order by e.created_at desc, e.id desc limit $2 offset $3`;
  return `select ${columns}, (${counting(reach)}) as count
       from ${upToPageBytes(sized, 'page.created_at desc, page.id desc')} e
      order by e.created_at desc, e.id desc`;
});

export async function listBatchExports(
  sql: Sql,
  reach: Reach,
  page: PageRequest,
): Promise<OffsetPage<BatchExport>> {
  const rows = await sql.query<ExportRow & { count: number }>(listing(reach), [
    reachValue(reach),
    page.limit,
    page.offset,
  ]);
  const [first] = rows;
  if (first)
    return { count: first.count, results: rows.map(({ count: _, ...row }) => toBatchExport(row)) };
  // After the last page, no row has the count.
  const [total] = await sql.query<{ count: number }>(counting(reach), [reachValue(reach)]);
  return { count: total?.count ?? 0, results: [] };
}

/** SQL of the position of a health among all, the most urgent first. */
const urgency = `array_position(array['${exportHealths.join(`', '`)}'], ${healthOfExport})`;

const lastRun = `(select max(r.created_at) from runs r where r.export_id = e.id)`;

const sortKeys = {
  created_at: 'e.created_at',
  name: 'lower(e.name)',
  health: urgency,
  last_run: lastRun,
} as const;

export type ExportSortKey = keyof typeof sortKeys;

export interface ExportSearch {
  readonly healths: readonly ExportHealth[] | null;
  /** Part of the name, or the whole id; null: each export. */
  readonly search: string | null;
  readonly orderBy: ExportSortKey;
  readonly descending: boolean;
}

/** Its cost does not depend on history. Equal exports are ordered newest first; those without a run are last. */
export async function findBatchExports(
  sql: Sql,
  reach: Reach,
  { healths, search, orderBy, descending }: ExportSearch,
  { limit, offset }: PageRequest,
): Promise<OffsetPage<BatchExport>> {
  const conditions = new Conditions();
  conditions.addSql(inReach(reach, 1));
  conditions.parameter(reachValue(reach));
  conditions.add(`${healthOfExport} = any (?)`, healths);
  conditions.add(`(e.name ilike '%' || ? || '%' or e.id::text = lower(?))`, escapeLike(search));
  const matching = `from batch_exports e where ${conditions.sql}`;
  const values = [...conditions.values];
  const order = (of: string) =>
    `${of}.sort_key ${descending ? 'desc' : 'asc'} nulls last, ${of}.created_at desc, ${of}.id desc`;
  // The wide columns are read of this page's rows alone.
  const page = `select w.*, f.sort_key, f.total, ${sizeOf('w')} from (
      select id, sort_key, total from (
        select e.id, e.created_at, ${sortKeys[orderBy]} as sort_key, count(*) over () as total ${matching}) as k
       order by ${order('k')} limit ${conditions.parameter(limit)} offset ${conditions.parameter(offset)}
    ) as f join batch_exports w using (id)`;
  const rows = await sql.query<ExportRow & { count: number }>(
    `select ${columns}, e.total as count from ${upToPageBytes(page, order('page'))} e order by ${order('e')}`,
    conditions.values,
  );
  const [first] = rows;
  if (first)
    return { count: first.count, results: rows.map(({ count: _, ...row }) => toBatchExport(row)) };
  const [total] = await sql.query<{ count: number }>(`select count(*) ${matching}`, values);
  return { count: total?.count ?? 0, results: [] };
}

// `offset 0` in the statements that count: without it the planner copies the expression of the health into each of the counts.
const countsOf = (of: string): string =>
  exportHealths
    .map((health) => `count(*) filter (where ${of}.health = '${health}')::int as ${health}`)
    .join(', ');

export async function countExportHealths(sql: Sql, reach: Reach): Promise<HealthCounts> {
  const [row] = await sql.query<HealthCounts>(
    prepared(`select ${countsOf('k')} from (
        select ${healthOfExport} as health from batch_exports e where ${inReach(reach, 1)} offset 0) as k`),
    [reachValue(reach)],
  );
  if (!row) throw new Error('a count returned no row');
  return row;
}

/** The facts of an export that an answer shows beside its own row. */
export interface ExportDetails {
  readonly latestRuns: readonly Run[];
  readonly holes: Holes;
  /** The error of the newest run that ended without success; null unless the export is failing. */
  readonly failure: string | null;
  /** The newest late rows that a look-back has added; null if none were. */
  readonly lateRowsAdded: LateRowsAdded | null;
}

export interface LateRowsAdded {
  readonly rows: number;
  readonly at: Timestamp;
  readonly start: Timestamp;
  readonly end: Timestamp;
}

/** Each status has its own scan of an index, which ends at its first row; an export that does not fail has none. */
const newestFailure = ['Failed', 'FailedRetryable']
  .map(
    (status) => `(select r.created_at, r.latest_error from runs r
       where e.failing_since is not null and r.export_id = e.id and r.status = '${status}' order by r.created_at desc, r.id desc limit 1)`,
  )
  .join(' union all ');

// The planner cannot count an array that comes from a subquery. If it could, it would make a plan for each request, which
// takes several times as long as the statement itself.
const details =
  prepared(`select ${holesColumns}, failed.latest_error as failure, added.late as "lateRowsAdded", newest.*
  from ${holesFrom}
  left join lateral (select f.latest_error from (${newestFailure}) as f
                      order by f.created_at desc limit 1) as failed on true
  left join lateral (select jsonb_build_object('rows', r.records_completed, 'at', api_time(r.finished_at),
                            'start', api_time(r.data_interval_start), 'end', api_time(r.data_interval_end)) as late
                       from runs r where r.export_id = e.id and r.purpose = 'supplement' and r.status = 'Completed'
                        and r.records_completed > 0 order by r.finished_at desc limit 1) as added on true
  left join lateral (select ${ownRunColumns} from runs r where r.export_id = e.id
                      order by r.created_at desc, r.id desc limit 10) as newest on true
 where e.id = any ((select $1)::uuid[])`);

type OwnDetails = Pick<ExportDetails, 'failure' | 'lateRowsAdded'>;

/** Reads each of these exports, by one statement for a whole page. Each run's row repeats the holes of its export. */
export async function findExportDetails(
  sql: Sql,
  exportIds: readonly string[],
): Promise<ReadonlyMap<string, ExportDetails>> {
  if (exportIds.length === 0) return new Map();
  const rows = await sql.query<(Run | { id: null }) & HolesRow & OwnDetails>(details, [exportIds]);
  const byExport = new Map<string, Omit<ExportDetails, 'latestRuns'> & { latestRuns: Run[] }>();
  for (const row of rows) {
    const own = byExport.get(row.exportId) ?? {
      latestRuns: [],
      holes: toHoles(row),
      failure: row.failure,
      lateRowsAdded: row.lateRowsAdded,
    };
    byExport.set(row.exportId, own);
    if (row.id !== null) own.latestRuns.push(row);
  }
  return byExport;
}
