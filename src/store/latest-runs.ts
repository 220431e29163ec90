import type { Sql } from './database.ts';
import { type Run, runColumns } from './runs.ts';

/** The `perExport` newest runs of each export, newest first, in one query for a whole page. */
export async function findLatestRuns(
  sql: Sql,
  exportIds: readonly string[],
  perExport: number,
): Promise<Map<string, Run[]>> {
  const latest = new Map<string, Run[]>(exportIds.map((id) => [id, []]));
  if (exportIds.length === 0) return latest;
  const rows = await sql.query<Run>(
    `select newest.* from unnest($1::uuid[]) as page (export_id),
       lateral (select ${runColumns} from runs r where r.export_id = page.export_id
                 order by r.created_at desc, r.id desc limit $2) as newest`,
    [exportIds, perExport],
  );
  for (const run of rows) latest.get(run.exportId)?.push(run);
  return latest;
}
