import type { Sql } from '../database/database.ts';
import { queryAny, queryValues } from '../database/statement.ts';
import { deleteOldPluginSources } from '../database/retention.ts';
import { live, move, running } from '../runs/run-moves.ts';
import type { Reach } from './tenants.ts';

/** A table, and SQL that is true for its rows, aliased `t`, of exports or a tenant. */
type TenantTable = readonly [table: string, condition: string];

/** Exports; foreign keys delete their rows with them, but for the last two, whose writers must not wait for it. $1: the exports. */
const exportTables: readonly TenantTable[] = [
  ['batch_exports', 't.id = any ($1::uuid[])'],
  ['guarded_work', 't.id = any ($1::text[])'],
  ['log_entries', 't.export_id = any ($1::uuid[])'],
];

/** SQL that is true for the projects of a tenant. $1: the organization, $2: the project or null. */
const ofTenant = (column: string): string =>
  `${column} in (select id from projects where organization_id = $1 and ($2::int is null or id = $2))`;

/** SQL of the keys that have access to nothing else. */
const tenantKeys = `(select k.id from api_keys k where k.organization_id = $1 and ($2::int is null or k.project_ids <@ array[$2::int]))`;

/** SQL that is true for rows of the whole organization, or of the project. */
const inTenant = `t.organization_id = $1 and ($2::int is null or t.team_id = $2)`;

const ofOrganization = 't.organization_id = $1 and $2::int is null';

/** The other rows of a tenant, in the order in which they are deleted. Foreign keys delete what belongs to them. */
const tenantRoots: readonly TenantTable[] = [
  [
    'idempotency_keys',
    `t.key_id in ${tenantKeys}
       or $2::int is not null and t.key_id in (select k.id from api_keys k where k.organization_id = $1)
          and t.response ~ ('"team_id": ?' || $2::int || '[,}]')`,
  ],
  [
    'activity',
    `${inTenant} or t.subject_type = 'api_key' and t.subject_id in (select id::text from ${tenantKeys} k)`,
  ],
  ['used_budgets', `t.owner in ${tenantKeys} or t.owner = $1 and $2::int is null`],
  ['api_keys', `t.id in ${tenantKeys}`],
  ['projects', ofTenant('t.id')],
  ['organizations', 't.id = $1 and $2::int is null'],
];

type Values = readonly unknown[];

async function deleteRows(tx: Sql, tables: readonly TenantTable[], values: Values) {
  for (const [table, condition] of tables) {
    await tx.query(`delete from ${table} t where ${condition}`, values);
  }
}

export const lockExportsOf = queryValues<string, [reach: Reach, limit: number]>(
  `select e.id from batch_exports e where ${ofTenant('e.team_id')} order by e.id limit $3 for update`,
  ({ organizationId, teamId }, limit) => [organizationId, teamId, limit],
);

export async function deleteExports(
  tx: Sql,
  { organizationId }: Reach,
  exportIds: readonly string[],
): Promise<void> {
  await tx.query(
    markSources(
      `select pinned ->> 'source' from runs r, jsonb_array_elements(r.chain) pinned where r.export_id = any ($1::uuid[])
       union select pinned ->> 'source' from receipts c, jsonb_array_elements(c.recipe -> 'chain') pinned
              where c.export_id = any ($1::uuid[]) and jsonb_typeof(c.recipe -> 'chain') = 'array'`,
      '$2',
    ),
    [exportIds, organizationId],
  );
  await deleteRows(tx, exportTables, [exportIds]);
}

/** Marks sources that are deleted with the tenant, if nothing names them then. @param organization SQL of the tenant's */
const markSources = (digests: string, organization: string): string =>
  `update plugin_sources s set replaced_at = 'epoch' where sha256 in (${digests})
      and not exists (select from plugins p where p.source_sha256 = s.sha256 and p.organization_id <> ${organization})`;

/** Locks the projects and the organization that are deleted: an insert of an export or a project that began before is visible afterwards, and a later one fails. */
export async function lockTenant(tx: Sql, { organizationId, teamId }: Reach) {
  const values = [organizationId, teamId];
  await tx.query(`select from organizations where id = $1 and $2::int is null for update`, values);
  await tx.query(`select from projects t where ${ofTenant('t.id')} for update`, values);
}

/** Deletes a tenant that has no exports, with everything of its own. */
export async function deleteTenant(tx: Sql, { organizationId, teamId }: Reach): Promise<void> {
  const values = [organizationId, teamId];
  await tx.query(
    markSources(`select t.source_sha256 from plugins t where ${ofOrganization}`, '$1'),
    values,
  );
  await deleteRows(tx, tenantRoots, values);
}

/** Exports of a tenant, or of these of it, that are not deleted yet or have a live run. */
export const listExportsUnderWay = queryValues<
  string,
  [reach: Reach, limit: number, exportIds?: readonly string[]]
>(
  `select e.id from batch_exports e where ${ofTenant('e.team_id')} and ($4::uuid[] is null or e.id = any ($4)) and (e.deleted_at is null
        or exists (select from runs r where r.export_id = e.id and r.status in ${live} and r.committing_at is null)
        or exists (select from backfills b where b.export_id = e.id and b.status = 'Running'))
      order by e.id limit $3`,
  ({ organizationId, teamId }, limit, exportIds) => [
    organizationId,
    teamId,
    limit,
    exportIds ?? null,
  ],
);

/** Without its uploads a worker that wakes up completes no file, and records nothing. @returns whether a live run is left */
export async function endSilentCommits(
  tx: Sql,
  { organizationId, teamId }: Reach,
): Promise<boolean> {
  const ofLive = `from runs r join batch_exports e on e.id = r.export_id
      where ${ofTenant('e.team_id')} and r.status in ${live}`;
  const silent = await tx.query<{ id: string }>(
    `select r.id ${ofLive} and r.status = ${running} and r.committing_at is not null and r.lease_expires_at < now()
      order by r.id limit 2000 for no key update of r`,
    [organizationId, teamId],
  );
  const ids = silent.map(({ id }) => id);
  await tx.query(
    `update runs set ${move('cancelled')}, fence = fence + 1, finished_at = now(), last_updated_at = now(), lease_holder = null
      where id = any ($1::uuid[])`,
    [ids],
  );
  await tx.query(
    `update upload_places p set look_at = now() from batch_exports e
      where e.id = p.export_id and ${ofTenant('e.team_id')} and p.tries = 0 and p.look_at > now()
        and not exists (select from runs r where r.export_id = e.id and r.status in ${live})`,
    [organizationId, teamId],
  );
  const liveRuns = await tx.query(`select ${ofLive} limit 1`, [organizationId, teamId]);
  return liveRuns.length > 0;
}

/** Says whether a tenant may have uploads that are neither completed nor aborted. */
export const hasOpenUploads = queryAny(
  `select from upload_places p join batch_exports e on e.id = p.export_id where ${ofTenant('e.team_id')} limit 1`,
  ({ organizationId, teamId }: Reach) => [organizationId, teamId],
);

/** Rows that nothing names any more, and rows of a statement that began before the deletion. */
export async function deleteStragglers(tx: Sql, offboardingId: string): Promise<void> {
  const ofPlaces = `select (p ->> 'exportId')::uuid from offboardings o, jsonb_array_elements(o.places) p where o.id = $1`;
  await tx.query(`delete from log_entries where export_id in (${ofPlaces})`, [offboardingId]);
  await tx.query(
    `delete from used_budgets b where not exists (select from api_keys k where k.id = b.owner)
        and not exists (select from organizations o where o.id = b.owner)`,
  );
  // Only those with the mark are that old.
  await deleteOldPluginSources(tx, 10_000);
}
