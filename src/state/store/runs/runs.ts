import type { Element } from '../../../foundation/domain/element.ts';
import type { Progress } from '../../../foundation/domain/receipt.ts';
import type { StepCount } from '../../../foundation/domain/recipe.ts';
import type { StepNow } from '../../../foundation/domain/run-step.ts';
import {
  isTerminal,
  type RunFilter,
  type RunPurpose,
  type RunStatus,
  runStatuses,
} from '../../../foundation/domain/run.ts';
import type { DataInterval, Timestamp } from '../../../foundation/domain/time.ts';
import type { Sql } from '../database/database.ts';
import {
  Conditions,
  type KeysetPage,
  type KeysetPosition,
  seek,
  type TimeBound,
  toKeysetPage,
} from '../database/lists.ts';
import { anyNumber, prepared, unflushed } from '../database/prepared.ts';
import {
  command,
  queryAny,
  queryFirst,
  queryRows,
  querySet,
  queryValue,
  queryValues,
} from '../database/statement.ts';
import { boundLists, intervalOf, isSameInterval } from '../database/times.ts';
import { hasTurn } from '../intervals/superseded.ts';
import { canMove, hasFailedAttempt, isRunning, type Lease, live, move } from './run-moves.ts';
import { enqueueRuns, laneOf } from './outbox.ts';

/** The step of an attempt, and its start. */
export interface RunStepSeen extends StepNow {
  readonly since: Timestamp;
  /** Seconds of a usual run of its export; null: none has completed. */
  readonly usual: number | null;
}

/** SQL of a `RunStepSeen` of the run `r`; only of a run in progress is it looked up how long others took. */
export const stepOfRun = `case when r.status = 'Running' and r.step is not null and r.lease_expires_at > now() then jsonb_build_object(
    'name', r.step, 'since', api_time(r.step_since), 'seconds', extract(epoch from now() - r.step_since), 'usual', (
      select percentile_cont(0.5) within group (order by extract(epoch from u.finished_at - u.started_at)::float8)
        from (select o.finished_at, o.started_at from runs o where o.export_id = r.export_id and o.status = 'Completed'
               order by o.created_at desc limit 20) u)) end`;

export interface NewRun {
  readonly exportId: string;
  readonly teamId: number;
  readonly interval: DataInterval;
  readonly backfillId: string | null;
  readonly purpose?: RunPurpose;
  /** True if delivered rows may go that the new files lack; default false. A run of a backfill also takes what that says. */
  readonly dropsMissing?: boolean;
}

/** A run as the API and the command line show it. */
export interface Run {
  readonly id: string;
  readonly exportId: string;
  readonly teamId: number;
  readonly backfillId: string | null;
  readonly purpose: RunPurpose;
  readonly status: RunStatus;
  readonly startsAt: Timestamp;
  readonly endsAt: Timestamp;
  readonly attempt: number;
  /** Attempts that ended in an error that counts against the retries. */
  readonly faults: number;
  /** The time before which no attempt begins; null while an attempt is in progress, and after the end. */
  readonly nextAttemptAt: Timestamp | null;
  /** The transactions that its interval waits for, as a worker saw it last; null if it does not wait. */
  readonly waitsFor: readonly string[] | null;
  /** The step of its attempt; null: there is none, or its worker has not said it yet. */
  readonly step: RunStepSeen | null;
  readonly recordsTotalCount: number | null;
  readonly recordsCompleted: number | null;
  readonly recordsDropped: number;
  readonly recordsRejected: number;
  readonly bytesExported: number;
  readonly files: number;
  /** True if no transaction can add rows to the interval any more; null before it is completed. */
  readonly settled: boolean | null;
  readonly steps: readonly StepCount[] | null;
  /** Of mode changes: what it has delivered; null before that, and of other modes. */
  readonly element: Element | null;
  readonly cursor: unknown;
  readonly latestError: string | null;
  /** It ended without success, and its interval was exported afterwards. */
  readonly superseded: boolean;
  readonly createdAt: Timestamp;
  readonly startedAt: Timestamp | null;
  readonly finishedAt: Timestamp | null;
  readonly lastUpdatedAt: Timestamp;
}

/** The columns of `Run` without those that each run of an export repeats, for a table aliased `r`. */
export const ownRunColumns = `r.id, r.backfill_id as "backfillId", r.purpose, r.status,
  r.data_interval_start as "startsAt", r.data_interval_end as "endsAt", r.attempt, r.faults,
  case when r.status in ${live} then (select o.available_at from outbox o where o.run_id = r.id) end as "nextAttemptAt",
  case when r.status in ${live} then (select o.waits_for -> 'blockers' from outbox o where o.run_id = r.id) end as "waitsFor",
  ${stepOfRun} as step, r.records_total_count as "recordsTotalCount", r.records_completed as "recordsCompleted", r.records_dropped as "recordsDropped", r.records_rejected as "recordsRejected",
  r.bytes_exported as "bytesExported", r.files, r.settled, r.steps, r.cursor, r.latest_error as "latestError", r.status in ('Failed', 'FailedRetryable', 'Cancelled') and exists (select from receipts c where ${isSameInterval('c', 'r')}
    and c.committed_at > r.finished_at) as superseded,
  case when r.status = 'Completed' then (select c.element from receipts c where ${isSameInterval('c', 'r')} and c.run_id = r.id) end as element,
  r.created_at as "createdAt", r.started_at as "startedAt", r.finished_at as "finishedAt", r.last_updated_at as "lastUpdatedAt"`;

export const runColumns = `r.export_id as "exportId", r.team_id as "teamId", ${ownRunColumns}`;

export interface FoundRun extends Run {
  readonly interval: DataInterval;
}

export const findRun = queryFirst<FoundRun, [exportId: string, runId: string]>(
  `select ${runColumns}, ${intervalOf('r')} as interval from runs r where r.id = $1 and r.export_id = $2`,
  (exportId, runId) => [runId, exportId],
);

/** SQL: a wanted run `w` overlaps none but its own. Those in `table` do not overlap, so two neighbours are enough. */
export const fitsInto = (table: string, more: string): string => `not exists (
    select from ${table} t where t.export_id = w.export_id and t.data_interval_start >= w.interval_start
       and t.data_interval_start < w.interval_end
       and (t.data_interval_start, t.data_interval_end) <> (w.interval_start, w.interval_end) and ${more})
  and coalesce((select t.data_interval_end <= w.interval_start from ${table} t
                 where t.export_id = w.export_id and t.data_interval_start < w.interval_start and ${more}
                 order by t.data_interval_start desc limit 1), true)`;

/** SQL without its `with`: the table `made`. $1 to $7 are `valuesOf`. @param condition of a wanted run `w` */
export const makeRuns = (condition = 'true') => `wanted as (
       select * from unnest($1::uuid[], $2::int[], $3::timestamptz[], $4::timestamptz[], $5::uuid[], $6::text[], $7::boolean[])
         as w (export_id, team_id, interval_start, interval_end, backfill_id, purpose, drops_missing)
        ${anyNumber}
     ), made as (
       insert into runs (export_id, team_id, data_interval_start, data_interval_end, backfill_id, purpose, drops_missing, generation)
       select w.export_id, w.team_id, w.interval_start, w.interval_end, w.backfill_id, w.purpose,
              w.drops_missing or coalesce(b.drops_missing, false),
              coalesce((select max(r.generation) + 1 from runs r
                         where r.export_id = w.export_id and r.data_interval_start = w.interval_start
                           and r.data_interval_end = w.interval_end), 0)
         from wanted w left join backfills b on b.id = w.backfill_id
        where ${condition} and ${hasTurn}
          -- Its bounds may be those of other zone data.
          and ${fitsInto('receipts', 'true')} and ${fitsInto('runs', `t.status in ${live}`)}
       on conflict do nothing
       returning id, team_id, export_id, backfill_id, data_interval_start, purpose
     ), enqueued as (
       ${enqueueRuns('made')}
     )`;

export const valuesOf = (runs: readonly NewRun[]) => [
  runs.map((run) => run.exportId),
  runs.map((run) => run.teamId),
  ...boundLists(runs.map((run) => run.interval)),
  runs.map((run) => run.backfillId),
  runs.map((run) => run.purpose ?? 'whole'),
  runs.map((run) => run.dropsMissing ?? false),
];

/** With their outbox rows. Not for an interval with a live run, or that overlaps one with other bounds. @returns the ids of the new runs */
export const insertRuns = queryValues<string, [runs: readonly NewRun[]]>(
  `with ${makeRuns()} select id from made`,
  (runs) => valuesOf(runs),
);

/** They leave the run when it ends (`run-moves.ts`). @param request to erase that the run belongs to */
export const sealErased = command<[runId: string, sealed: Buffer, request: string]>(
  'update runs set erases = $2, erasure = $3 where id = $1',
);

/** @returns false if the lease is lost */
export const recordProgress = queryAny(
  `update runs set records_total_count = $3, records_completed = $4, bytes_exported = $5, files = $6,
            cursor = $7, last_updated_at = now()
      where id = $1 and fence = $2 and ${isRunning('runs')} returning id`,
  (lease: Lease, { totalRows, rows: writtenRows, bytes, files }: Progress, cursor: unknown) => [
    lease.runId,
    lease.fence,
    totalRows,
    writtenRows,
    bytes,
    files,
    cursor === null ? null : JSON.stringify(cursor),
  ],
);

/** More than any attempt sent: the run is not what crashes the worker, so its crash count starts again. The disk is not waited for. */
export const recordSent = command(
  prepared(`update runs set crashes = case when $3 > furthest_bytes then 0 else crashes end,
              deaths_alone = case when $3 > furthest_bytes then 0 else deaths_alone end,
              furthest_bytes = greatest(furthest_bytes, $3)
        where id = $1 and fence = $2 and ${isRunning('runs')} and ${unflushed}`),
  (lease: Lease, sentBytes: number) => [lease.runId, lease.fence, sentBytes],
);

/** @param isHandedOver it made no attempt: its interval heals with the others @returns false if the lease is lost */
export async function failRun(
  tx: Sql,
  lease: Lease,
  event: 'failed' | 'exhausted',
  error: { readonly code: string; readonly text: string },
  isHandedOver = false,
): Promise<boolean> {
  const rows = await tx.query(
    `update runs set ${move(event)}, error_code = $3, latest_error = $4, lease_holder = null, lease_expires_at = null,
            finished_at = now(), last_updated_at = now(), heals = heals or $5
      where id = $1 and fence = $2 and ${canMove(event)} returning id`,
    [lease.runId, lease.fence, error.code, error.text, isHandedOver],
  );
  return rows.length === 1;
}

/** The fence rises too: a heartbeat in flight must not renew a lease that no worker holds. @returns false if the lease is lost */
export async function handBackRun(
  tx: Sql,
  lease: Lease,
  delayMs: number,
  error: { readonly code: string; readonly text: string } | null,
  counts = error !== null,
): Promise<boolean> {
  const rows = await tx.query(
    `with handed_back as (
       update runs set ${move('handed_back')}, fence = fence + 1, lease_holder = null, lease_expires_at = null, committing_at = null,
              faults = faults + $6::boolean::int,
              error_code = coalesce($4, error_code), latest_error = coalesce($5, latest_error), last_updated_at = now()
        where id = $1 and fence = $2 and ${canMove('handed_back')}
        returning id, team_id, export_id, ${laneOf} as backfill_id, data_interval_start, purpose
     )
     ${enqueueRuns('handed_back', `now() + $3 * interval '1 ms'`)}
     on conflict (run_id) do update
        set available_at = excluded.available_at, ready = excluded.ready, dispatched_at = null, times_enqueued = 0, small = excluded.small,
            waits_since = null, waits_for = null
     returning run_id`,
    [lease.runId, lease.fence, delayMs, error?.code ?? null, error?.text ?? null, counts],
  );
  return rows.length === 1;
}

/** Gives the lease of a small run back that needs the memory of a large one; the next ones of its export do too. */
export async function handBackOutgrown(tx: Sql, lease: Lease): Promise<boolean> {
  await tx.query(
    `update batch_exports e set outgrew_at = now() from runs r
      where r.id = $1 and r.fence = $2 and r.export_id = e.id`,
    [lease.runId, lease.fence],
  );
  return handBackRun(tx, lease, 0, null);
}

export const findErrorCode = queryValue<string, [runId: string]>(
  `select error_code as code from runs where id = $1`,
);

/** Not if it has begun to commit. Workers notice at the next heartbeat. @param scope the export, or a run or backfill of it */
export const cancelRuns = queryValues<
  string,
  [scope: { readonly exportId: string; readonly runId?: string; readonly backfillId?: string }]
>(
  `with locked as materialized (
       select id from runs
        where export_id = $1 and status in ${live} and committing_at is null
          and ($2::uuid is null or id = $2) and ($3::uuid is null or backfill_id = $3)
        order by id for no key update
     )
     , cancelled as (
       update runs set ${move('cancelled')}, finished_at = now(), last_updated_at = now(), lease_holder = null
         from locked where runs.id = locked.id returning runs.id
     )
     select id from cancelled`,
  (scope) => [scope.exportId, scope.runId ?? null, scope.backfillId ?? null],
);

/** Cancels a run by the attempt that holds it. @returns false if the lease is lost */
export const cancelHeldRun = queryAny(
  `update runs set ${move('cancelled')}, lease_holder = null, lease_expires_at = null, finished_at = now(), last_updated_at = now()
      where id = $1 and fence = $2 and ${canMove('cancelled')} returning id`,
  (lease: Lease) => [lease.runId, lease.fence],
);

/** Says whether an attempt of a run has begun to commit: if the run is not completed, its manifest may be current. */
export const hasBegunCommit = queryAny<[runId: string]>(
  `select from runs where id = $1 and committing_generation is not null`,
);

export interface RunListRequest {
  readonly exportId: string;
  readonly statuses: readonly RunFilter[] | null;
  readonly createdAfter: TimeBound | null;
  readonly createdBefore: TimeBound | null;
  readonly intervalStart: TimeBound | null;
  readonly intervalEnd: TimeBound | null;
  readonly orderBy: 'created_at' | 'data_interval_start';
  readonly descending: boolean;
  readonly position: KeysetPosition | null;
  readonly limit: number;
}

/** A page of an export's runs. Rows added while a client pages never repeat or hide one. */
export async function listRuns(sql: Sql, request: RunListRequest): Promise<KeysetPage<Run>> {
  const { position, limit, descending, statuses } = request;
  const conditions = new Conditions()
    .add('r.export_id = ?', request.exportId)
    .addBound('r.created_at >=', request.createdAfter)
    .addBound('r.created_at <=', request.createdBefore)
    .addBound('r.data_interval_start >=', request.intervalStart)
    .addBound('r.data_interval_end <=', request.intervalEnd);
  const order = { column: `r.${request.orderBy}`, descending };
  const page = seek(conditions, order, 'r.id', position, limit);
  // Each status by itself: an index has its runs in the order of the list, however many others there are.
  const lists = runStatuses.flatMap((status) => {
    const isWanted = statuses?.includes(status);
    const isLive = !isTerminal(status) && statuses?.includes('Retrying');
    if (!isWanted && !isLive) return [];
    const only = isWanted ? '' : `and ${hasFailedAttempt('r')}`;
    return `(select r.* from runs r where ${conditions.sql} and r.status = '${status}' ${only} ${page})`;
  });
  if (lists.length === 0 && statuses !== null) return toKeysetPage([], position, limit);
  const listed =
    statuses === null ? `runs r where ${conditions.sql}` : `(${lists.join(' union all ')}) r`;
  const rows = await sql.query<Run>(
    `select ${runColumns} from ${listed} ${page}`,
    conditions.values,
  );
  return toKeysetPage(rows, position, limit);
}

/** A model counts for this long after its last run. */
const afterwards = `interval '1 minute'`;

/** The models whose source is read now: those with runs that wait, read or have just ended, or with intervals that are checked again. */
export const listModelsAtWork = querySet<string>(`
     select distinct model from batch_exports where id in (
       select export_id from runs where status in ${live}
       union select export_id from runs where finished_at > now() - ${afterwards}
       union select export_id from receipts where not settled)`);

/** A run as an operator recognizes it. */
export interface NamedRun {
  readonly id: string;
  readonly exportId: string;
  readonly teamId: number;
  /** Organization, export and the start of the interval in UTC: `Acme · Orders · 00:25`, with its date if that is not today. */
  readonly name: string;
  readonly status: RunStatus;
  readonly error: string | null;
}

export const findNamedRuns = queryRows<NamedRun, [runIds: readonly string[]]>(`
     select r.id, r.export_id as "exportId", r.team_id as "teamId", r.status, r.latest_error as error,
            concat_ws(' · ', o.name, e.name, to_char(r.data_interval_start at time zone 'UTC',
              case when r.data_interval_end - r.data_interval_start >= interval '23 hours' then 'YYYY-MM-DD'
                   when r.data_interval_start >= date_trunc('day', now(), 'UTC') then 'HH24:MI' else 'YYYY-MM-DD HH24:MI' end)) as name
       from runs r join batch_exports e on e.id = r.export_id join projects p on p.id = r.team_id join organizations o on o.id = p.organization_id
      where r.id = any ($1::uuid[])`);
