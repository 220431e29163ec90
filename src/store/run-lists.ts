import type { RunStatus } from '../domain/run.ts';
import type { Sql } from './database.ts';
import { type KeysetPage, type KeysetPlace, seek, toKeysetPage } from './keyset.ts';
import { type Run, runColumns } from './runs.ts';
import { Conditions, type TimeBound } from './time-bound.ts';

export interface RunListRequest {
  readonly exportId: string;
  readonly statuses: readonly RunStatus[] | null;
  readonly createdAfter: TimeBound | null;
  readonly createdBefore: TimeBound | null;
  readonly intervalStart: TimeBound | null;
  readonly intervalEnd: TimeBound | null;
  readonly orderBy: 'created_at' | 'data_interval_start';
  readonly descending: boolean;
  readonly place: KeysetPlace | null;
  readonly limit: number;
}

/** A page of an export's runs. Rows that are added while a client pages never repeat or hide one. */
export async function listRuns(sql: Sql, request: RunListRequest): Promise<KeysetPage<Run>> {
  const { place, limit, descending } = request;
  const conditions = new Conditions()
    .add('r.export_id = ?', request.exportId)
    .add('r.status = any (?)', request.statuses)
    .addBound('r.created_at >=', request.createdAfter)
    .addBound('r.created_at <=', request.createdBefore)
    .addBound('r.data_interval_start >=', request.intervalStart)
    .addBound('r.data_interval_end <=', request.intervalEnd);
  const order = { column: `r.${request.orderBy}`, descending };
  const page = seek(conditions, order, 'r.id', place, limit);
  const rows = await sql.query<Run>(
    `select ${runColumns} from runs r where ${conditions.sql} ${page}`,
    conditions.values,
  );
  return toKeysetPage(rows, place, limit);
}

/** Rows per run over the newest hundred completed ones; null where none is. */
export async function averageRows(sql: Sql, exportId: string): Promise<number | null> {
  const [row] = await sql.query<{ average: number | null }>(
    `select avg(newest.records_total_count)::float8 as average
       from (select records_total_count from runs
              where export_id = $1 and status = 'Completed' order by created_at desc, id desc limit 100) as newest`,
    [exportId],
  );
  return row?.average ?? null;
}
