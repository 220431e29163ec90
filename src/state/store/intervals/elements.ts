import type { Element } from '../../../foundation/domain/element.ts';
import type { DataInterval } from '../../../foundation/domain/time.ts';
import type { Sql } from '../database/database.ts';
import { boundsOf } from '../database/times.ts';
import { listReceipts, type Receipt, receiptColumns } from './receipts.ts';

/** The newest element of an export before an interval; null if there is none. */
export async function findElementBefore(
  sql: Sql,
  exportId: string,
  { start }: DataInterval,
): Promise<Element | null> {
  const [row] = await sql.query<{ element: Element }>(
    `select element from receipts where export_id = $1 and data_interval_end <= $2 and element is not null
      order by data_interval_end desc limit 1`,
    [exportId, boundsOf({ start, end: start })[0]],
  );
  return row?.element ?? null;
}

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
