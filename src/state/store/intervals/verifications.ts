import type { Timestamp } from '../../../foundation/domain/time.ts';
import { failedVerifications, type VerifyResult } from '../../../foundation/domain/verification.ts';
import type { Sql } from '../database/database.ts';
import type { OffsetPage, PageRequest } from '../database/lists.ts';

/** The right to verify; it ends if it is not renewed. */
export type Lease = string;

/** A process that dies twice on an export is not started for it again in this round. */
const maxTries = 2;

const leaseTime = `interval '2 minutes'`;
const longestRound = `interval '6 hours'`;
/** The newest time of day `$1` in UTC. */
const due = `(date_trunc('day', clock_timestamp() - $1::interval, 'UTC') + $1::interval)`;

/**
 * Takes the turn to verify, if a round is due and no other worker has it.
 *
 * @param timeOfDay `HH:MM` in UTC
 * @returns when the round was due, and how much of its time is left; null: it is not this worker's turn
 */
export async function takeVerifyTurn(
  sql: Sql,
  timeOfDay: string,
): Promise<{
  readonly lease: Lease;
  readonly dueAt: Timestamp;
  readonly leftMs: number;
} | null> {
  const [row] = await sql.query<{ lease: Lease; dueAt: Timestamp; leftMs: number }>(
    `with taken as (
       update verify_turn set lease = gen_random_uuid(), leased_until = clock_timestamp() + ${leaseTime},
              began_at = coalesce(began_at, clock_timestamp())
        where (leased_until is null or leased_until < clock_timestamp()) and coalesce(ended_at, '-infinity') < ${due}
          and clock_timestamp() < ${due} + ${longestRound}
       returning lease
     ), crashed as (
       update verifications v set verified_at = clock_timestamp(), tries = 0, result = 'unread', failed_since = coalesce(failed_since, clock_timestamp()),
              detail = 'Verifying the export ended its process twice. Run sluice verify with its id on a machine with more memory.'
         from taken where v.tries >= ${maxTries}
     )
     select lease, api_time(${due}) as "dueAt", (extract(epoch from ${due} + ${longestRound} - clock_timestamp()) * 1000)::float8 as "leftMs" from taken`,
    [timeOfDay],
  );
  return row ?? null;
}

/** @returns false if the turn is lost */
export async function renewVerifyTurn(sql: Sql, lease: Lease): Promise<boolean> {
  const rows = await sql.query(
    `update verify_turn set leased_until = clock_timestamp() + ${leaseTime} where lease = $1 returning 1`,
    [lease],
  );
  return rows.length > 0;
}

/** @param isComplete whether each export has had its turn: the next round is that of the next day */
export async function endVerifyTurn(sql: Sql, lease: Lease, isComplete: boolean): Promise<void> {
  await sql.query(
    `update verify_turn set lease = null, leased_until = null, ended_at = case when $2 then clock_timestamp() else ended_at end
      where lease = $1`,
    [lease, isComplete],
  );
}

/** Exports that were not verified since a time, the one first that was verified longest ago. */
export async function listUnverified(sql: Sql, since: Timestamp): Promise<readonly string[]> {
  const rows = await sql.query<{ id: string }>(
    `select e.id from batch_exports e left join verifications v on v.export_id = e.id
      where e.deleted_at is null and (v.verified_at is null or v.verified_at < $1) and coalesce(v.tries, 0) < ${maxTries}
      order by v.verified_at nulls first, e.created_at, e.id`,
    [since],
  );
  return rows.map(({ id }) => id);
}

/** @returns false if the turn is lost */
export async function noteBegun(sql: Sql, lease: Lease, exportId: string): Promise<boolean> {
  if (!(await renewVerifyTurn(sql, lease))) return false;
  await sql.query(
    `insert into verifications (export_id, tries) select id, 1 from batch_exports where id = $1
     on conflict (export_id) do update set begun_at = clock_timestamp(), tries = verifications.tries + 1`,
    [exportId],
  );
  return true;
}

/** The verification stopped, and not because of the export. */
export async function noteHandedBack(sql: Sql, lease: Lease, exportId: string): Promise<void> {
  await sql.query(
    `update verifications set tries = 0 where export_id = $2 and exists (select from verify_turn where lease = $1)`,
    [lease, exportId],
  );
}

/** What a verification has found of an export. */
export interface VerificationFound {
  readonly exportId: string;
  readonly result: VerifyResult;
  readonly intervals: number;
  readonly rows: number;
  readonly breaches: number;
  readonly detail: string;
}

/** Stores the result of an export, unless the turn is lost: then another worker verifies it. */
export async function storeVerification(
  sql: Sql,
  lease: Lease,
  { exportId, result, intervals, rows, breaches, detail }: VerificationFound,
): Promise<void> {
  await sql.query(
    `update verifications v set verified_at = clock_timestamp(), tries = 0, result = $3, intervals = $4, rows = $5, breaches = $6, detail = $7,
            failed_since = case when $3 = any ($8::text[]) then coalesce(v.failed_since, clock_timestamp()) end
      where v.export_id = $2 and exists (select from verify_turn where lease = $1)`,
    [lease, exportId, result, intervals, rows, breaches, detail, failedVerifications],
  );
}

/** The newest verification of an export. */
export interface Verification extends VerificationFound {
  readonly name: string;
  readonly teamId: number;
  readonly organizationId: string;
  readonly organizationName: string;
  readonly verifiedAt: Timestamp;
  readonly failedSince: Timestamp | null;
}

/** Verifications: those that failed first, then the newest first. @param results null: all */
export async function listVerifications(
  sql: Sql,
  results: readonly VerifyResult[] | null,
  { limit, offset }: PageRequest,
): Promise<OffsetPage<Verification>> {
  const rows = await sql.query<Verification & { count: number }>(
    `select v.export_id as "exportId", e.name, e.team_id as "teamId", o.id as "organizationId", o.name as "organizationName",
            v.verified_at as "verifiedAt", v.result, v.intervals, v.rows, v.breaches, v.detail, v.failed_since as "failedSince",
            count(*) over ()::int as count
       from verifications v join batch_exports e on e.id = v.export_id and e.deleted_at is null
       join projects p on p.id = e.team_id join organizations o on o.id = p.organization_id
      where v.verified_at is not null and ($1::text[] is null or v.result = any ($1))
      order by v.failed_since nulls last, v.verified_at desc, v.export_id limit $2 offset $3`,
    [results, limit, offset],
  );
  return { count: rows[0]?.count ?? 0, results: rows.map(({ count: _, ...rest }) => rest) };
}

/** What the gauges show of scheduled verifications. */
export interface VerifyState {
  /** Exports whose newest verification has not proven them. */
  readonly failed: number;
  /** Since the last round in which each export had its turn; before the first one, since it began. Null: none has begun. */
  readonly ageSeconds: number | null;
}

export async function readVerifyState(sql: Sql): Promise<VerifyState> {
  const [row] = await sql.query<VerifyState>(
    `select (select count(*)::int from verifications v join batch_exports e on e.id = v.export_id and e.deleted_at is null
              where v.failed_since is not null) as failed,
            (select extract(epoch from clock_timestamp() - coalesce(ended_at, began_at))::float8 from verify_turn) as "ageSeconds"`,
  );
  if (!row) throw new Error('no row');
  return row;
}
