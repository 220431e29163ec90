import type { Sql } from '../database/database.ts';
import { installationId } from '../tenants/tenants.ts';

/** The things that an operator has made so far. */
export interface InstallationState {
  readonly organizations: number;
  readonly projects: number;
  /** Keys of operators that are valid now. */
  readonly operatorKeys: number;
  /** Enabled notification targets of the installation. */
  readonly targets: number;
  /** Those whose newest attempt succeeded, if the log still has one. */
  readonly reachedTargets: number;
  /** Workers that reported in the last minute. */
  readonly workers: number;
  /** Exports that are not paused. */
  readonly activeExports: number;
}

export async function readInstallationState(sql: Sql): Promise<InstallationState> {
  const [row] = await sql.query<InstallationState>(
    `select (select count(*) from organizations where closed_at is null and id <> '${installationId}')::int as organizations,
            (select count(*) from projects where closed_at is null)::int as projects,
            (select count(*) from api_keys where organization_id is null and revoked_at is null
                and (expires_at is null or expires_at > now()))::int as "operatorKeys",
            (select count(*) from notification_targets where enabled and organization_id = '${installationId}')::int as targets,
            (select count(*) from notification_targets t
              where enabled and organization_id = '${installationId}' and failing_since is null
                and exists (select from notification_deliveries d where d.target_id = t.id and d.status = 'delivered'))::int as "reachedTargets",
            (select count(*) from workers where heartbeat_at > now() - interval '1 minute')::int as workers,
            (select count(*) from batch_exports where deleted_at is null and not paused)::int as "activeExports"`,
  );
  if (!row) throw new Error('no row');
  return row;
}
