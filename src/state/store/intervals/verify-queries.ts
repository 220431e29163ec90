import type { BatchExport, StoredDestination } from '../../../foundation/domain/batch-export.ts';
import type { DestinationConfig } from '../../../foundation/domain/file-settings.ts';
import { readKey } from '../../../foundation/domain/file-name.ts';
import { parseTime } from '../../../foundation/domain/parse-time.ts';
import type { DataInterval, Timestamp } from '../../../foundation/domain/time.ts';
import type { Sql } from '../database/database.ts';
import {
  queryAny,
  queryFlag,
  queryOne,
  queryRows,
  queryValue,
  queryValues,
} from '../database/statement.ts';
import { type DestinationRow, withDestination } from '../files/stored-destination.ts';
import { type Receipt, receiptColumns } from './receipts.ts';
import { live } from '../runs/run-moves.ts';
import { type Project, tenantKeyOf } from '../tenants/tenants.ts';
import { boundsOf, isSameInterval } from '../database/times.ts';

export interface VerifiedExport
  extends Pick<BatchExport, 'id' | 'name' | 'teamId' | 'model' | 'mode' | 'dslQuery'>,
    Pick<Project, 'tenantKey' | 'externalId'> {
  readonly destination: StoredDestination;
  readonly destinationVersion: number;
  readonly highWaterMark: Timestamp | null;
}

/** Not deleted, the oldest first. @param wanted id or name; null: all @param organization id or name; null: all */
export async function listVerifiedExports(
  sql: Sql,
  wanted: string | null,
  organization: string | null = null,
): Promise<VerifiedExport[]> {
  const rows = await sql.query<DestinationRow<VerifiedExport>>(
    `select e.id, e.name, e.team_id as "teamId", ${tenantKeyOf('p')}, p.external_id as "externalId", e.model, e.mode, e.dsl_query as "dslQuery",
            e.destination_type as type, e.destination_config as config, e.destination_secrets as secrets,
            e.destination_version as "destinationVersion", e.high_water_mark as "highWaterMark"
       from batch_exports e join projects p on p.id = e.team_id join organizations o on o.id = p.organization_id
      where e.deleted_at is null and ($1::text is null or e.name = $1 or e.id::text = lower($1))
        and ($2::text is null or o.name = $2 or o.id::text = lower($2))
      order by e.created_at, e.id`,
    [wanted, organization],
  );
  return rows.map(withDestination);
}

export interface ExportSize {
  readonly intervals: number;
  readonly rows: number;
  readonly bytes: number;
}

/** By the export's id; those without a receipt are left out. */
export async function sizeExports(
  sql: Sql,
  ids: readonly string[],
): Promise<ReadonlyMap<string, ExportSize>> {
  const rows = await sql.query<ExportSize & { id: string }>(
    `select export_id as id, count(*) as intervals, sum(rows)::bigint as rows, sum(bytes)::bigint as bytes
       from receipts where export_id = any ($1::uuid[]) group by export_id`,
    [ids],
  );
  return new Map(rows.map(({ id, ...size }) => [id, size]));
}

/** A place where files of an export are, or were: its present destination, or one that it has left. */
export interface ExportPlace {
  readonly exportId: string;
  readonly version: number;
  readonly type: string;
  readonly config: DestinationConfig;
  readonly model: string;
}

export const listExportPlaces = queryRows<ExportPlace>(`
     select id as "exportId", destination_version as version, destination_type as type, destination_config as config, model
       from batch_exports
     union all
     select f.export_id, f.version, e.destination_type, f.destination_config, e.model
       from former_destinations f join batch_exports e on e.id = f.export_id`);

/** A destination that an export has left, with its secrets if they are still kept. */
export interface LeftDestination {
  readonly version: number;
  readonly destination: StoredDestination;
  /** Secrets that it had were deleted. */
  readonly isLocked: boolean;
  /** True if it is known to be another place than the present one, by whatever address. */
  readonly isOther: boolean;
}

export async function listLeftDestinations(sql: Sql, exportId: string): Promise<LeftDestination[]> {
  const rows = await sql.query<StoredDestination & Omit<LeftDestination, 'destination'>>(
    `select f.version, e.destination_type as type, f.destination_config as config, f.destination_secrets as secrets,
            f.destination_secrets is null and e.destination_secrets is not null as "isLocked",
            f.compared_with is not distinct from e.destination_version as "isOther"
       from former_destinations f join batch_exports e on e.id = f.export_id
      where f.export_id = $1 order by f.version`,
    [exportId],
  );
  return rows.map(({ version, isLocked, isOther, ...destination }) => {
    return { version, isLocked, isOther, destination };
  });
}

export const readDestinationVersion = queryValue<number, [exportId: string]>(
  `select destination_version as version from batch_exports where id = $1`,
);

/** The receipt of an interval as it is now, and whether a run of the interval is live. */
export const readReceiptNow = queryOne<
  { receipt: Receipt | null; isLive: boolean },
  [exportId: string, interval: DataInterval]
>(
  `select (select to_jsonb(r) from (select ${receiptColumns} from receipts where export_id = $1
               and data_interval_start = $2 and data_interval_end = $3) r) as receipt,
            exists (select from runs where export_id = $1 and status in ${live}
                       and data_interval_start = $2 and data_interval_end = $3) as "isLive"`,
  (exportId, interval) => [exportId, ...boundsOf(interval)],
);

/** Breaches of one kind that are looked for; a broken table may have millions. */
const most = 1_000;

/** Between current or accepted intervals, up to the mark. Without ticks: retention deletes them. */
export const findGaps = queryRows<{ start: Timestamp; end: Timestamp }, [exportId: string]>(`
     with marks as (
       select high_water_mark as reached, coalesce(mark_began_at,
              (select min(t.data_interval_start) from ticks t where t.export_id = e.id and t.fate = 'ran')) as began
         from batch_exports e where e.id = $1
     ), covered as (
       select data_interval_start, data_interval_end from receipts where export_id = $1
       union select data_interval_start, data_interval_end from accepted_intervals where export_id = $1
     ), walked as (
       select began, reached, c.data_interval_start as next,
              max(c.data_interval_end) over (order by c.data_interval_start rows between unbounded preceding and 1 preceding) as passed
         from marks join covered c on c.data_interval_start < reached and c.data_interval_end > began
       union all
       select began, reached, reached, (select max(c.data_interval_end) from covered c where c.data_interval_start < reached) from marks
     )
     select greatest(began, passed) as start, next as "end" from walked where next > greatest(began, passed) order by 1 limit ${most}`);

/** They do not share their bound. @param days after which ticks are deleted: behind an older one others may be missing */
export const findTornTicks = queryRows<
  { end: Timestamp; next: Timestamp },
  [exportId: string, days: number]
>(`
     select "end", next from (
       select data_interval_end as "end", decided_at, lead(data_interval_start) over (order by tick_at) as next
         from ticks where export_id = $1
     ) t where next is not null and next <> "end" and decided_at > now() - $2 * interval '1 day'
      order by 1 limit ${most}`);

export const findOverlaps = queryRows<{ a: Timestamp; b: Timestamp }, [exportId: string]>(`
     select a, b from (
       select data_interval_start as b,
              lag(data_interval_start) over w as a, max(data_interval_end) over (
                order by data_interval_start, data_interval_end rows between unbounded preceding and 1 preceding) as covered
         from receipts where export_id = $1 window w as (order by data_interval_start, data_interval_end)
     ) r where covered > b limit ${most}`);

/** Runs with inconsistent counts, completed without a receipt of their interval, or ended and still in the outbox. */
export const findInconsistentRuns = queryRows<{ id: string; why: string }, [exportId: string]>(`
     (select r.id, case when r.records_completed is distinct from r.records_total_count - r.records_dropped - r.records_rejected
                       then 'its counts do not agree' else 'its interval has no receipt' end as why
       from runs r
      where r.export_id = $1 and r.status = 'Completed'
        and (r.records_completed is distinct from r.records_total_count - r.records_dropped - r.records_rejected
             or not exists (select 1 from receipts c where ${isSameInterval('c', 'r')}))
      limit ${most})
     union all
     (select r.id, 'it has ended and still waits for an attempt in the outbox'
        from outbox o join runs r on r.id = o.run_id
       where o.export_id = $1 and r.status not in ${live} limit ${most})`);

/** Requested intervals without a receipt. */
export interface MissingData {
  /** All runs of the interval have ended without success. */
  readonly failed: number;
  /** An attempt has failed, and the next one follows. */
  readonly retrying: number;
  /** The first attempt has not ended yet. */
  readonly running: number;
}

export const countMissingData = queryOne<MissingData, [exportId: string]>(
  `with waiting as (
       select data_interval_start, data_interval_end, bool_or(error_code is not null or crashes > 0) as failed
         from runs r where export_id = $1 and status in ${live}
          and not exists (select from receipts c where c.export_id = $1 and c.data_interval_start = r.data_interval_start
                             and c.data_interval_end = r.data_interval_end)
        group by 1, 2)
     select (select count(*) from holes h where h.export_id = $1
                and not exists (select from waiting w where w.data_interval_start = h.data_interval_start
                                   and w.data_interval_end = h.data_interval_end)) as failed,
            count(*) filter (where w.failed) as retrying, count(*) filter (where not w.failed) as running
       from waiting w`,
);

/** An export whose files may be at a place, at a version of its destination. */
export interface PlaceOwner {
  readonly exportId: string;
  readonly version: number;
}

/** The keys of a place, by what our tables say about them. */
export interface KnownKeys {
  /** A current receipt names them. */
  readonly current: ReadonlySet<string>;
  /** Of a commit that was begun and not confirmed. */
  readonly uncommitted: ReadonlySet<string>;
  /** They were current. Sluice removes them, if the destination allows it. */
  readonly replaced: ReadonlySet<string>;
}

const idsAndVersions = (owners: readonly PlaceOwner[]) => [
  owners.map(({ exportId }) => exportId),
  owners.map(({ version }) => version),
];

export async function findKnownKeys(
  sql: Sql,
  owners: readonly PlaceOwner[],
  keys: readonly string[],
  starts: readonly string[],
): Promise<KnownKeys> {
  const rows = await sql.query<{ kind: keyof KnownKeys; key: string }>(
    `with owner as (select * from unnest($1::uuid[], $2::int[]) as o (export_id, version)),
          interval as (select distinct text::timestamptz as start from unnest($4::text[]) as text)
     select 'current' as kind, k.key
       from owner o cross join interval i
       join receipts c on c.export_id = o.export_id and c.data_interval_start = i.start and c.destination_version = o.version
       cross join lateral (select c.manifest_key as key union all
                           select f ->> 'key' from jsonb_array_elements(c.files || c.rejected_files) f) k
      where k.key = any ($3::text[])
     union all
     select case when l.uncommitted then 'uncommitted' else 'replaced' end, l.key from owner o join leftover_files l
         on l.export_id = o.export_id and l.destination_version = o.version and l.key = any ($3::text[])`,
    [...idsAndVersions(owners), keys, starts],
  );
  const of = (wanted: keyof KnownKeys) =>
    new Set(rows.flatMap(({ kind, key }) => (kind === wanted ? [key] : [])));
  return { current: of('current'), uncommitted: of('uncommitted'), replaced: of('replaced') };
}

/** Exports, of these, with a live run of an interval with this start. */
export const listWriters = queryValues<string, [owners: readonly PlaceOwner[], start: string]>(
  `select distinct export_id as id from runs
      where export_id = any ($1::uuid[]) and data_interval_start = $2 and status in ${live}`,
  (owners, start) => [owners.map(({ exportId }) => exportId), start],
);

/** Says whether the sweep aborts an upload at a key of ours, because an attempt of one of these exports may have begun it. */
export async function isUploadKnown(
  sql: Sql,
  owners: readonly PlaceOwner[],
  key: string,
): Promise<boolean> {
  const facts = readKey(key);
  if (facts === null || parseTime(facts.start) === null) return false;
  const [row] = await sql.query<{ known: boolean }>(
    `select exists (select from unnest($1::uuid[], $2::int[]) as o (export_id, version)
        join upload_places p on p.export_id = o.export_id and p.destination_version = o.version
        join runs r on r.export_id = o.export_id and r.data_interval_start = $3 and r.file_generation >= $4::numeric) as known`,
    [...idsAndVersions(owners), facts.start, facts.generation],
  );
  return row?.known === true;
}

/** The attempt that wrote a manifest. */
interface ManifestSource {
  readonly exportId: string;
  readonly runId: string;
  readonly generation: number;
  readonly era: string | null;
}

/** Says whether the run of a manifest is of this database. Old runs are deleted; then a later generation says so. */
export const isOfOurHistory = queryFlag(
  `select ($5::text is null or exists (select from eras where id::text = $5))
        and (exists (select from runs where export_id = $1 and id = $2)
         or exists (select from receipts where export_id = $1 and data_interval_start = $4 and generation > $3)) as known`,
  ({ exportId, runId, generation, era }: ManifestSource, start: string) => [
    exportId,
    runId,
    generation,
    start,
    era,
  ],
);

/** Says whether any run of an export may be writing now. */
export const hasLiveRuns = queryAny<[exportId: string]>(
  `select from runs where export_id = $1 and status in ${live} limit 1`,
);
