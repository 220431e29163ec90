import type { Sql } from '../database/database.ts';
import type { Lease } from './lease.ts';
import { anyNumber, plannedOnce, prepared, unflushed } from '../database/prepared.ts';
import { isRunning } from './run-moves.ts';

/** The keys that a commit may make readable. */
export interface CommitKeys {
  readonly generation: number;
  readonly destinationVersion: number;
  /** Null if the export writes none. */
  readonly manifestKey: string | null;
  /** The keys of all its files, including the manifest. */
  readonly keys: readonly string[];
}

/** A commit that begins. */
export interface CommitRequest extends Lease, CommitKeys {
  readonly intent: unknown;
}

/** @param free whether the runs are locked already, or must be free */
const beginCommitsSql = (free: boolean) =>
  plannedOnce(`with asked as materialized (
       select * from jsonb_to_recordset($1::jsonb) as a (
         run_id uuid, fence bigint, intent jsonb, generation int, destination_version int, manifest_key text, keys text[]) ${anyNumber}
     ), free as materialized (
       select asked.* from asked ${free ? ', lateral (select from runs r where r.id = asked.run_id for no key update skip locked) run' : ''}
     ), begun as (
       update runs set committing_at = now(), commit_intent = free.intent, committing_generation = file_generation,
              lease_expires_at = now() + $2 * interval '1 ms'
         from free where runs.id = free.run_id and runs.fence = free.fence and ${isRunning('runs')}
       returning free.*, runs.export_id, runs.data_interval_start, runs.data_interval_end
     ), noted as (
       insert into leftover_files (export_id, data_interval_start, data_interval_end, destination_version, key, generation, manifest_key, uncommitted)
       select export_id, data_interval_start, data_interval_end, destination_version, key, generation, manifest_key, true
         from begun, unnest(begun.keys) as key
       on conflict (export_id, destination_version, key) do update
          set generation = excluded.generation, manifest_key = excluded.manifest_key, uncommitted = true, noted_at = now()
     )
     select run_id as "runId", exists (select from begun where begun.run_id = free.run_id) as "isHeld" from free`);

const [beginLockedSql, beginFreeSql] = [beginCommitsSql(false), beginCommitsSql(true)];

/** Notes that a commit begins, after the transactions that change its run at this moment. @returns false if the lease is lost */
export async function beginLockedCommit(
  sql: Sql,
  request: CommitRequest,
  leaseMs: number,
): Promise<boolean> {
  return (await beginAll(sql, beginLockedSql, [request], leaseMs))[0] === true;
}

/**
 * Notes that commits begin, by one statement, which waits for no lock.
 *
 * @returns in the order of the requests: false if the lease is lost; null for a run that is locked at this moment
 */
export function beginFreeCommits(
  sql: Sql,
  requests: readonly CommitRequest[],
  leaseMs: number,
): Promise<readonly (boolean | null)[]> {
  return beginAll(sql, beginFreeSql, requests, leaseMs);
}

async function beginAll(
  sql: Sql,
  text: string,
  requests: readonly CommitRequest[],
  leaseMs: number,
): Promise<readonly (boolean | null)[]> {
  const asked = requests.map((request) => ({
    run_id: request.runId,
    fence: request.fence,
    intent: request.intent,
    generation: request.generation,
    destination_version: request.destinationVersion,
    manifest_key: request.manifestKey,
    keys: request.keys,
  }));
  const rows = await sql.query<{ readonly runId: string; readonly isHeld: boolean }>(text, [
    JSON.stringify(asked),
    leaseMs,
  ]);
  const held = new Map(rows.map(({ runId, isHeld }) => [runId, isHeld]));
  return requests.map(({ runId }) => held.get(runId) ?? null);
}

/**
 * Records how much an attempt has sent. If that is more than any attempt of the run ever sent, the run is not what crashes the
 * worker, so its crash count starts again. One that dies at the same place has not. The disk is not waited for.
 */
export async function recordSent(sql: Sql, lease: Lease, sentBytes: number): Promise<void> {
  await sql.query(
    prepared(`update runs set crashes = case when $3 > furthest_bytes then 0 else crashes end,
              deaths_alone = case when $3 > furthest_bytes then 0 else deaths_alone end,
              furthest_bytes = greatest(furthest_bytes, $3)
        where id = $1 and fence = $2 and ${isRunning('runs')} and ${unflushed}`),
    [lease.runId, lease.fence, sentBytes],
  );
}
