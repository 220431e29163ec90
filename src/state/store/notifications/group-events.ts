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

/** It says whose exports it is about. @param organizationId null: several organizations */
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

/** Notes that no worker is alive, unless one has reported meanwhile. A trigger notifies the installation's targets, once. */
export async function raiseAlarm(sql: Sql): Promise<void> {
  await sql.query(
    `update installation set no_workers_since = clock_timestamp() where no_workers_since is null and ${capacityNow} = 0`,
  );
}

/** @returns whether it was known that no worker is alive */
export async function endAlarm(sql: Sql): Promise<boolean> {
  const rows = await sql.query(
    'update installation set no_workers_since = null where no_workers_since is not null returning only_row',
  );
  return rows.length > 0;
}
