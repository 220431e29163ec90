import type { DeliveredState, IntervalState } from '../../../foundation/domain/statement.ts';
import type { RunPurpose } from '../../../foundation/domain/run.ts';
import type { Timestamp } from '../../../foundation/domain/time.ts';
import type { Sql } from '../database/database.ts';
import { command, queryRows } from '../database/statement.ts';
import { isSameInterval } from '../database/times.ts';

/** A receipt, as a booking needs it. */
export interface BookedReceipt {
  readonly version: number;
  readonly generation: number;
  readonly rows: number;
  readonly bytes: number;
  readonly files: number;
  /** Of its first file; null if it has none. */
  readonly key: string | null;
  readonly manifest: string | null;
  readonly sha256: string | null;
  readonly digest: string | null;
  readonly settled: boolean;
  readonly pending: readonly string[];
  /** The run that made it; null: it is not known. */
  readonly made: {
    readonly run: string;
    readonly purpose: RunPurpose;
    readonly drops: boolean;
    readonly at: Timestamp;
    /** When a person asked for it; null: of runs before this was noted. */
    readonly asked_at?: Timestamp;
  } | null;
  readonly at: Timestamp;
  /** Digests of its files; null if no booking names them. */
  readonly digests: readonly string[] | null;
}

/** An interval with something that is not booked yet. */
export interface UnbookedInterval {
  readonly start: Timestamp;
  readonly end: Timestamp;
  /** The interval in the newest statement; null: it is not in it. */
  readonly before: IntervalState | DeliveredState | null;
  /** Receipts that were made and replaced since, oldest first. */
  readonly superseded: readonly BookedReceipt[];
  readonly receipt: BookedReceipt | null;
  readonly acceptedAt: Timestamp | null;
  /** The end of the interval that was made instead; null: there is none. */
  readonly supersededBy: Timestamp | null;
  /** Of its tick; null: none is known. */
  readonly fate: string | null;
  readonly isOpen: boolean;
  readonly mark: string;
}

/** SQL of a `BookedReceipt` of the row `c` of receipts. */
const receiptOf = (c: string, withDigests: string): string =>
  `jsonb_build_object('version', ${c}.destination_version, 'generation', ${c}.generation, 'rows', ${c}.rows, 'bytes', ${c}.bytes,
    'files', jsonb_array_length(${c}.files), 'key', ${c}.files->0->>'key', 'manifest', ${c}.manifest_key, 'sha256', ${c}.manifest_sha256,
    'digest', ${c}.delivered_digest, 'settled', ${c}.settled, 'pending', ${c}.pending_transactions, 'made', ${c}.made_by,
    'at', api_time(${c}.committed_at), 'digests', case when ${withDigests} then
      (select coalesce(jsonb_agg(f->>'sha256'), '[]') from jsonb_array_elements(${c}.files || ${c}.rejected_files) f) end)`;

/** SQL of what changes if there is something to book. */
const markOf = (c: string): string =>
  `md5(concat_ws('|', ${c}.destination_version, ${c}.generation, ${c}.rows, ${c}.bytes, ${c}.settled, ${c}.pending_transactions::text,
    ${c}.delivered_digest, coalesce(${c}.manifest_sha256, md5(${c}.files::text))))`;

const bounds = 'export_id, data_interval_start, data_interval_end';

/** SQL: whether a tick was not to run, though only Sluice had paused the export: then the interval is owed. */
const isOwed = `t.fate = 'paused' and exists (select from batch_exports b where b.id = t.export_id and b.automatic_pauses @> t.tick_at)`;

/** In order, of one moment. @param periodEnd ticks of intervals from here on are new; null: all are */
export const listUnbooked = queryRows<
  UnbookedInterval,
  [exportId: string, periodEnd: Timestamp | null, limit: number]
>(`
     with known as materialized (
       ${['stated_intervals', 'receipts', 'holes', 'accepted_intervals'].map((table) => `select ${bounds} from ${table} where export_id = $1`).join(' union ')}
       union select ${bounds} from ticks where export_id = $1 and data_interval_start >= coalesce($2::timestamptz, '-infinity')
     ), seen as (
       select k.*, s.state as before, s.mark as stated, s.superseded, t.fate, a.accepted_at, a.superseded_by, c as receipt, c.export_id is not null as is_received,
              case when c.export_id is not null then ${markOf('c')}
                   when a.export_id is not null then 'accepted'
                   when h.export_id is not null or t.fate = 'ran' or ${isOwed} then 'open'
                   when t.fate is not null then 'not_due'
                   when s.mark = 'not_due' or s.state->>'state' = 'not_due' then 'not_due' else 'open' end as mark
         from known k
         left join stated_intervals s on ${isSameInterval('s', 'k')}
         left join receipts c on ${isSameInterval('c', 'k')}
         left join holes h on ${isSameInterval('h', 'k')}
         left join accepted_intervals a on ${isSameInterval('a', 'k')}
         left join ticks t on s.export_id is null and ${isSameInterval('t', 'k')}
     )
     select api_time(k.data_interval_start) as start, api_time(k.data_interval_end) as "end", nullif(k.before, 'null') as before, k.mark,
            k.fate, k.mark = 'open' as "isOpen", api_time(k.accepted_at) as "acceptedAt", api_time(k.superseded_by) as "supersededBy",
            case when k.is_received then ${receiptOf('(k.receipt)', `(k.receipt).made_by->>'purpose' = 'erase'`)} end as receipt,
            coalesce((select jsonb_agg(${receiptOf('o', 'true')} order by place)
                        from unnest(k.superseded) with ordinality as p (receipt, place), jsonb_populate_record(null::receipts, p.receipt) o),
                     '[]') as superseded
       from seen k where k.mark is distinct from k.stated or k.superseded <> '{}'
      order by k.data_interval_start, k.data_interval_end limit $3`);

export interface BookedInterval {
  readonly start: Timestamp;
  readonly end: Timestamp;
  readonly state: IntervalState | DeliveredState;
  readonly mark: string;
}

/** Stores what is booked. The caller has locked the export, so no commit has replaced a receipt since it was read. */
export const storeBooked = command(
  `insert into stated_intervals (export_id, data_interval_start, data_interval_end, state, mark)
     select $1, start, "end", state, mark from jsonb_to_recordset($2::jsonb) as b (start timestamptz, "end" timestamptz, state jsonb, mark text)
     on conflict (export_id, data_interval_start, data_interval_end) do update
        set state = excluded.state, mark = excluded.mark, superseded = '{}'`,
  (exportId: string, booked: readonly BookedInterval[]) => [exportId, JSON.stringify(booked)],
);

/** A chain begins: it books all intervals again. */
export const forgetStated = command<[exportId: string]>(
  `update stated_intervals set mark = '', state = case when state->>'state' = 'not_due' then state else 'null' end where export_id = $1`,
);

/** Who accepted an interval, and why, by the changes of the export. */
export async function findAcceptance(
  sql: Sql,
  exportId: string,
  interval: { readonly start: Timestamp; readonly end: Timestamp },
): Promise<{ readonly by: string; readonly reason: string | null }> {
  const [row] = await sql.query<{ keyId: string | null; reason: string | null }>(
    `select a.key_id as "keyId", c->'after'->>'reason' as reason
       from activity a, jsonb_array_elements(a.changes) c
      where a.subject_type = 'batch_export' and a.subject_id = $1 and a.action = 'accepted'
        and (c->'before'->>'from')::timestamptz <= $2 and (c->'before'->>'to')::timestamptz >= $3
      order by a.id desc limit 1`,
    [exportId, interval.start, interval.end],
  );
  return { by: row?.keyId ?? 'operator', reason: row?.reason ?? null };
}

/** The request to which a run belongs, who made it, and how many rows they were shown. */
export async function findRemovalRequest(
  sql: Sql,
  exportId: string,
  runId: string,
): Promise<{ readonly by: string; readonly request: string; readonly shown: number | null }> {
  const [row] = await sql.query<{ request: string; keyId: string | null; shown: number | null }>(
    `select coalesce(r.backfill_id, r.id) as request, a.key_id as "keyId", (a.changes->0->'after'->>'shown')::bigint as shown
       from runs r left join activity a on a.subject_type = 'batch_export' and a.subject_id = $1 and a.action = 'missing_rows_dropped'
        and a.changes->0->'after'->>'request' = coalesce(r.backfill_id, r.id)::text
      where r.id = $2`,
    [exportId, runId],
  );
  return {
    by: row?.keyId ?? 'operator',
    request: row?.request ?? runId,
    shown: row?.shown ?? null,
  };
}
