import type { Element } from '../../../foundation/domain/element.ts';
import type { DataInterval } from '../../../foundation/domain/time.ts';
import type { Sql } from '../database/database.ts';
import { boundsOf } from '../database/times.ts';

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
