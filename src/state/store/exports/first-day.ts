import type { Sql } from '../database/database.ts';
import { installationId } from '../tenants/tenants.ts';

/** What an operator has made so far. */
export interface InstallationState {
  readonly organizations: number;
  readonly projects: number;
  /** Keys of operators that are valid now. */
  readonly operatorKeys: number;
  readonly notificationTargets: number;
  /** Workers that reported in the last minute. */
  readonly workers: number;
}

export async function readInstallationState(sql: Sql): Promise<InstallationState> {
  const [row] = await sql.query<InstallationState>(
    `select (select count(*) from organizations where closed_at is null and id <> '${installationId}')::int as organizations,
            (select count(*) from projects where closed_at is null)::int as projects,
            (select count(*) from api_keys where organization_id is null and revoked_at is null
                and (expires_at is null or expires_at > now()))::int as "operatorKeys",
            (select count(*) from notification_targets where enabled)::int as "notificationTargets",
            (select count(*) from workers where heartbeat_at > now() - interval '1 minute')::int as workers`,
  );
  if (!row) throw new Error('no row');
  return row;
}
