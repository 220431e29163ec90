import type { BatchExport } from '../domain/batch-export.ts';
import type { DestinationConfig } from '../domain/file-settings.ts';
import type { PinnedStep } from '../domain/recipe.ts';
import type { RunPurpose } from '../domain/run.ts';
import { readTraits, type StoreTraits, traitsValidDays } from '../domain/store-traits.ts';
import type { DataInterval } from '../domain/time.ts';
import { pinnedChainOf } from './chains.ts';
import type { Sql, Transactor } from './database.ts';
import { type EraFacts, eraFacts, resolveEra } from './eras.ts';
import type { Joint } from './joint.ts';
import type { Lease } from './lease.ts';
import { enqueueRuns } from './outbox.ts';
import { anyNumber, prepared } from './prepared.ts';
import { type Receipt, receiptColumns } from './receipts.ts';
import { move, running } from './run-moves.ts';
import { currentTraits } from './store-traits.ts';
import { intervalOf } from './times.ts';
import { type LineageUpload, openUploadsOf } from './uploads.ts';

/** A claimed run with everything needed to execute it. Its secrets are still encrypted. */
export interface ClaimedRun extends Lease {
  readonly exportId: string;
  readonly teamId: number;
  readonly backfillId: string | null;
  readonly purpose: RunPurpose;
  /** The rows to erase, sealed; null unless that is its purpose. */
  readonly erases: Buffer | null;
  /** Whether delivered rows may go that the new files lack: a person asked for it. */
  readonly dropsMissing: boolean;
  readonly attempt: number;
  /** 0 for the first run of the interval. */
  readonly generation: number;
  /** Attempts whose lease expired since the run last made progress: their worker died or fell silent. */
  readonly crashes: number;
  readonly faults: number;
  readonly interval: DataInterval;
  readonly cursor: unknown;
  /** The generation under which this attempt writes its files: that of its lineage. */
  readonly fileGeneration: number;
  /** What an earlier attempt was about to commit; null if no attempt got that far. */
  readonly commitIntent: unknown;
  /** Whether its export was deleted while an attempt committed: the run ends without another commit. */
  readonly isDeleted: boolean;
  readonly destination: BatchExport['destination'];
  /** How often the export's destination had moved when the run was claimed. */
  readonly destinationVersion: number;
  readonly model: string;
  readonly dslQuery: string | null;
  /** The transformation chain that its first claim decided; empty if no step changes the rows. */
  readonly chain: readonly PinnedStep[];
  /** The external ID that the customer's role trusts. */
  readonly externalId: string;
  /** How long before the claim the export was changed. */
  readonly changedForMs: number;
  /** What an earlier probe of its destination found; null if it must be probed. */
  readonly storeTraits: StoreTraits | null;
  /** The id of the current era. */
  readonly era: string;
  /** Of the interval; null before its first commit. */
  readonly receipt: Receipt | null;
  /** What earlier attempts left open at this version of the destination. */
  readonly uploads: readonly LineageUpload[];
  /**
   * Whether a commit of the interval was begun and never confirmed, at any version: the export may have
   * come back to a place where such a worker still writes.
   */
  readonly mayBeOvertaken: boolean;
  /** MD5 digests of the manifests whose commits were begun for the interval and are not recorded. */
  readonly begunManifests: readonly string[];
}

/**
 * An attempt continues an earlier attempt's files if that attempt never began its commit. Otherwise it
 * begins a lineage, with a number above all that the interval ever had.
 */
const nextGeneration = `case when file_generation is not null and committing_generation is distinct from file_generation then file_generation else 1 + greatest(0,
  (select max(o.file_generation) from runs o where o.export_id = runs.export_id
      and o.data_interval_start = runs.data_interval_start and o.data_interval_end = runs.data_interval_end),
  (select c.generation from receipts c where c.export_id = runs.export_id
      and c.data_interval_start = runs.data_interval_start and c.data_interval_end = runs.data_interval_end),
  (select max(l.generation) from leftover_files l where l.export_id = runs.export_id
      and l.data_interval_start = runs.data_interval_start and l.data_interval_end = runs.data_interval_end)) end`;

/** What is added to files, or taken from them, is made by the chain that made them. */
const chainOf = `case when purpose = 'whole' then ${pinnedChainOf('runs')} else coalesce(runs.chain,
  (select c.recipe->'chain' from receipts c where c.export_id = runs.export_id
      and c.data_interval_start = runs.data_interval_start and c.data_interval_end = runs.data_interval_end), '[]') end`;

/**
 * Claims runs and reads what their attempts need. An attempt ends as it began: nothing of its interval can change
 * under its lease but by itself.
 *
 * A run is left if another transaction has locked it or its row of the outbox, or has changed the run since the
 * statement began: what its last holder wrote may be unknown to the statement. So the statement waits for no lock.
 */
const claimSql = prepared(`with asked as materialized (
       select * from unnest($1::uuid[], $2::text[]) as a (id, holder) ${anyNumber}
     ), locked as materialized (
       select asked.holder, run.*, entry.* from asked, lateral (
           select r.id, r.xmin = (select seen.xmin from runs seen where seen.id = r.id) as is_fresh
             from runs r where r.id = asked.id for no key update skip locked) run
         left join lateral (
           select o.run_id as entry_id, o.available_at, o.small as was_small
             from outbox o where o.run_id = run.id for update skip locked) entry on true
     ), claimed as (
       update runs set ${move('claimed')}, attempt = attempt + 1, fence = fence + 1,
              -- A hand-back clears the holder, and so does every statement that takes the lease away.
              crashes = crashes + coalesce(lease_holder <> locked.holder, false)::int,
              lease_holder = locked.holder, lease_expires_at = now() + $3 * interval '1 ms', committing_at = null,
              started_at = coalesce(started_at, now()), last_updated_at = now(), chain = ${chainOf}, file_generation = ${nextGeneration},
              small = coalesce(locked.was_small, false)
         from locked
        where runs.id = locked.id and locked.is_fresh and (status = 'Starting'
           or status = ${running} and (lease_expires_at is null or lease_expires_at < now() or lease_holder = locked.holder))
          and case when locked.entry_id is null then not exists (select from outbox where run_id = runs.id) else locked.available_at <= now() end
       returning runs.*
     ), taken as (
       delete from outbox o using claimed where o.run_id = claimed.id
     )
     select c.id as "runId", c.lease_holder as holder, c.fence, c.export_id as "exportId", c.team_id as "teamId", c.backfill_id as "backfillId",
            c.purpose, c.erases, c.drops_missing as "dropsMissing", c.attempt, c.generation, c.crashes, c.faults, ${intervalOf('c')} as interval,
            c.cursor, c.file_generation as "fileGeneration", c.commit_intent as "commitIntent", e.destination_type as "destinationType", e.destination_config as "destinationConfig",
            e.destination_secrets as "destinationSecrets", e.destination_version as "destinationVersion", e.deleted_at is not null as "isDeleted", e.model, e.dsl_query as "dslQuery", p.external_id as "externalId", c.chain,
            (extract(epoch from now() - e.last_updated_at) * 1000)::float8 as "changedForMs",
            ${currentTraits} as "storeTraits", ${eraFacts},
            (select to_jsonb(found) from (select ${receiptColumns} from receipts where export_id = c.export_id
                and data_interval_start = c.data_interval_start and data_interval_end = c.data_interval_end) found) as receipt,
            ${openUploadsOf('c.id', 'e.destination_version')} as uploads,
            exists (select from leftover_files l where l.export_id = c.export_id and l.data_interval_start = c.data_interval_start
                and l.data_interval_end = c.data_interval_end and l.uncommitted) as "mayBeOvertaken",
            -- No other commit of the interval can begin while this attempt has the lease.
            array(select distinct d.digest from runs r, jsonb_array_elements_text(r.commit_intent->'begunManifests') as d (digest)
                where r.export_id = c.export_id and r.data_interval_start = c.data_interval_start and r.data_interval_end = c.data_interval_end
                  and r.committing_generation > coalesce((select o.generation from receipts o where o.export_id = r.export_id
                        and o.data_interval_start = r.data_interval_start and o.data_interval_end = r.data_interval_end), 0)) as "begunManifests"
       from claimed c join batch_exports e on e.id = c.export_id join projects p on p.id = c.team_id`);

interface ClaimRow extends Omit<ClaimedRun, 'destination' | 'storeTraits' | 'era'>, EraFacts {
  readonly holder: string;
  readonly destinationType: string;
  readonly destinationConfig: DestinationConfig;
  readonly destinationSecrets: Buffer | null;
  readonly storeTraits: Partial<StoreTraits> | null;
}

/** Asks for the lease of a run. */
export interface ClaimRequest {
  readonly runId: string;
  /** Names this claim: if its answer was lost, the claim may be repeated. */
  readonly holder: string;
}

/**
 * Takes the lease of a run that waits for an attempt, or whose lease expired, and removes the run from the
 * outbox. Removes it even if it cannot be taken: the current holder re-enqueues it. A run that is not due
 * yet (backoff, jitter) stays in the outbox.
 *
 * @param holder names this claim: if its answer was lost, the claim may be repeated
 * @param joint default: the claim is a statement of its own
 * @returns null if the run has ended, is held by another worker, is not due yet, or does not exist
 */
export async function claimRun(
  db: Transactor,
  runId: string,
  holder: string,
  leaseMs: number,
  joint: Joint<ClaimRequest, ClaimedRun> = claimsAlone(db, leaseMs),
): Promise<ClaimedRun | null> {
  const request = { runId, holder };
  // Almost always no other transaction changes the run at this moment: then one statement is enough.
  return (await joint.take(request)) ?? claimLocked(db, request, leaseMs);
}

const claimsAlone = (db: Sql, leaseMs: number): Joint<ClaimRequest, ClaimedRun> => ({
  take: async (request) => (await claimFree(db, [request], leaseMs))[0] ?? null,
});

/**
 * Claims runs by one statement, which waits for none of them.
 *
 * @returns in the order of the requests; null for a run that is locked or changes at this moment, or cannot be taken
 */
export async function claimFree(
  sql: Sql,
  requests: readonly ClaimRequest[],
  leaseMs: number,
): Promise<readonly (ClaimedRun | null)[]> {
  const rows = await sql.query<ClaimRow>(claimSql, [
    requests.map(({ runId }) => runId),
    requests.map(({ holder }) => holder),
    leaseMs,
    traitsValidDays,
  ]);
  const claimed = new Map<string, ClaimedRun>();
  for (const { holder, ...row } of rows) claimed.set(holder, await toClaimedRun(sql, row));
  return requests.map(({ holder }) => claimed.get(holder) ?? null);
}

/** Other transactions wait until this one ends, before they change the run. */
export async function lockRuns(tx: Sql, runIds: readonly string[]): Promise<void> {
  await tx.query(lockRunsSql, [runIds]);
}

function claimLocked(
  db: Transactor,
  request: ClaimRequest,
  leaseMs: number,
): Promise<ClaimedRun | null> {
  return db.transaction(async (tx) => {
    // Locked first, in its own statement, so that the next one sees what the last holder wrote.
    await lockRuns(tx, [request.runId]);
    await tx.query(lockEntry, [request.runId]);
    const [run = null] = await claimFree(tx, [request], leaseMs);
    if (run === null) await tx.query(removeDue, [request.runId]);
    return run;
  });
}

const lockRunsSql = prepared(
  `select from runs where id = any ($1::uuid[]) order by id for no key update`,
);
const lockEntry = prepared(`select from outbox where run_id = $1 for update`);
const removeDue = prepared(`delete from outbox where run_id = $1 and available_at <= now()`);

async function toClaimedRun(sql: Sql, row: Omit<ClaimRow, 'holder'>): Promise<ClaimedRun> {
  const { destinationType, destinationConfig, destinationSecrets, ...rest } = row;
  const { storeTraits, newestEra, place, ...claimed } = rest;
  return {
    ...claimed,
    destination: { type: destinationType, config: destinationConfig, secrets: destinationSecrets },
    storeTraits: readTraits(storeTraits),
    era: (await resolveEra(sql, { newestEra, place })).id,
  };
}

/**
 * Extends leases.
 *
 * @returns the ids of the runs still held; the others were cancelled or taken over
 */
export async function renewLeases(
  sql: Sql,
  leases: readonly Lease[],
  leaseMs: number,
): Promise<ReadonlySet<string>> {
  const rows = await sql.query<{ id: string }>(
    prepared(`update runs r set lease_expires_at = now() + $3 * interval '1 ms'
       from unnest($1::uuid[], $2::bigint[]) as held (id, fence)
      where r.id = held.id and r.fence = held.fence and r.status = ${running}
      returning r.id`),
    [leases.map((lease) => lease.runId), leases.map((lease) => lease.fence), leaseMs],
  );
  return new Set(rows.map((row) => row.id));
}

/**
 * Counts a crash of the run's own process. Each attempt counts once, however often this is repeated.
 *
 * @returns the crashes since the run last made progress; null if the lease is lost
 */
export async function countDeathAlone(tx: Sql, lease: Lease): Promise<number | null> {
  const [row] = await tx.query<{ deaths: number }>(
    `update runs set deaths_alone = deaths_alone + (died_at_fence is distinct from fence)::int, died_at_fence = fence
      where id = $1 and fence = $2 and status = ${running}
      returning deaths_alone as deaths`,
    [lease.runId, lease.fence],
  );
  return row?.deaths ?? null;
}

export async function whyLost(sql: Sql, lease: Lease): Promise<'cancelled' | 'taken_over'> {
  const [row] = await sql.query<{ status: string; fence: number }>(
    `select status, fence from runs where id = $1`,
    [lease.runId],
  );
  return row?.status === 'Cancelled' ? 'cancelled' : 'taken_over';
}

/**
 * Checks the fence before an unconditional write. Extends the lease, so that there is time for the request.
 *
 * @returns false if the lease is lost
 */
export async function confirmLease(sql: Sql, lease: Lease, leaseMs: number): Promise<boolean> {
  return (await renewLeases(sql, [lease], leaseMs)).has(lease.runId);
}

/**
 * Whether the run was not claimed again since: then no other attempt has its uploads. Extends the lease;
 * for a cancelled run that delays the sweep.
 */
export async function ownsUploads(sql: Sql, lease: Lease, leaseMs: number): Promise<boolean> {
  const rows = await sql.query(
    `update runs set lease_expires_at = now() + $3 * interval '1 ms'
      where id = $1 and fence = $2 and status in ('Running', 'Cancelled') returning id`,
    [lease.runId, lease.fence, leaseMs],
  );
  return rows.length === 1;
}

/** Gives a run a generation above `floor`. @returns it, or null if the lease is lost */
export async function raiseGeneration(
  sql: Sql,
  lease: Lease,
  floor: number,
): Promise<number | null> {
  const [row] = await sql.query<{ generation: number }>(
    `update runs set file_generation = greatest(file_generation, $3) + 1
      where id = $1 and fence = $2 and status = ${running} returning file_generation as generation`,
    [lease.runId, lease.fence, floor],
  );
  return row?.generation ?? null;
}

/**
 * Re-enqueues runs whose lease expired, for another worker.
 *
 * @returns how many
 */
export async function sweepExpiredLeases(sql: Sql): Promise<number> {
  const rows = await sql.query(
    `with lost as (
       select id, team_id, export_id, backfill_id, data_interval_start, purpose from runs
        where status = ${running} and lease_expires_at < now() for no key update skip locked
     )
     ${enqueueRuns('lost')}
     on conflict do nothing returning run_id`,
  );
  return rows.length;
}
