import type { TaskAction, TaskStatus } from '../../../foundation/domain/operator-task.ts';
import type { DataInterval, Timestamp } from '../../../foundation/domain/time.ts';
import type { Sql } from '../database/database.ts';
import type { OffsetPage, PageRequest } from '../database/lists.ts';
import { rangeOf } from '../database/times.ts';

/** What an operator does to many exports, and how far it is. */
export interface OperatorTask {
  readonly id: string;
  readonly action: TaskAction;
  /** The cause as it was named. */
  readonly cause: string;
  readonly code: string;
  readonly status: TaskStatus;
  readonly requestedBy: string | null;
  readonly createdAt: Timestamp;
  readonly finishedAt: Timestamp | null;
  readonly exports: number;
  /** Exports to which it was done, and those that it passed over. */
  readonly doneExports: number;
  readonly skippedExports: number;
  /** Why it passed over them, the most frequent first. */
  readonly skippedBecause: readonly { readonly reason: string; readonly exports: number }[];
  /** How many runs its backfills have. */
  readonly runs: number;
  readonly completedRuns: number;
  readonly failedRuns: number;
}

const task = `t.id, t.action, t.cause, t.code, t.status, t.requested_by as "requestedBy", t.created_at as "createdAt",
  t.finished_at as "finishedAt", x.exports, x."doneExports", x."skippedExports", w."skippedBecause", r.runs, r."completedRuns", r."failedRuns"`;

/** Why exports of a cancelled task were passed over: its status says it. */
const cancelled = 'The task was cancelled.';

const progress = `lateral (
    select count(*)::int as exports, count(*) filter (where i.status = 'done')::int as "doneExports",
           count(*) filter (where i.status = 'skipped')::int as "skippedExports"
      from operator_task_exports i where i.task_id = t.id) x,
  lateral (
    select coalesce(jsonb_agg(jsonb_build_object('reason', g.detail, 'exports', g.n) order by g.n desc, g.detail), '[]') as "skippedBecause"
      from (select i.detail, count(*) as n from operator_task_exports i
             where i.task_id = t.id and i.status = 'skipped' and i.detail <> '${cancelled}' group by 1 order by 2 desc, 1 limit 10) g) w,
  lateral (
    select count(*)::int as runs, count(*) filter (where n.status = 'Completed')::int as "completedRuns",
           count(*) filter (where n.status in ('Failed', 'FailedRetryable'))::int as "failedRuns"
      from operator_task_exports i join runs n on n.backfill_id = any (i.backfill_ids) where i.task_id = t.id) r`;

export interface NewTask {
  readonly action: TaskAction;
  readonly cause: string;
  readonly code: string;
  readonly requestedBy: string | null;
  readonly exports: readonly { readonly id: string; readonly teamId: number }[];
}

/** @returns its id */
export async function insertTask(tx: Sql, wanted: NewTask): Promise<string> {
  const [row] = await tx.query<{ id: string }>(
    `insert into operator_tasks (action, cause, code, requested_by) values ($1, $2, $3, $4) returning id`,
    [wanted.action, wanted.cause, wanted.code, wanted.requestedBy],
  );
  if (!row) throw new Error('the task was not stored');
  await tx.query(
    `insert into operator_task_exports (task_id, export_id, team_id) select $1, id, team_id from unnest($2::uuid[], $3::int[]) as e (id, team_id)`,
    [row.id, wanted.exports.map(({ id }) => id), wanted.exports.map(({ teamId }) => teamId)],
  );
  return row.id;
}

/** Newest first. */
export async function listTasks(
  sql: Sql,
  { limit, offset }: PageRequest,
): Promise<OffsetPage<OperatorTask>> {
  const rows = await sql.query<OperatorTask & { count: number }>(
    `select ${task}, t.count from (select *, count(*) over ()::int as count from operator_tasks
       order by created_at desc, id desc limit $1 offset $2) t, ${progress} order by t.created_at desc, t.id desc`,
    [limit, offset],
  );
  return { count: rows[0]?.count ?? 0, results: rows.map(({ count: _, ...rest }) => rest) };
}

export async function findTask(sql: Sql, id: string): Promise<OperatorTask | null> {
  const [row] = await sql.query<OperatorTask>(
    `select ${task} from operator_tasks t, ${progress} where t.id = $1`,
    [id],
  );
  return row ?? null;
}

/** An export whose turn it is. */
export interface TaskExport {
  readonly taskId: string;
  readonly action: TaskAction;
  readonly exportId: string;
  readonly teamId: number;
  readonly organizationId: string;
  readonly requestedBy: string | null;
}

/**
 * Exports that wait, one of each project before the second of any. Almost always there are none. If there are more, they are chosen at
 * random: one that cannot have its turn yet must not keep those behind it from theirs.
 */
export async function nextOfTasks(sql: Sql, limit: number): Promise<readonly TaskExport[]> {
  return sql.query<TaskExport>(
    `select w."taskId", w.action, w."exportId", w."teamId", p.organization_id as "organizationId", w."requestedBy" from (select * from (
       select t.id as "taskId", t.action, i.export_id as "exportId", i.team_id as "teamId", t.requested_by as "requestedBy", t.created_at,
              row_number() over (partition by i.team_id order by random()) as nth
         from operator_tasks t join operator_task_exports i on i.task_id = t.id and i.status = 'waiting'
        where t.status = 'Running') waiting order by nth, random() limit $1) w join projects p on p.id = w."teamId"
      order by w.created_at, w."exportId"`,
    [limit],
  );
}

/**
 * Takes the turn of an export. Until the transaction ends, the task cannot be cancelled, and its other exports have their turns.
 *
 * @returns false if another worker has it, or the task was cancelled
 */
export async function takeTaskExport(tx: Sql, taskId: string, exportId: string): Promise<boolean> {
  const rows = await tx.query(
    `select from operator_task_exports i join operator_tasks t on t.id = i.task_id and t.status = 'Running'
      where i.task_id = $1 and i.export_id = $2 and i.status = 'waiting'
        for update of i skip locked for share of t skip locked`,
    [taskId, exportId],
  );
  return rows.length > 0;
}

export async function endTaskExport(
  tx: Sql,
  taskId: string,
  exportId: string,
  end: {
    readonly status: 'done' | 'skipped';
    readonly detail: string | null;
    readonly backfillIds: readonly string[];
  },
): Promise<void> {
  await tx.query(
    `update operator_task_exports set status = $3, detail = $4, backfill_ids = $5 where task_id = $1 and export_id = $2`,
    [taskId, exportId, end.status, end.detail, end.backfillIds],
  );
}

/** Ends tasks whose exports have had their turn and whose backfills have ended. */
export async function completeTasks(sql: Sql): Promise<void> {
  await sql.query(
    `update operator_tasks t set status = 'Completed', finished_at = clock_timestamp()
      where t.status = 'Running' and not exists (
        select from operator_task_exports i where i.task_id = t.id and (i.status = 'waiting'
           or exists (select from backfills b where b.id = any (i.backfill_ids) and b.status = 'Running')))`,
  );
}

/** @returns the backfills that it has started and that run, or null if it has ended */
export async function cancelTask(
  tx: Sql,
  id: string,
): Promise<readonly { readonly exportId: string; readonly backfillId: string }[] | null> {
  const ended = await tx.query(
    `update operator_tasks set status = 'Cancelled', finished_at = clock_timestamp() where id = $1 and status = 'Running' returning id`,
    [id],
  );
  if (ended.length === 0) return null;
  await tx.query(
    `update operator_task_exports set status = 'skipped', detail = '${cancelled}' where task_id = $1 and status = 'waiting'`,
    [id],
  );
  return tx.query(
    `select b.export_id as "exportId", b.id as "backfillId" from operator_task_exports i
       join backfills b on b.id = any (i.backfill_ids) and b.status = 'Running' where i.task_id = $1`,
    [id],
  );
}

/** The intervals of an export without data: the first one, and the range from it to the last one. */
export async function findMissingRange(
  sql: Sql,
  exportId: string,
): Promise<{ readonly first: DataInterval; readonly all: DataInterval } | null> {
  const [row] = await sql.query<{ first: DataInterval; all: DataInterval }>(
    `select ${rangeOf('f')} as first, ${rangeOf('g')} as all
       from (select min(data_interval_start) as start_at, max(data_interval_end) as end_at from missing_intervals where export_id = $1) g,
            (select data_interval_start as start_at, data_interval_end as end_at
               from missing_intervals where export_id = $1 order by data_interval_start limit 1) f`,
    [exportId],
  );
  return row ?? null;
}
