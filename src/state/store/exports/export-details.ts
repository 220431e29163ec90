import {
  type Holes,
  type HolesRow,
  holesColumns,
  holesFrom,
  toHoles,
} from '../intervals/coverage.ts';
import type { Timestamp } from '../../../foundation/domain/time.ts';
import type { Sql } from '../database/database.ts';
import { prepared } from '../database/prepared.ts';
import { ownRunColumns, type Run } from '../runs/runs.ts';

/** What an answer shows of an export beside its own row. */
export interface ExportDetails {
  /** The 10 newest, newest first. */
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
  /** Of the interval. */
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
  const found = new Map<string, Omit<ExportDetails, 'latestRuns'> & { latestRuns: Run[] }>();
  for (const row of rows) {
    const own = found.get(row.exportId) ?? {
      latestRuns: [],
      holes: toHoles(row),
      failure: row.failure,
      lateRowsAdded: row.lateRowsAdded,
    };
    found.set(row.exportId, own);
    if (row.id !== null) own.latestRuns.push(row);
  }
  return found;
}
