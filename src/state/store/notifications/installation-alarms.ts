import type { Sql } from '../database/database.ts';

/** What can be wrong with the whole installation. A trigger notifies its targets. */
type AlarmKind = 'no_workers';

/** Notes that it is wrong; if it is known already, nothing changes. */
export async function raiseAlarm(sql: Sql, kind: AlarmKind): Promise<void> {
  await sql.query('insert into installation_alarms (kind) values ($1) on conflict do nothing', [
    kind,
  ]);
}

/** @returns whether it was wrong */
export async function endAlarm(sql: Sql, kind: AlarmKind): Promise<boolean> {
  const rows = await sql.query('delete from installation_alarms where kind = $1 returning kind', [
    kind,
  ]);
  return rows.length > 0;
}
