import type { Element } from '../../../foundation/domain/element.ts';
import type { DataInterval, Timestamp } from '../../../foundation/domain/time.ts';
import type { Sql } from '../database/database.ts';
import { queryRows, queryValue } from '../database/statement.ts';
import { boundsOf, instantOf, intervalOf } from '../database/times.ts';
import { listReceipts, type Receipt, receiptColumns } from './receipts.ts';

export const findElementBefore = queryValue<Element, [exportId: string, interval: DataInterval]>(
  `select element from receipts where export_id = $1 and data_interval_end <= $2 and element is not null
      order by data_interval_end desc limit 1`,
  (exportId, { start }) => [exportId, boundsOf({ start, end: start })[0]],
);

/** The ends of the sequence that a reader applies now. */
export interface SequenceEnds {
  readonly base: Receipt;
  readonly newest: Receipt;
}

/** The newest base of an export, and the newest element; null if there is none. */
export async function findSequenceEnds(sql: Sql, exportId: string): Promise<SequenceEnds | null> {
  const newest = (isBase: boolean) =>
    `(select ${receiptColumns} from receipts where export_id = $1 and element is not null${isBase ? ` and element->>'follows' is null` : ''}
       order by data_interval_end desc limit 1)`;
  const rows = await sql.query<Receipt>(`${newest(true)} union all ${newest(false)}`, [exportId]);
  const [base, last] = rows.toSorted((one, other) => one.interval.end - other.interval.end);
  return base && last ? { base, newest: last } : null;
}

/** A delivery of an export without a past: a snapshot, or an element. */
export interface DeliveredElement extends Pick<Receipt, 'interval' | 'runId' | 'rows'> {
  /** Null: keep_snapshots has removed it. */
  readonly snapshotAt: Timestamp | null;
  readonly element: Element | null;
  /** The number of the next element; null: it is the newest, or a snapshot. */
  readonly followedBy: number | null;
  /** The intervals since the one before that were never made; null: none. */
  readonly superseded: (DataInterval & { readonly intervals: number }) | null;
}

/** The newest of an export that start in `range`, newest first. */
export const listDelivered = queryRows<
  DeliveredElement,
  [exportId: string, range: DataInterval, limit: number]
>(
  `select ${intervalOf('r')} as interval, r.run_id as "runId", r.rows, api_time(r.snapshot_at) as "snapshotAt", r.element,
            (select (n.element->>'number')::bigint from receipts n
              where n.export_id = r.export_id and n.data_interval_start > r.data_interval_start order by n.data_interval_start limit 1) as "followedBy",
            (select json_build_object('start', ${instantOf('min(a.data_interval_start)')}, 'end', ${instantOf('max(a.data_interval_end)')}, 'intervals', count(*))
               from accepted_intervals a where a.export_id = r.export_id and a.superseded_by is not null and a.data_interval_start < r.data_interval_start
                and a.data_interval_start > coalesce((select b.data_interval_start from receipts b
                      where b.export_id = r.export_id and b.data_interval_start < r.data_interval_start order by b.data_interval_start desc limit 1), '-infinity')
             having count(*) > 0) as superseded
       from receipts r where r.export_id = $1 and r.data_interval_start >= $2 and r.data_interval_start < $3
      order by r.data_interval_start desc limit $4`,
  (exportId, range, limit) => [exportId, ...boundsOf(range), limit],
);

/** Receipts per statement. */
const pageSize = 200;

/** The elements of an export from its newest base on, in their order, as long as they are at this version of its destination. */
export async function* readElements(
  sql: Sql,
  exportId: string,
  destinationVersion: number,
): AsyncGenerator<Receipt & { readonly element: Element }> {
  const ends = await findSequenceEnds(sql, exportId);
  let page = ends ? [ends.base] : [];
  while (page.length > 0) {
    for (const receipt of page) {
      const { element } = receipt;
      if (receipt.destinationVersion !== destinationVersion) return;
      if (element) yield { ...receipt, element };
    }
    page = await listReceipts(sql, exportId, page.at(-1)?.interval ?? null, pageSize);
  }
}
