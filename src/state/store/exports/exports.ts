import type { BatchExport, PauseReason } from '../../../foundation/domain/batch-export.ts';
import type { Cadence } from '../../../foundation/domain/cadence.ts';
import { settingList } from '../../../foundation/domain/export-settings.ts';
import type { DestinationConfig } from '../../../foundation/domain/file-settings.ts';
import { type Instant, toTimestamp } from '../../../foundation/domain/time.ts';
import { activityInsertion, activityValues, type NewActivity } from './activity.ts';
import type { Sql, Transactor } from '../database/database.ts';
import { command, queryAny, queryFlag, queryValue, queryValues } from '../database/statement.ts';
import { prepared } from '../database/prepared.ts';
import { byReach, type Reach, reaches, reachValue } from '../tenants/tenants.ts';
import { instantOf } from '../database/times.ts';
import type { Schedule } from '../../../foundation/domain/schedule.ts';

/** All settings of an export that a request can change. */
export type BatchExportSettings = Omit<
  BatchExport,
  | 'id'
  | 'teamId'
  | 'model'
  | 'createdAt'
  | 'lastUpdatedAt'
  | 'highWaterMark'
  | 'failureStreak'
  | 'lastSuccessAt'
  | 'lateSince'
>;

export type NewBatchExport = BatchExportSettings & Pick<BatchExport, 'id' | 'teamId' | 'model'>;

/** An export as statements select it by `columns`. */
export interface ExportRow extends Omit<BatchExport, 'destination' | 'cadence'>, Cadence {
  readonly destinationType: string;
  readonly destinationConfig: DestinationConfig;
  readonly destinationSecrets: Buffer | null;
  readonly destinationSecretEnds: Record<string, string | null> | null;
}

export const columns = `e.id, e.team_id as "teamId", e.name, e.destination_type as "destinationType",
  e.destination_config as "destinationConfig", e.destination_secrets as "destinationSecrets",
  e.destination_secret_ends as "destinationSecretEnds",
  e."interval", e.timezone, e.offset_day as "offsetDay", e.offset_hour as "offsetHour", e.model,
  e.dsl_query as "dslQuery", e.query_schema as "querySchema", e.filters, e.transformations, e.paused,
  e.last_paused_at as "lastPausedAt", e.paused_reason as "pausedReason", e.paused_code as "pausedCode", e.start_at as "startAt",
  e.end_at as "endAt", ${settingList.map(({ field, name }) => `e.${field} as "${name}"`).join(', ')}, e.late_since as "lateSince",
  e.created_at as "createdAt", e.last_updated_at as "lastUpdatedAt",
  e.schedule, ${instantOf('e.high_water_mark')} as "highWaterMark",
  e.failure_streak as "failureStreak", e.last_success_at as "lastSuccessAt"`;

export function toBatchExport(row: ExportRow): BatchExport {
  const { destinationType: type, destinationConfig: config, ...other } = row;
  const { destinationSecrets: secrets, destinationSecretEnds: secretEnds, ...more } = other;
  const { interval, timezone, offsetDay, offsetHour, ...rest } = more;
  const cadence = { interval, timezone, offsetDay, offsetHour };
  return { ...rest, destination: { type, config, secrets, secretEnds }, cadence };
}

/** The columns that a request can set. Statements find a column's parameter by its name. */
const writable = {
  name: (settings) => settings.name,
  destination_config: ({ destination }) => JSON.stringify(destination.config),
  destination_secrets: ({ destination }) => destination.secrets,
  destination_secret_ends: ({ destination: { secretEnds = null } }) =>
    secretEnds === null ? null : JSON.stringify(secretEnds),
  interval: ({ cadence }) => cadence.interval,
  timezone: ({ cadence }) => cadence.timezone,
  offset_day: ({ cadence }) => cadence.offsetDay,
  offset_hour: ({ cadence }) => cadence.offsetHour,
  dsl_query: (settings) => settings.dslQuery,
  query_schema: ({ querySchema }) => (querySchema === null ? null : JSON.stringify(querySchema)),
  filters: ({ filters }) => (filters === null ? null : JSON.stringify(filters)),
  transformations: (settings) => settings.transformations,
  paused: (settings) => settings.paused,
  last_paused_at: (settings) => settings.lastPausedAt,
  paused_reason: (settings) => settings.pausedReason,
  paused_code: (settings) => settings.pausedCode,
  start_at: (settings) => settings.startAt,
  end_at: (settings) => settings.endAt,
  schedule: ({ schedule }) => JSON.stringify(schedule),
  next_tick_at: ({ schedule }) => toTimestamp(schedule.nextTickAt),
} satisfies Record<string, (settings: BatchExportSettings) => unknown>;

const writableNames = Object.keys(writable) as (keyof typeof writable)[];
const allWritable = [...writableNames, ...settingList.map(({ field }) => field)];
const writableColumns = allWritable.map((name) => `"${name}"`).join(', ');

const writableValues = (settings: BatchExportSettings): unknown[] => [
  ...writableNames.map((name) => writable[name](settings)),
  ...settingList.map(({ name }) => settings[name]),
];

/** The parameter of a column, in a statement that passes `writableValues` after `before` other values. */
const parameterOf = (name: keyof typeof writable, before: number): string =>
  `$${before + 1 + writableNames.indexOf(name)}`;

const writableParameters = (before: number): string =>
  allWritable.map((_, place) => `$${before + 1 + place}`).join(', ');

const updating = prepared(`with changed as (
     update batch_exports e
        set (${writableColumns}, last_updated_at) = (${writableParameters(1)}, clock_timestamp()),
            -- An unpause follows a fix: the failures before it do not pause the export again.
            failure_streak = case when e.paused and not ${parameterOf('paused', 1)}::boolean
                                  then 0 else failure_streak end
      where e.id = $1 returning ${columns}
   ), noted as (${activityInsertion(1 + allWritable.length, 'from changed')})
   select * from changed`);

/** Writes all settings of an export that the transaction has locked, and records the change. */
export async function updateBatchExport(
  tx: Sql,
  id: string,
  settings: BatchExportSettings,
  activity: NewActivity,
): Promise<BatchExport> {
  const values = [id, ...writableValues(settings), ...activityValues(activity)];
  const [row] = await tx.query<ExportRow>(updating, values);
  if (!row) throw new Error('an update returned no row');
  return toBatchExport(row);
}

/** Two numbers name an advisory lock: this one, and the project's id. */
const creationLock = 1_937_011_305;

const newColumns = 4;
const roomParameter = newColumns + allWritable.length + 1;
const isBelow = (room: string): string =>
  `(select count(*) from batch_exports where team_id = $2 and deleted_at is null) < ${room}`;

/** Inserts an export and its activity, for each row of `from`: one or none. */
const creationFrom = (before: string, from: string): string =>
  prepared(`with ${before} created as (
    insert into batch_exports as e (id, team_id, model, destination_type, ${writableColumns})
    select $1, $2, $3, $4, ${writableParameters(newColumns)} ${from}
    returning ${columns}
  ), noted as (${activityInsertion(roomParameter, 'from created')})
  select * from created`);

const creation = creationFrom('', `where ${isBelow(`$${roomParameter}::int`)}`);

/** Counts what was committed when it began. Creations in progress may add more: at most twice `max_connections`. */
const farCreation = creationFrom(
  `locked as materialized (
    select pg_advisory_xact_lock_shared(${creationLock}, $2)
     where ${isBelow(`$${roomParameter}::int - 3 * current_setting('max_connections')::int`)}
  ),`,
  'from locked',
);

/** Far from `maximum`, creations do not wait for each other. @returns null if the project is full */
export async function createBatchExport(
  db: Transactor,
  maximum: number,
  created: NewBatchExport,
  activity: NewActivity,
): Promise<BatchExport | null> {
  const { id, teamId, model, destination } = created;
  const values = [id, teamId, model, destination.type, ...writableValues(created), maximum];
  const parameters = [...values, ...activityValues(activity)];
  const [row] = await db.query<ExportRow>(farCreation, parameters);
  if (row) return toBatchExport(row);
  return db.transaction(async (tx) => {
    await holdCreations(tx, teamId);
    // A statement of its own: it counts what was committed while the lock was waited for.
    const [last] = await tx.query<ExportRow>(creation, parameters);
    return last ? toBatchExport(last) : null;
  });
}

/** Until the transaction ends: what the next statement finds among the exports of the project is all that there is. */
export const holdCreations = command('select pg_advisory_xact_lock($1, $2)', (teamId: number) => [
  creationLock,
  teamId,
]);

/** The oldest export of a project that has exactly this name, and is not deleted. */
export const findExportNamed = queryValue<string, [teamId: number, name: string]>(
  prepared(`select id from batch_exports where team_id = $1 and name = $2 and deleted_at is null
       order by created_at, id limit 1`),
);

const finding = byReach(
  (reach) => `select ${columns} from batch_exports e
    where e.id = $1 and e.deleted_at is null and ${reaches(reach, 'e.team_id', 2)}`,
);

export async function findBatchExport(
  sql: Sql,
  reach: Reach,
  id: string,
): Promise<BatchExport | null> {
  const [row] = await sql.query<ExportRow>(finding(reach), [id, reachValue(reach)]);
  return row ? toBatchExport(row) : null;
}

/** True if an export has ever had a run, or will have runs of a backfill. Retention deletes runs, but no receipts. */
export const hasRuns = queryFlag<[id: string]>(
  `select exists (select from runs where export_id = $1) or exists (select from receipts where export_id = $1)
         or exists (select from backfills where export_id = $1 and status = 'Running') as has`,
);

export const isModelExported = queryFlag<[model: string]>(
  'select exists (select from batch_exports where model = $1 and deleted_at is null) as is',
);

const locking = prepared(
  `select ${columns} from batch_exports e where e.id = $1 for no key update`,
);
const lockingLive = prepared(
  `select ${columns} from batch_exports e where e.id = $1 and e.deleted_at is null for no key update`,
);

/** For work that was already authorized. Lock it before one of its runs, as a delete does. Rows that refer to it can still be written. */
export async function lockExport(
  tx: Sql,
  id: string,
  { evenDeleted = false } = {},
): Promise<BatchExport | null> {
  const [row] = await tx.query<ExportRow>(evenDeleted ? locking : lockingLive, [id]);
  return row ? toBatchExport(row) : null;
}

const lockingNow =
  prepared(`select ${columns}, ${instantOf('clock_timestamp()')} as now from batch_exports e
  where e.id = $1 and e.deleted_at is null for no key update`);

/** @returns also the time after each change that was committed before: if this one waited, Postgres evaluates it again. */
export async function lockExportNow(
  tx: Sql,
  id: string,
): Promise<{ readonly batchExport: BatchExport; readonly now: Instant } | null> {
  const [found] = await tx.query<ExportRow & { now: Instant }>(lockingNow, [id]);
  if (!found) return null;
  const { now, ...row } = found;
  return { batchExport: toBatchExport(row), now };
}

export const markBatchExportDeleted = queryAny<[id: string]>(`
     update batch_exports set deleted_at = clock_timestamp(), last_updated_at = clock_timestamp()
      where id = $1 and deleted_at is null returning id`);

/** The effect of a run's end on its export. */
export interface FailureStreak {
  readonly streak: number;
  readonly paused: boolean;
}

/** Pauses the export at `pauseAfter`. A first failure that a person must decide replaces a reason of Sluice's. @returns whether it did either */
export async function recordFailure(
  tx: Sql,
  exportId: string,
  pauseAfter: number,
  { code, text }: PauseReason,
): Promise<FailureStreak> {
  const [row] = await tx.query<FailureStreak>(
    `with old as (
       select id, case when paused then $2 = 1 and paused_reason is not null and is_decided_by_people($4) and not is_decided_by_people(paused_code)
                       else failure_streak + 1 >= $2 end as pauses
         from batch_exports where id = $1 for no key update)
     update batch_exports e
        set failure_streak = failure_streak + 1,
            paused = e.paused or old.pauses,
            last_paused_at = case when old.pauses and not e.paused then now() else last_paused_at end,
            paused_reason = case when old.pauses then $3 else paused_reason end,
            paused_code = case when old.pauses then $4 else paused_code end
       from old where e.id = old.id
     returning e.failure_streak as streak, old.pauses as paused`,
    [exportId, pauseAfter, text, code],
  );
  return row ?? { streak: 0, paused: false };
}

/** Exports of a tenant that are not paused, or whose pause has this code. */
export const listPausableExports = queryValues<string, [reach: Reach, code: string | null]>(
  `select e.id from batch_exports e join projects p on p.id = e.team_id
      where p.organization_id = $1 and ($2::int is null or p.id = $2) and e.deleted_at is null
        and case when $3::text is null then not e.paused else e.paused and e.paused_code = $3 end
      order by e.id`,
  ({ organizationId, teamId }, code) => [organizationId, teamId, code],
);

/** Ends the pause of an export that the transaction has locked. No failure before it counts any more. */
export const endPause = command(
  `update batch_exports set paused = false, paused_reason = null, paused_code = null, failure_streak = 0, schedule = $2, next_tick_at = $3,
            last_updated_at = clock_timestamp()
      where id = $1`,
  (exportId: string, schedule: Schedule) => [
    exportId,
    JSON.stringify(schedule),
    toTimestamp(schedule.nextTickAt),
  ],
);
