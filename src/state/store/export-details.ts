import { type Holes, type HolesRow, holesColumns, holesFrom, toHoles } from './coverage.ts';
import type { Sql } from './database.ts';
import { prepared } from './prepared.ts';
import { ownRunColumns, type Run } from './runs.ts';

/** What an answer shows of an export beside its own row. */
export interface ExportDetails {
  /** The 10 newest, newest first. */
  readonly latestRuns: readonly Run[];
  readonly holes: Holes;
}

// The planner cannot count an array that comes from a subquery. If it could, it would make a plan for each request, which
// takes several times as long as the statement itself.
const details = prepared(`select ${holesColumns}, newest.*
  from ${holesFrom}
  left join lateral (select ${ownRunColumns} from runs r where r.export_id = e.id
                      order by r.created_at desc, r.id desc limit 10) as newest on true
 where e.id = any ((select $1)::uuid[])`);

/** Of each of these exports: one statement for a whole page. Each run's row repeats the holes of its export. */
export async function findExportDetails(
  sql: Sql,
  exportIds: readonly string[],
): Promise<ReadonlyMap<string, ExportDetails>> {
  if (exportIds.length === 0) return new Map();
  const rows = await sql.query<(Run | { id: null }) & HolesRow>(details, [exportIds]);
  const found = new Map<string, { latestRuns: Run[]; holes: Holes }>();
  for (const row of rows) {
    const own = found.get(row.exportId) ?? { latestRuns: [], holes: toHoles(row) };
    found.set(row.exportId, own);
    if (row.id !== null) own.latestRuns.push(row);
  }
  return found;
}
