import type { BatchExport } from '../domain/batch-export.ts';
import type { Timestamp } from '../domain/time.ts';
import type { Sql } from './database.ts';

/** Proof that a worker holds a run. Every write of the worker carries it. */
export interface Lease {
  readonly runId: string;
  /** Rises with each claim of the run, and when it is handed back. */
  readonly fence: number;
}

/** A claimed run with all that its execution needs. Secrets are still sealed. */
export interface ClaimedRun extends Lease {
  readonly exportId: string;
  readonly teamId: number;
  readonly backfillId: string | null;
  readonly attempt: number;
  /** 0 for the first run of the interval. */
  readonly generation: number;
  /** Attempts that died after they began to read, since the run last made progress. */
  readonly crashes: number;
  readonly faults: number;
  readonly intervalStart: Timestamp;
  readonly intervalEnd: Timestamp;
  readonly cursor: unknown;
  /** What an earlier attempt was about to put in force; null where none came so far. */
  readonly commitIntent: unknown;
  readonly destination: BatchExport['destination'];
  /** How often the export's destination had moved when the run was claimed. */
  readonly destinationVersion: number;
  readonly model: string;
  readonly dslQuery: string | null;
  /** The external id that the customer's role trusts. */
  readonly externalId: string;
}

/**
 * Takes the lease of a run that waits for an attempt, or whose last lease ran out, and removes it
 * from the outbox: also where it may not be taken, for then whoever holds the run puts it back. A
 * run whose time has not come (backoff, jitter) is left there.
 *
 * @param holder names this very claim: a claim that did not hear of its own success may be repeated
 * @returns null where the run is finished, held by another worker, not due yet, or not there
 */
export async function claimRun(
  tx: Sql,
  runId: string,
  holder: string,
  leaseMs: number,
): Promise<ClaimedRun | null> {
  // Locked first, in a statement of its own: the next one sees what the last holder has written.
  await tx.query(`select from runs where id = $1 for no key update`, [runId]);
  const [row] = await tx.query<
    Omit<ClaimedRun, 'destination'> & {
      destinationType: string;
      destinationConfig: Record<string, unknown>;
      destinationSecrets: Buffer | null;
    }
  >(
    `with taken as (
       delete from outbox where run_id = $1 and available_at <= now()
     ), claimed as (
       update runs set status = 'Running', attempt = attempt + 1, fence = fence + 1,
              crashes = crashes + (lease_expires_at is not null and lease_holder is distinct from $2 and reading_since is not null)::int, reading_since = null,
              lease_holder = $2, lease_expires_at = now() + $3 * interval '1 ms', committing_at = null,
              started_at = coalesce(started_at, now()), last_updated_at = now()
        where id = $1 and (status = 'Starting'
           or status = 'Running' and (lease_expires_at is null or lease_expires_at < now() or lease_holder = $2))
          and not exists (select 1 from outbox where run_id = $1 and available_at > now())
        returning *
     )
     select c.id as "runId", c.fence, c.export_id as "exportId", c.team_id as "teamId", c.backfill_id as "backfillId",
            c.attempt, c.generation, c.crashes, c.faults, c.data_interval_start as "intervalStart", c.data_interval_end as "intervalEnd",
            c.cursor, c.commit_intent as "commitIntent", e.destination_type as "destinationType", e.destination_config as "destinationConfig",
            e.destination_secrets as "destinationSecrets", e.destination_version as "destinationVersion", e.model, e.dsl_query as "dslQuery", p.external_id as "externalId"
       from claimed c join batch_exports e on e.id = c.export_id join projects p on p.id = c.team_id`,
    [runId, holder, leaseMs],
  );
  if (!row) return null;
  const { destinationType, destinationConfig, destinationSecrets, ...rest } = row;
  return {
    ...rest,
    destination: { type: destinationType, config: destinationConfig, secrets: destinationSecrets },
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
    `update runs r set lease_expires_at = now() + $3 * interval '1 ms'
       from unnest($1::uuid[], $2::bigint[]) as held (id, fence)
      where r.id = held.id and r.fence = held.fence and r.status = 'Running'
      returning r.id`,
    [leases.map((lease) => lease.runId), leases.map((lease) => lease.fence), leaseMs],
  );
  return new Set(rows.map((row) => row.id));
}

/**
 * Notes that the attempt begins to read rows: from here on its death counts against the run.
 *
 * @returns false if the lease is lost
 */
export async function beginReading(sql: Sql, lease: Lease): Promise<boolean> {
  const rows = await sql.query(
    `update runs set reading_since = now() where id = $1 and fence = $2 and status = 'Running' returning id`,
    [lease.runId, lease.fence],
  );
  return rows.length === 1;
}

/**
 * Counts a process of the run's own that ended while it read. Each attempt counts once, however often
 * this is repeated.
 *
 * @returns how many there were since the run last made progress; null if the attempt had not begun to
 *   read, or the lease is lost
 */
export async function countDeathAlone(tx: Sql, lease: Lease): Promise<number | null> {
  const [row] = await tx.query<{ deaths: number }>(
    `update runs set deaths_alone = deaths_alone + 1, reading_since = null
      where id = $1 and fence = $2 and status = 'Running' and reading_since is not null
      returning deaths_alone as deaths`,
    [lease.runId, lease.fence],
  );
  return row?.deaths ?? null;
}

/** Why a lease is no longer held. */
export async function whyLost(sql: Sql, lease: Lease): Promise<'cancelled' | 'taken_over'> {
  const [row] = await sql.query<{ status: string; fence: number }>(
    `select status, fence from runs where id = $1`,
    [lease.runId],
  );
  return row?.status === 'Cancelled' ? 'cancelled' : 'taken_over';
}

/**
 * The last check before anything becomes readable at the destination: from here on the run can no
 * longer be cancelled.
 *
 * @param intent kept for the next attempt, should this one not be heard of again
 * @returns false where the lease is lost
 */
export async function beginCommit(
  sql: Sql,
  lease: Lease,
  leaseMs: number,
  intent: unknown,
): Promise<boolean> {
  const rows = await sql.query(
    `update runs set committing_at = now(), commit_intent = $4, lease_expires_at = now() + $3 * interval '1 ms'
      where id = $1 and fence = $2 and status = 'Running' returning id`,
    [lease.runId, lease.fence, leaseMs, JSON.stringify(intent)],
  );
  return rows.length === 1;
}

/**
 * Puts runs whose lease ran out back into the outbox, so that another worker is rung.
 *
 * @returns how many
 */
export async function sweepExpiredLeases(sql: Sql): Promise<number> {
  const rows = await sql.query(
    `with lost as (
       select id, team_id, export_id, backfill_id, data_interval_start from runs
        where status = 'Running' and lease_expires_at < now() for no key update skip locked
     )
     insert into outbox (run_id, team_id, export_id, backfill_id, data_interval_start, ready)
     select id, team_id, export_id, backfill_id, data_interval_start, true from lost
     on conflict do nothing returning run_id`,
  );
  return rows.length;
}
