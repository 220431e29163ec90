import type { Recipe } from '../domain/recipe.ts';
import type { DataInterval } from '../domain/time.ts';
import type { Sql } from './database.ts';
import { boundsOf, instantOf, intervalOf } from './times.ts';

/** One file of a current manifest. */
export interface ReceiptFile {
  readonly key: string;
  readonly rows: number;
  readonly bytes: number;
  /** Lower-case hexadecimal. */
  readonly sha256: string;
  /** The tag that the store gave it; not kept by earlier builds. */
  readonly etag?: string | null;
}

/** Our record of the current manifest of one interval. */
export interface Receipt {
  readonly exportId: string;
  readonly interval: DataInterval;
  readonly runId: string;
  /** The version of the export's destination that it is at. */
  readonly destinationVersion: number;
  /** Of the current files. */
  readonly generation: number;
  /** Of the database that committed it; null in earlier builds. */
  readonly era: string | null;
  /** Null if the export writes no manifest. */
  readonly manifestKey: string | null;
  readonly manifestEtag: string | null;
  readonly files: readonly ReceiptFile[];
  readonly rejectedFiles: readonly ReceiptFile[];
  /** Null in earlier builds. */
  readonly recipe: Recipe | null;
  readonly rows: number;
  readonly bytes: number;
  /** What the run that last read the interval saw; absent or null if it is not known. */
  readonly proof?: ReadSnapshot | null;
}

/** The rows that a run saw, by their keys. */
interface ReadSnapshot {
  readonly snapshot: string;
  /** Null if only the count was kept. */
  readonly digest: string | null;
  readonly count: number;
}

const receiptColumns = `export_id as "exportId", ${intervalOf('receipts')} as interval,
  run_id as "runId", destination_version as "destinationVersion", generation, era, manifest_key as "manifestKey", manifest_etag as "manifestEtag", files, rejected_files as "rejectedFiles", recipe, rows, bytes,
  case when snapshot is not null and key_count is not null then json_build_object('snapshot', snapshot, 'digest', key_digest, 'count', key_count) end as proof`;

export async function findReceipt(
  sql: Sql,
  exportId: string,
  interval: DataInterval,
): Promise<Receipt | null> {
  const [row] = await sql.query<Receipt>(
    `select ${receiptColumns} from receipts
      where export_id = $1 and data_interval_start = $2 and data_interval_end = $3`,
    [exportId, ...boundsOf(interval)],
  );
  return row ?? null;
}

/** Whether an export has a receipt at this version of its destination. */
export async function hasReceiptAt(
  sql: Sql,
  exportId: string,
  destinationVersion: number,
): Promise<boolean> {
  const rows = await sql.query(
    `select from receipts where export_id = $1 and destination_version = $2 limit 1`,
    [exportId, destinationVersion],
  );
  return rows.length === 1;
}

/** Receipts of an export after the interval `after`, oldest first. */
export async function listReceipts(
  sql: Sql,
  exportId: string,
  after: DataInterval | null,
  limit: number,
): Promise<Receipt[]> {
  return sql.query<Receipt>(
    `select ${receiptColumns} from receipts where export_id = $1 and (data_interval_start, data_interval_end) > ($2, $3)
      order by data_interval_start, data_interval_end limit $4`,
    [exportId, ...(after ? boundsOf(after) : ['-infinity', '-infinity']), limit],
  );
}

/** Replaces the receipt of the interval. */
export async function putReceipt(tx: Sql, receipt: Receipt): Promise<void> {
  await tx.query(
    `insert into receipts (export_id, data_interval_start, data_interval_end, run_id, manifest_key, manifest_etag, files, rejected_files, rows, bytes, destination_version, recipe, generation, era)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
     on conflict (export_id, data_interval_start, data_interval_end) do update
        set run_id = excluded.run_id, manifest_key = excluded.manifest_key, manifest_etag = excluded.manifest_etag,
            files = excluded.files, rejected_files = excluded.rejected_files, rows = excluded.rows, bytes = excluded.bytes,
            destination_version = excluded.destination_version, recipe = excluded.recipe,
            generation = excluded.generation, era = excluded.era, committed_at = clock_timestamp()`,
    [
      receipt.exportId,
      ...boundsOf(receipt.interval),
      receipt.runId,
      receipt.manifestKey,
      receipt.manifestEtag,
      JSON.stringify(receipt.files),
      JSON.stringify(receipt.rejectedFiles),
      receipt.rows,
      receipt.bytes,
      receipt.destinationVersion,
      receipt.recipe,
      receipt.generation,
      receipt.era,
    ],
  );
}

/** What the run that last read an interval saw, and whether it saw everything. */
export interface Proof {
  readonly snapshot: string;
  readonly settled: boolean;
  /** What may still add rows, by the source's own names. */
  readonly pending: readonly string[];
  /** Of the keys of all rows; null if there is none. */
  readonly keyDigest: string | null;
  readonly recordsTotalCount: number;
}

/** Renews the proof of an interval with a receipt; files and manifest stay. */
export async function putProof(
  tx: Sql,
  at: Pick<Receipt, 'exportId' | 'interval'>,
  proof: Proof,
): Promise<void> {
  await tx.query(
    `update receipts set snapshot = $4, settled = $5, pending_transactions = $6, key_digest = $7, key_count = $8,
            pending_checked_at = clock_timestamp(), looked_back_at = clock_timestamp()
      where export_id = $1 and data_interval_start = $2 and data_interval_end = $3`,
    [
      at.exportId,
      ...boundsOf(at.interval),
      proof.snapshot,
      proof.settled,
      proof.pending,
      proof.keyDigest,
      proof.recordsTotalCount,
    ],
  );
}

/** Intervals of an export that start in `range` and are completed, oldest first. */
export async function listCompletedIntervals(
  sql: Sql,
  exportId: string,
  range: DataInterval,
): Promise<DataInterval[]> {
  return sql.query<DataInterval>(
    `select ${instantOf('data_interval_start')} as start, ${instantOf('data_interval_end')} as "end" from receipts
      where export_id = $1 and data_interval_start >= $2 and data_interval_start < $3
      order by data_interval_start`,
    [exportId, ...boundsOf(range)],
  );
}

/**
 * Moves the high-water mark to the end of the unbroken prefix of intervals that are completed and settled, or
 * that an operator accepted, counted from the first tick that ran. It never moves back.
 */
export async function advanceHighWaterMark(tx: Sql, exportId: string): Promise<void> {
  await tx.query(
    `with recursive prefix as (
       select coalesce(e.high_water_mark,
                (select min(t.data_interval_start) from ticks t where t.export_id = e.id and t.fate = 'ran')) as mark
         from batch_exports e where e.id = $1
       union all
       select passed.data_interval_end from prefix p, lateral (
         select r.data_interval_end from receipts r
          where r.export_id = $1 and r.data_interval_start = p.mark
            and coalesce(r.settled, (select run.settled from runs run where run.id = r.run_id), true)
         union all
         select a.data_interval_end from accepted_intervals a
          where a.export_id = $1 and a.data_interval_start = p.mark
            -- A run that failed since is a hole again.
            and not exists (select from holes h where h.export_id = $1 and h.data_interval_start = p.mark)
         limit 1) as passed
     )
     update batch_exports set high_water_mark = m.mark
       from (select max(mark) as mark, min(mark) as first from prefix) m
      where id = $1 and m.mark > coalesce(high_water_mark, m.first)`,
    [exportId],
  );
}
