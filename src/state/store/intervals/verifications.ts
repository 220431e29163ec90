import type { Timestamp } from '../../../foundation/domain/time.ts';
import { failedVerifications, type VerifyResult } from '../../../foundation/domain/verification.ts';
import { command, queryAny, queryOne, queryPage, queryRows } from '../database/statement.ts';

/** An export to verify, and when the round of its day began. */
export interface VerifyJob {
  readonly exportId: string;
  readonly dueAt: Timestamp;
}

/** Jobs that are enqueued at once: those that follow come with a later sweep. */
const maxEnqueued = 100;

/** No verification begins later in a round. */
const longestRound = `interval '6 hours'`;

/** SQL that is true as long as the export `e`, with its result `v`, has no result of the round that began at `dueAt`. */
const isDue = (dueAt: string): string =>
  `clock_timestamp() < ${dueAt} + ${longestRound} and e.deleted_at is null and e.created_at < ${dueAt}
        and (v.verified_at is null or v.verified_at < ${dueAt})`;

/** Without a result since the newest `timeOfDay` (UTC), longest ago first. Not those in progress or set aside. */
export const listDueVerifications = queryRows<VerifyJob, [timeOfDay: string]>(`with round as (
       select date_trunc('day', clock_timestamp() - $1::interval, 'UTC') + $1::interval as due_at
     )
     select e.id as "exportId", api_time(r.due_at) as "dueAt"
       from round r cross join batch_exports e left join export_checks v on v.export_id = e.id
      where ${isDue('r.due_at')}
        and not exists (select from guarded_work g where g.kind = 'verify' and g.id = e.id::text
                           and (g.set_aside_at is not null or g.holder is not null and g.expires_at > clock_timestamp()))
      order by v.verified_at nulls first, e.created_at, e.id limit ${maxEnqueued}`);

/** Says whether the export has no result of the round, and the round is not over. */
export const isVerificationDue = queryAny(
  `select from batch_exports e left join export_checks v on v.export_id = e.id
      where e.id = $1 and ${isDue('$2::timestamptz')}`,
  ({ exportId, dueAt }: VerifyJob) => [exportId, dueAt],
);

export interface VerificationFound {
  readonly exportId: string;
  readonly result: VerifyResult;
  readonly intervals: number;
  readonly rows: number;
  readonly breaches: number;
  readonly detail: string;
}

/** Stores the result of an export, unless it has one of this round or a later one. */
export const storeVerification = command(
  `insert into export_checks as v (export_id, verified_at, result, intervals, rows, breaches, detail, failed_since)
     select id, clock_timestamp(), $3, $4, $5, $6, $7, case when $3 = any ($8::text[]) then clock_timestamp() end
       from batch_exports where id = $1
     on conflict (export_id) do update
        set verified_at = excluded.verified_at, result = excluded.result, intervals = excluded.intervals, rows = excluded.rows,
            breaches = excluded.breaches, detail = excluded.detail,
            failed_since = case when excluded.failed_since is not null then coalesce(v.failed_since, excluded.failed_since) end
      where v.verified_at is null or v.verified_at < $2`,
  (
    dueAt: Timestamp,
    { exportId, result, intervals, rows, breaches, detail }: VerificationFound,
  ) => [exportId, dueAt, result, intervals, rows, breaches, detail, failedVerifications],
);

export interface Verification extends VerificationFound {
  readonly name: string;
  readonly teamId: number;
  readonly organizationId: string;
  readonly organizationName: string;
  readonly verifiedAt: Timestamp;
  readonly failedSince: Timestamp | null;
}

/** Verifications: those that failed first, then the newest first. */
export const listVerifications = queryPage<Verification, [limit: number]>(
  `select v.export_id as "exportId", e.name, e.team_id as "teamId", o.id as "organizationId", o.name as "organizationName",
            v.verified_at as "verifiedAt", v.result, v.intervals, v.rows, v.breaches, v.detail, v.failed_since as "failedSince",
            count(*) over ()::int as count
       from export_checks v join batch_exports e on e.id = v.export_id and e.deleted_at is null
       join projects p on p.id = e.team_id join organizations o on o.id = p.organization_id
      where v.verified_at is not null
      order by v.failed_since nulls last, v.verified_at desc, v.export_id limit $1`,
);

/** The figures of scheduled verifications, for the gauges. */
export interface VerifyState {
  readonly failed: number;
  /** Since the verification that is longest ago, of those that are the newest of an export. Null: no export was verified. */
  readonly ageSeconds: number | null;
  /** Since the oldest export was created that was never verified. Null: there is none. */
  readonly unverifiedSeconds: number | null;
}

export const readVerifyState = queryOne<VerifyState>(`
     select count(*) filter (where v.failed_since is not null)::int as failed,
            extract(epoch from clock_timestamp() - min(v.verified_at))::float8 as "ageSeconds",
            extract(epoch from clock_timestamp() - min(e.created_at) filter (where v.verified_at is null))::float8 as "unverifiedSeconds"
       from batch_exports e left join export_checks v on v.export_id = e.id where e.deleted_at is null`);
