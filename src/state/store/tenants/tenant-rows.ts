import type { Sql } from '../database/database.ts';
import type { DeletedBatch, OffboardedTenant } from './offboardings.ts';
import { live, move, running } from '../runs/run-moves.ts';

/** Rows per statement: short locks, so that no other statement waits long. */
const batch = 2_000;

/** A key costs a look at all of `activity`. */
const keyBatch = 50;

/** How the rows of a tenant are found in a table. */
interface TenantTable {
  readonly table: string;
  /** SQL of the `ctid`s; its parameters are those of the list that it is in. */
  readonly find: string;
  /** SQL of a chain that names sources of plugins, of a row that was deleted. */
  readonly chain?: string;
  readonly rows?: number;
}

const by = (table: string, condition: string): TenantTable => ({
  table,
  find: `select t.ctid from ${table} t where ${condition}`,
});

/** With an export's rows, in the order in which foreign keys let them go. $1: the export. */
const exportTables: readonly TenantTable[] = [
  by('outbox', 't.export_id = $1'),
  by('verifications', 't.export_id = $1'),
  by('log_entries', 't.export_id = $1'),
  by('log_counts', 't.export_id = $1'),
  { ...by('receipts', 't.export_id = $1'), chain: `recipe -> 'chain'` },
  by('superseded_receipts', 't.export_id = $1'),
  by('stated_intervals', 't.export_id = $1'),
  by('statements', 't.export_id = $1'),
  by('statement_chains', 't.export_id = $1'),
  by('late_intervals', 't.export_id = $1'),
  by('deadline_checks', 't.export_id = $1'),
  by('automatic_pauses', 't.export_id = $1'),
  by('holes', 't.export_id = $1'),
  by('accepted_intervals', 't.export_id = $1'),
  by('leftover_files', 't.export_id = $1'),
  by('ticks', 't.export_id = $1'),
  {
    table: 'notification_deliveries',
    find: `select t.ctid from notification_events v join notification_deliveries t on t.event_id = v.id where v.export_id = $1`,
  },
  by('notification_events', 't.export_id = $1'),
  by('upload_places', 't.export_id = $1'),
  { ...by('runs', 't.export_id = $1'), chain: 'chain' },
  by('backfills', 't.export_id = $1'),
  by('guarded_work', 't.id = $1::text'),
  by('former_destinations', 't.export_id = $1'),
  by('batch_exports', 't.id = $1'),
];

/** SQL that is true for the projects of a tenant. $1: the organization, $2: the project or null. */
const ofTenant = (column: string): string =>
  `${column} in (select id from projects where organization_id = $1 and ($2::int is null or id = $2))`;

/** SQL that is true for a key, aliased `k`, which has access to nothing else. */
const ownKey = `k.organization_id = $1 and ($2::int is null or k.project_ids <@ array[$2::int])`;

/** SQL that is true for rows of the whole organization, or of the project. */
const inTenant = `t.organization_id = $1 and ($2::int is null or t.team_id = $2)`;

const byConfig = (table: string): TenantTable => ({
  table,
  find: `select t.ctid from ${table} t join pipeline_transformation_configs c on c.id = t.config_id where ${ofTenant('c.team_id')}`,
});

/** The other rows of a tenant, after those of its exports. $1: the organization, $2: the project or null. */
const tenantTables: readonly TenantTable[] = [
  byConfig('transformation_jobs'),
  byConfig('transformation_rates'),
  by('pipeline_transformation_configs', ofTenant('t.team_id')),
  by('transformation_versions', ofTenant('t.team_id')),
  by('worker_seconds', ofTenant('t.team_id')),
  {
    table: 'notification_deliveries',
    find: `select d.ctid from notification_targets t join notification_deliveries d on d.target_id = t.id where ${inTenant}`,
  },
  {
    table: 'notification_deliveries',
    find: `select d.ctid from notification_events t join notification_deliveries d on d.event_id = t.id where ${inTenant}`,
  },
  by('notification_events', inTenant),
  by('notification_targets', inTenant),
  {
    ...by('plugins', 't.organization_id = $1 and $2::int is null'),
    chain: `jsonb_build_array(jsonb_build_object('source', source_sha256))`,
  },
  by('stored_bytes', 't.organization_id = $1 and $2::int is null'),
  by('activity', inTenant),
  by(
    'activity',
    `t.subject_type = 'api_key' and t.subject_id in (select k.id::text from api_keys k where ${ownKey})`,
  ),
  by(
    'idempotency_keys',
    `t.key_id in (select k.id from api_keys k where ${ownKey})
       or $2::int is not null and t.key_id in (select k.id from api_keys k where k.organization_id = $1)
          and t.response ~ ('"team_id": ?' || $2::int || '[,}]')`,
  ),
  by('rate_limits', `t.key_id in (select k.id from api_keys k where ${ownKey})`),
  { ...by('api_keys', ownKey.replaceAll('k.', 't.')), rows: keyBatch },
];

/** Last, in one transaction. */
const ownerTables: readonly TenantTable[] = [
  by('projects', ofTenant('t.id')),
  by('organizations', 't.id = $1 and $2::int is null'),
];

/** What deletes the rows of a table. */
export interface Deleter {
  readonly table: string;
  /** Deletes one batch in a transaction. */
  deleteBatch(tx: Sql): Promise<DeletedBatch>;
}

const deletion = ({ table, find, chain = 'null::jsonb', rows = batch }: TenantTable): string =>
  `with gone as (
     delete from ${table} where ctid = any (array(${find} limit ${rows})) returning ${chain} as chain
   )
   select (select count(*) from gone) as rows, coalesce(array_agg(distinct step ->> 'source') filter (where step ? 'source'), '{}') as sources
     from gone cross join lateral jsonb_array_elements(case when jsonb_typeof(chain) = 'array' then chain else '[]' end) step`;

const deleterOf = (found: TenantTable, values: readonly unknown[]): Deleter => ({
  table: found.table,
  async deleteBatch(tx) {
    const [row] = await tx.query<Omit<DeletedBatch, 'table'>>(deletion(found), values);
    return { table: found.table, rows: row?.rows ?? 0, sources: row?.sources ?? [] };
  },
});

/**
 * Everything of an export, which must have no live run; each is called until it deletes nothing. A table that can have rows of
 * tenants must be in one of these three lists, or be `plugin_sources`.
 */
export const deletersOfExport = (exportId: string): readonly Deleter[] =>
  exportTables.map((table) => deleterOf(table, [exportId]));

/** What else a tenant without exports has, but itself. */
export const deletersOfTenant = ({
  organizationId,
  teamId,
}: OffboardedTenant): readonly Deleter[] =>
  tenantTables.map((table) => deleterOf(table, [organizationId, teamId]));

/** The projects and the organization. Fails with a violated foreign key if they have rows again. */
export const deletersOfOwner = ({ organizationId, teamId }: OffboardedTenant): readonly Deleter[] =>
  ownerTables.map((table) => deleterOf(table, [organizationId, teamId]));

/** What another tenant's rows say about a key that goes: the installation's own history, without the key. */
export async function forgetActingKeys(
  sql: Sql,
  { organizationId, teamId }: OffboardedTenant,
): Promise<void> {
  await sql.query(
    `update activity set key_id = null where key_id in (select k.id from api_keys k where ${ownKey})
        and not coalesce(organization_id = $1 and $2::int is null, false)`,
    [organizationId, teamId],
  );
}

/** Exports of a tenant that are not deleted yet, or have a live run. */
export async function listExportsUnderWay(
  sql: Sql,
  { organizationId, teamId }: OffboardedTenant,
  limit: number,
): Promise<string[]> {
  const rows = await sql.query<{ id: string }>(
    `select e.id from batch_exports e where ${ofTenant('e.team_id')} and (e.deleted_at is null
        or exists (select from runs r where r.export_id = e.id and r.status in ${live} and r.committing_at is null)
        or exists (select from backfills b where b.export_id = e.id and b.status = 'Running'))
      limit $3`,
    [organizationId, teamId, limit],
  );
  return rows.map(({ id }) => id);
}

/**
 * Ends runs whose worker fell silent while it committed, and lets the sweep look for uploads at once: with its uploads aborted, a worker that wakes up completes no file. One that froze after its last file may still put the manifest,
 * but records nothing.
 *
 * @returns whether a live run is left
 */
export async function endSilentCommits(
  tx: Sql,
  { organizationId, teamId }: OffboardedTenant,
): Promise<boolean> {
  const ofLive = `from runs r join batch_exports e on e.id = r.export_id
      where ${ofTenant('e.team_id')} and r.status in ${live}`;
  const silent = await tx.query<{ id: string }>(
    `select r.id ${ofLive} and r.status = ${running} and r.committing_at is not null and r.lease_expires_at < now()
      order by r.id limit ${batch} for no key update of r`,
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
  const left = await tx.query(`select ${ofLive} limit 1`, [organizationId, teamId]);
  return left.length > 0;
}

/** Whether a tenant may have uploads that are neither completed nor aborted. */
export async function hasOpenUploads(
  sql: Sql,
  { organizationId, teamId }: OffboardedTenant,
): Promise<boolean> {
  const rows = await sql.query(
    `select from upload_places p join batch_exports e on e.id = p.export_id where ${ofTenant('e.team_id')} limit 1`,
    [organizationId, teamId],
  );
  return rows.length > 0;
}

/** An export that a tenant still has. */
export interface RemainingExport {
  readonly id: string;
  /** It was created since the tenant's exports were deleted, or has a run that has not ended. */
  readonly isUnderWay: boolean;
}

export async function findAnyExport(
  sql: Sql,
  { organizationId, teamId }: OffboardedTenant,
): Promise<RemainingExport | null> {
  const [row] = await sql.query<RemainingExport>(
    `select e.id, e.deleted_at is null or exists (select from runs r where r.export_id = e.id and r.status in ${live}) as "isUnderWay"
       from batch_exports e where ${ofTenant('e.team_id')} limit 1`,
    [organizationId, teamId],
  );
  return row ?? null;
}

/** Deletes sources that the tenant's plugins had and that nothing of another tenant names. @returns how many */
export async function deleteUnusedSources(tx: Sql, offboardingId: string): Promise<number> {
  const wanted = `s.sha256 = any ((select plugin_sources from offboardings where id = $1)::text[])
        and not exists (select from plugins p where p.source_sha256 = s.sha256)`;
  const found = await tx.query(`select from plugin_sources s where ${wanted} limit 1`, [
    offboardingId,
  ]);
  // Only then are all chains read.
  if (found.length === 0) return 0;
  const rows = await tx.query(
    `with named as (
       select step ->> 'source' as sha256 from runs r, jsonb_array_elements(r.chain) step where r.chain is not null
       union select step ->> 'source' from receipts c, jsonb_array_elements(c.recipe -> 'chain') step
               where jsonb_typeof(c.recipe -> 'chain') = 'array'
     )
     delete from plugin_sources s where ${wanted} and not exists (select from named n where n.sha256 = s.sha256)
     returning 1`,
    [offboardingId],
  );
  return rows.length;
}

/** Deletes what a statement that began before the deletion has written since, in tables without a foreign key. */
export async function deleteStragglers(sql: Sql, offboardingId: string): Promise<void> {
  const ofPlaces = `select export_id from offboarding_places where offboarding_id = $1`;
  await sql.query(`delete from log_entries where export_id in (${ofPlaces})`, [offboardingId]);
  await sql.query(`delete from log_counts where export_id in (${ofPlaces})`, [offboardingId]);
  await sql.query(
    `delete from rate_limits l where not exists (select from api_keys k where k.id = l.key_id)`,
  );
  await sql.query(
    `delete from stored_bytes t where not exists (select from organizations o where o.id = t.organization_id)`,
  );
}

/** Which of these ids belong to no run and no backfill. */
export async function findGoneWork(sql: Sql, ids: readonly string[]): Promise<ReadonlySet<string>> {
  const rows = await sql.query<{ id: string }>(
    `select asked.id from unnest($1::uuid[]) as asked (id)
      where not exists (select from runs r where r.id = asked.id) and not exists (select from backfills b where b.id = asked.id)`,
    [ids],
  );
  return new Set(rows.map(({ id }) => id));
}
