import type { BatchExport } from '../domain/batch-export.ts';
import type { Cadence, Interval } from '../domain/cadence.ts';
import type { DestinationConfig } from '../domain/file-settings.ts';
import type { Schedule } from '../domain/schedule.ts';
import { type Timestamp, toTimestamp } from '../domain/time.ts';
import type { Sql } from './database.ts';
import type { OffsetPage, PageRequest } from './lists.ts';
import { type Reach, reaches, reachValue } from './reach.ts';

/** All settings of an export that a request can change. */
export interface BatchExportSettings {
  readonly name: string;
  readonly destination: BatchExport['destination'];
  readonly cadence: Cadence;
  readonly dslQuery: string | null;
  readonly querySchema: unknown;
  readonly transformations: boolean;
  readonly paused: boolean;
  readonly lastPausedAt: Timestamp | null;
  readonly pausedReason: string | null;
  readonly startAt: Timestamp | null;
  readonly endAt: Timestamp | null;
  readonly schedule: Schedule;
}

export interface NewBatchExport extends BatchExportSettings {
  readonly id: string;
  readonly teamId: number;
  readonly model: string;
}

type Row = Omit<BatchExport, 'destination' | 'cadence'> & {
  destinationType: string;
  destinationConfig: DestinationConfig;
  destinationSecrets: Buffer | null;
  interval: Interval;
  timezone: string;
  offsetDay: number | null;
  offsetHour: number | null;
};

const columns = `e.id, e.team_id as "teamId", e.name, e.destination_type as "destinationType",
  e.destination_config as "destinationConfig", e.destination_secrets as "destinationSecrets",
  e."interval", e.timezone, e.offset_day as "offsetDay", e.offset_hour as "offsetHour", e.model,
  e.dsl_query as "dslQuery", e.query_schema as "querySchema", e.transformations, e.paused,
  e.last_paused_at as "lastPausedAt", e.paused_reason as "pausedReason", e.start_at as "startAt",
  e.end_at as "endAt", e.created_at as "createdAt", e.last_updated_at as "lastUpdatedAt",
  e.schedule, e.high_water_mark as "highWaterMark",
  e.failure_streak as "failureStreak", e.last_success_at as "lastSuccessAt"`;

/** Field by field: spread objects have no fixed shape, and a page makes a thousand. */
function toBatchExport(row: Row): BatchExport {
  return {
    id: row.id,
    teamId: row.teamId,
    name: row.name,
    destination: {
      type: row.destinationType,
      config: row.destinationConfig,
      secrets: row.destinationSecrets,
    },
    cadence: {
      interval: row.interval,
      timezone: row.timezone,
      offsetDay: row.offsetDay,
      offsetHour: row.offsetHour,
    },
    model: row.model,
    dslQuery: row.dslQuery,
    querySchema: row.querySchema,
    transformations: row.transformations,
    paused: row.paused,
    lastPausedAt: row.lastPausedAt,
    pausedReason: row.pausedReason,
    startAt: row.startAt,
    endAt: row.endAt,
    createdAt: row.createdAt,
    lastUpdatedAt: row.lastUpdatedAt,
    schedule: row.schedule,
    highWaterMark: row.highWaterMark,
    failureStreak: row.failureStreak,
    lastSuccessAt: row.lastSuccessAt,
  };
}

/** The columns that a request can set. Statements find a column's parameter by its name. */
const writable = {
  name: (settings) => settings.name,
  destination_config: ({ destination }) => JSON.stringify(destination.config),
  destination_secrets: ({ destination }) => destination.secrets,
  interval: ({ cadence }) => cadence.interval,
  timezone: ({ cadence }) => cadence.timezone,
  offset_day: ({ cadence }) => cadence.offsetDay,
  offset_hour: ({ cadence }) => cadence.offsetHour,
  dsl_query: (settings) => settings.dslQuery,
  query_schema: ({ querySchema }) => (querySchema === null ? null : JSON.stringify(querySchema)),
  transformations: (settings) => settings.transformations,
  paused: (settings) => settings.paused,
  last_paused_at: (settings) => settings.lastPausedAt,
  paused_reason: (settings) => settings.pausedReason,
  start_at: (settings) => settings.startAt,
  end_at: (settings) => settings.endAt,
  schedule: ({ schedule }) => JSON.stringify(schedule),
  next_tick_at: ({ schedule }) => toTimestamp(schedule.nextTickAt),
} satisfies Record<string, (settings: BatchExportSettings) => unknown>;

const writableNames = Object.keys(writable) as (keyof typeof writable)[];
const writableColumns = writableNames.map((name) => `"${name}"`).join(', ');

const writableValues = (settings: BatchExportSettings): unknown[] =>
  writableNames.map((name) => writable[name](settings));

/** The parameter of a column, in a statement that passes `writableValues` after `before` other values. */
const parameterOf = (name: keyof typeof writable, before: number): string =>
  `$${before + 1 + writableNames.indexOf(name)}`;

const writableParameters = (before: number): string =>
  writableNames.map((name) => parameterOf(name, before)).join(', ');

const insertion = `insert into batch_exports as e (id, team_id, model, destination_type, ${writableColumns})
  values ($1, $2, $3, $4, ${writableParameters(4)}) returning ${columns}`;

export async function insertBatchExport(tx: Sql, created: NewBatchExport): Promise<BatchExport> {
  const { id, teamId, model, destination } = created;
  const values = [id, teamId, model, destination.type, ...writableValues(created)];
  const [row] = await tx.query<Row>(insertion, values);
  if (!row) throw new Error('an insert returned no row');
  return toBatchExport(row);
}

/** Writes all settings of an export that the transaction has locked. */
export async function updateBatchExport(
  tx: Sql,
  id: string,
  settings: BatchExportSettings,
): Promise<BatchExport> {
  const [row] = await tx.query<Row>(
    `update batch_exports e
        set (${writableColumns}, last_updated_at) = (${writableParameters(1)}, clock_timestamp()),
            -- An unpause follows a fix: the failures before it do not pause the export again.
            failure_streak = case when e.paused and not ${parameterOf('paused', 1)}::boolean
                                  then 0 else failure_streak end
      where e.id = $1 returning ${columns}`,
    [id, ...writableValues(settings)],
  );
  if (!row) throw new Error('an update returned no row');
  return toBatchExport(row);
}

export async function findBatchExport(
  sql: Sql,
  reach: Reach,
  id: string,
): Promise<BatchExport | null> {
  const [row] = await sql.query<Row>(
    `select ${columns} from batch_exports e
      where e.id = $1 and e.deleted_at is null and ${reaches(reach, 'e.team_id', 2)}`,
    [id, reachValue(reach)],
  );
  return row ? toBatchExport(row) : null;
}

/**
 * Locks an export of any owner until the transaction ends, for work that was already authorized. Always
 * lock it before one of its runs, in the same order as a delete. Rows that refer to the export can still be
 * written; otherwise a worker that locks a backfill or a run would deadlock with the holder of this lock.
 */
export async function lockExport(tx: Sql, id: string): Promise<BatchExport | null> {
  const [row] = await tx.query<Row>(
    `select ${columns} from batch_exports e where e.id = $1 and e.deleted_at is null for no key update`,
    [id],
  );
  return row ? toBatchExport(row) : null;
}

/** Newest first. */
export async function listBatchExports(
  sql: Sql,
  reach: Reach,
  page: PageRequest,
): Promise<OffsetPage<BatchExport>> {
  const inReach = `e.deleted_at is null and ${reaches(reach, 'e.team_id', 1)}`;
  // One after the other: a request with two connections at once would starve others of the pool.
  const [total] = await sql.query<{ count: number }>(
    `select count(*) from batch_exports e where ${inReach}`,
    [reachValue(reach)],
  );
  const rows = await sql.query<Row>(
    `select ${columns} from batch_exports e where ${inReach}
      order by e.created_at desc, e.id desc limit $2 offset $3`,
    [reachValue(reach), page.limit, page.offset],
  );
  return { count: total?.count ?? 0, results: rows.map(toBatchExport) };
}

/** @returns false if it was deleted before */
export async function markBatchExportDeleted(tx: Sql, id: string): Promise<boolean> {
  const rows = await tx.query(
    `update batch_exports set deleted_at = clock_timestamp(), last_updated_at = clock_timestamp()
      where id = $1 and deleted_at is null returning id`,
    [id],
  );
  return rows.length === 1;
}

/** The effect of a run's end on its export. */
export interface FailureStreak {
  readonly streak: number;
  readonly paused: boolean;
}

/** A completed run ends the streak of failures. */
export async function recordSuccess(tx: Sql, exportId: string): Promise<void> {
  await tx.query(
    `update batch_exports set failure_streak = 0, last_success_at = now() where id = $1`,
    [exportId],
  );
}

/**
 * Counts a Failed run and pauses the export once the streak reaches `pauseAfter`.
 *
 * @returns the streak, and whether this failure paused the export
 */
export async function recordFailure(
  tx: Sql,
  exportId: string,
  pauseAfter: number,
  reason: string,
): Promise<FailureStreak> {
  const [row] = await tx.query<FailureStreak>(
    `with old as (select id, paused from batch_exports where id = $1 for no key update)
     update batch_exports e
        set failure_streak = failure_streak + 1,
            paused = e.paused or failure_streak + 1 >= $2,
            last_paused_at = case when not e.paused and failure_streak + 1 >= $2 then now() else last_paused_at end,
            paused_reason = case when not e.paused and failure_streak + 1 >= $2 then $3 else paused_reason end
       from old where e.id = old.id
     returning e.failure_streak as streak, (e.paused and not old.paused) as paused`,
    [exportId, pauseAfter, reason],
  );
  return row ?? { streak: 0, paused: false };
}
