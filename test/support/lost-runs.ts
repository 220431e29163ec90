import type { Sql } from '../../src/state/store/database/database.ts';
import { live } from '../../src/state/store/runs/run-moves.ts';

/**
 * Runs that wait for nothing although they have not ended, and outbox rows of runs that have ended.
 *
 * @param exportId null: of all exports
 */
export async function findLostRuns(
  sql: Sql,
  exportId: string | null,
): Promise<{ id: string; why: string }[]> {
  return sql.query(
    `select o.run_id as id, 'it has ended and still waits to be started' as why
       from outbox o join runs r on r.id = o.run_id
      where ($1::uuid is null or o.export_id = $1) and r.status not in ${live}
     union all
     select r.id, 'it has not ended, and nothing will start it'
       from runs r
      where ($1::uuid is null or r.export_id = $1) and r.status in ${live} and r.lease_expires_at is null
        and not exists (select from outbox o where o.run_id = r.id)`,
    [exportId],
  );
}
