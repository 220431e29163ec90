import type { CurrentReceipt } from '../../../foundation/domain/receipt.ts';
import type { DataInterval } from '../../../foundation/domain/time.ts';
import type { Sql } from '../database/database.ts';
import { boundsOf, instantOf, intervalOf } from '../database/times.ts';

/** Our record of the current manifest of one interval. */
export interface Receipt extends CurrentReceipt {
  readonly exportId: string;
  readonly interval: DataInterval;
  readonly runId: string;
  /** The version of the export's destination that it is at. */
  readonly destinationVersion: number;
  readonly rows: number;
  readonly bytes: number;
}

/** The columns of `Receipt`; of a subquery as JSON they stay what they are. */
export const receiptColumns = `export_id as "exportId", ${intervalOf('receipts')} as interval,
  run_id as "runId", destination_version as "destinationVersion", generation, era, manifest_key as "manifestKey", manifest_etag as "manifestEtag", manifest_sha256 as "manifestSha256", delivered_digest as "deliveredDigest", files, rejected_files as "rejectedFiles", recipe, api_time(snapshot_at) as "snapshotAt", element, rows, bytes,
  json_build_object('snapshot', snapshot, 'digest', key_digest, 'count', key_count, 'settled', settled,
    'pending', pending_transactions) as proof`;

/** Says whether an export has a receipt at this version of its destination. */
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

/** A completed interval. */
export interface CompletedInterval extends DataInterval {
  /** Rows in its files at the current destination, rejected ones included. */
  readonly rows: number;
  readonly deliveredDigest: string | null;
}

/** Intervals of an export that start in `range` and are completed, oldest first. */
export async function listCompletedIntervals(
  sql: Sql,
  exportId: string,
  range: DataInterval,
): Promise<CompletedInterval[]> {
  return sql.query<CompletedInterval>(
    `select ${instantOf('c.data_interval_start')} as start, ${instantOf('c.data_interval_end')} as "end",
            case when c.destination_version = e.destination_version then
              (select coalesce(sum((file->>'rows')::bigint), 0)::bigint from jsonb_array_elements(c.files || c.rejected_files) file)
            else 0 end as rows, c.delivered_digest as "deliveredDigest"
       from receipts c join batch_exports e on e.id = c.export_id
      where c.export_id = $1 and c.data_interval_start >= $2 and c.data_interval_start < $3
      order by c.data_interval_start`,
    [exportId, ...boundsOf(range)],
  );
}
