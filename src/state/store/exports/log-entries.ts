import { hideFolders } from '../../../foundation/domain/partition.ts';
import type { Timestamp } from '../../../foundation/domain/time.ts';
import type { Sql } from '../database/database.ts';
import {
  Conditions,
  escapeLike,
  type OffsetPage,
  type PageRequest,
  type TimeBound,
} from '../database/lists.ts';
import { prepared } from '../database/prepared.ts';

export type LogLevel = 'DEBUG' | 'LOG' | 'INFO' | 'WARNING' | 'ERROR';

export const logLevels: readonly LogLevel[] = ['DEBUG', 'LOG', 'INFO', 'WARNING', 'ERROR'];

/** A line for the export's owner: no stack trace, no secret, nothing of another tenant. */
export interface NewLogEntry {
  readonly teamId: number;
  readonly exportId: string;
  readonly runId: string | null;
  readonly level: LogLevel;
  readonly message: string;
  /** Its age; default 0. */
  readonly ageMs?: number;
}

export async function appendLogEntries(sql: Sql, entries: readonly NewLogEntry[]): Promise<void> {
  if (entries.length === 0) return;
  await sql.query(prepared(insertEntries(1)), entryValues(entries));
}

/** SQL. @param first number of its parameter for `entryValues` @param runs a table: only entries of its run_id are written */
export function insertEntries(first: number, runs?: string): string {
  const types = ['int', 'uuid', 'uuid', 'text', 'text', 'float8'];
  const arrays = types.map((type, index) => `$${first + index}::${type}[]`).join(', ');
  return `insert into log_entries (team_id, export_id, run_id, level, message, timestamp)
     select e.team_id, e.export_id, e.run_id, e.level, e.message, clock_timestamp() - e.age_ms * interval '1 ms'
       from unnest(${arrays}) with ordinality as e (team_id, export_id, run_id, level, message, age_ms, place)
      -- A worker may wake up after its tenant was deleted.
      where exists (select from batch_exports b where b.id = e.export_id)${runs === undefined ? '' : ` and exists (select from ${runs} o where o.run_id = e.run_id)`}
      order by e.place`;
}

export function entryValues(entries: readonly NewLogEntry[]): readonly unknown[] {
  return [
    entries.map((entry) => entry.teamId),
    entries.map((entry) => entry.exportId),
    entries.map((entry) => entry.runId),
    entries.map((entry) => entry.level),
    // Postgres text holds no NUL.
    entries.map((entry) => hideFolders(entry.message.replaceAll('\0', '\u2400'))),
    entries.map((entry) => entry.ageMs ?? 0),
  ];
}

export interface LogEntry extends Omit<NewLogEntry, 'ageMs'> {
  readonly timestamp: Timestamp;
}

export interface LogListRequest {
  readonly exportId: string;
  /** Null: a line of the whole export. */
  readonly runId: string | null;
  readonly levels: readonly LogLevel[] | null;
  readonly after: TimeBound | null;
  readonly before: TimeBound | null;
  readonly search: string | null;
}

export async function listLogEntries(
  sql: Sql,
  request: LogListRequest,
  page: PageRequest,
): Promise<OffsetPage<LogEntry>> {
  const [count, results] = await Promise.all([
    countEntries(sql, request),
    readPage(sql, request, page),
  ]);
  return { count, results };
}

function conditionsOf(request: LogListRequest): Conditions {
  return new Conditions()
    .add('l.export_id = ?', request.exportId)
    .add('l.run_id = ?', request.runId)
    .addBound('l.timestamp >=', request.after)
    .addBound('l.timestamp <=', request.before)
    .add(`l.message ilike '%' || ? || '%'`, escapeLike(request.search));
}

/** Counts in an index: the order is that of one, so the table is not read, nor sorted. */
async function countEntries(sql: Sql, request: LogListRequest): Promise<number> {
  const conditions = conditionsOf(request);
  const { levels } = request;
  const [from, ofLevel] =
    levels === null
      ? ['', '']
      : [
          `unnest($${conditions.values.length + 1}::text[]) as chosen (level), lateral `,
          ' and l.level = chosen.level',
        ];
  const [row] = await sql.query<{ count: number }>(
    `select count(*) as count from ${from}(select from log_entries l where ${conditions.sql}${ofLevel} order by l.id desc) as counted`,
    levels === null ? conditions.values : [...conditions.values, [...new Set(levels)]],
  );
  return row?.count ?? 0;
}

/** Fetches rows for this page only; skipped rows are only counted in an index. */
async function readPage(
  sql: Sql,
  request: LogListRequest,
  { limit, offset }: PageRequest,
): Promise<LogEntry[]> {
  const conditions = conditionsOf(request);
  const ids = `select l.id from log_entries l where ${conditions.sql}`;
  const ofLevels = [...new Set(request.levels)].map(
    (level) => `${ids} and l.level = ${conditions.parameter(level)}`,
  );
  const entryIds = ofLevels.length > 1 ? merged(ofLevels) : (ofLevels[0] ?? ids);
  return sql.query<LogEntry>(
    `with page as materialized (
       ${entryIds} order by l.id desc limit ${conditions.parameter(limit)} offset ${conditions.parameter(offset)}
     )
     select l.team_id as "teamId", l.export_id as "exportId", l.run_id as "runId", l.timestamp, l.level, l.message
       from page join log_entries l using (id) order by l.id desc`,
    conditions.values,
  );

  /** An index gives each level in order, and no more than needed; the levels are merged. */
  function merged(branches: readonly string[]): string {
    const reach = conditions.parameter(limit + offset);
    const ordered = branches.map((ids) => `(${ids} order by l.id desc limit ${reach}::bigint)`);
    return `select l.id from (${ordered.join(' union all ')}) as l`;
  }
}

/** Counts the texts of an export that quote a value of a row, such as the key of a rejected one. */
export async function countQuotes(sql: Sql, exportId: string, value: string): Promise<number> {
  const inJson = JSON.stringify(value).slice(1, -1);
  const forms = [...new Set([value, inJson])].map(escapeForPattern);
  // `7` is not quoted by `17 rows`.
  const pattern = `(^|[^[:alnum:]])(${forms.join('|')})($|[^[:alnum:]])`;
  const [row] = await sql.query<{ count: number }>(
    `select count(*) from (
       select message as text from log_entries where export_id = $1
       union all select latest_error from runs where export_id = $1
       union all select late_rows_wait from receipts where export_id = $1
       union all select detail from export_checks where export_id = $1
       union all select facts::text from notification_deliveries where export_id = $1
       union all select changes::text from activity where subject_type = 'batch_export' and subject_id = $1::text
       union all select unnest(array[e.failing_error, e.paused_reason]) from batch_exports e where e.id = $1
       union all select c.error from pipeline_transformation_configs c join batch_exports e on e.team_id = c.team_id where e.id = $1
     ) as stored where text ~ $2`,
    [exportId, pattern],
  );
  return row?.count ?? 0;
}

/** PostgreSQL takes a punctuation mark after a backslash as itself. */
const escapeForPattern = (text: string): string => text.replace(/[!-/:-@[-`{-~]/g, '\\$&');
