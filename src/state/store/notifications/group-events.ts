import type { NotificationType } from '../../../foundation/domain/notification.ts';
import type { Sql } from '../database/database.ts';
import { installationId } from '../tenants/tenants.ts';
import { capacityNow } from '../runs/workers.ts';

/** Records one event for the targets of an organization, or of one of its projects, that ask for it. */
export async function notifyGroup(
  tx: Sql,
  organizationId: string,
  teamId: number | null,
  type: NotificationType,
  facts: Readonly<Record<string, unknown>>,
): Promise<void> {
  await tx.query(`select notify_group($1, $2, $3, $4)`, [
    organizationId,
    teamId,
    type,
    JSON.stringify(facts),
  ]);
}

/**
 * Records one event for the targets of the installation that ask for it. It says whose exports it is about.
 *
 * @param organizationId null: several organizations
 */
export async function notifyInstallation(
  tx: Sql,
  organizationId: string | null,
  type: NotificationType,
  facts: Readonly<Record<string, unknown>>,
): Promise<void> {
  await tx.query(
    `select notify_group($1, null, $3, $4::jsonb || coalesce(
       (select jsonb_build_object('organization', jsonb_build_object('id', o.id, 'name', o.name)) from organizations o where o.id = $2), '{}'))`,
    [installationId, organizationId, type, JSON.stringify(facts)],
  );
}

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
