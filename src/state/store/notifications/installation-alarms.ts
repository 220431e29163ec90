import type { Sql } from '../database/database.ts';
import { capacityNow } from '../runs/workers.ts';

/** What is wrong with the whole installation; a trigger notifies its targets. */
const kind = 'no_workers';

/** Notes that no worker is alive, unless one has reported meanwhile; if it is known already, nothing changes. */
export async function raiseAlarm(sql: Sql): Promise<void> {
  await sql.query(
    `insert into installation_alarms (kind) select $1 where ${capacityNow} = 0 on conflict do nothing`,
    [kind],
  );
}

/** @returns whether it was known that no worker is alive */
export async function endAlarm(sql: Sql): Promise<boolean> {
  const rows = await sql.query('delete from installation_alarms where kind = $1 returning kind', [
    kind,
  ]);
  return rows.length > 0;
}
