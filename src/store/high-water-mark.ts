import type { Sql } from './database.ts';

/** What a statement walks over, as SQL. */
interface Walk {
  readonly exportId: string;
  /** An interval that this statement completes: it sees the hole as before, and no receipt of its own. */
  readonly completing?: { readonly start: string; readonly end: string; readonly settled: string };
}

/**
 * SQL of a recursive table `prefix`: the bounds that the high-water mark moves over. It begins where the mark is,
 * or at the first tick that ran, and ends at an interval that is neither completed and settled nor accepted.
 */
export function prefixOf({ exportId, completing }: Walk): string {
  const isOther = (row: string) =>
    completing
      ? `and not (${row}.data_interval_start = ${completing.start} and ${row}.data_interval_end = ${completing.end})`
      : '';
  const own = completing
    ? `select ${completing.end} as data_interval_end where p.mark = ${completing.start} and ${completing.settled}
        union all`
    : '';
  return `prefix as (
    select coalesce(e.high_water_mark,
             (select min(t.data_interval_start) from ticks t where t.export_id = e.id and t.fate = 'ran')) as mark
      from batch_exports e where e.id = ${exportId}
    union all
    select passed.data_interval_end from prefix p, lateral (
      ${own}
      select r.data_interval_end from receipts r
       where r.export_id = ${exportId} and r.data_interval_start = p.mark ${isOther('r')}
         and coalesce(r.settled, (select run.settled from runs run where run.id = r.run_id), true)
       union all
      select a.data_interval_end from accepted_intervals a
       where a.export_id = ${exportId} and a.data_interval_start = p.mark
         -- A run that failed since is a hole again.
         and not exists (select from holes h
                          where h.export_id = ${exportId} and h.data_interval_start = p.mark ${isOther('h')})
       limit 1) as passed
  )`;
}

/** SQL of a table that joins `batch_exports`: the first and the last mark of `prefix`. */
export const walked = '(select max(mark) as mark, min(mark) as first from prefix) m';

/** SQL that moves the mark of `e`, a row of `batch_exports`, to the end of the prefix. It never moves back. */
export const moveMark = `high_water_mark =
  case when m.mark > coalesce(e.high_water_mark, m.first) then m.mark else e.high_water_mark end`;

/**
 * Moves the high-water mark to the end of the unbroken prefix of intervals that are completed and settled, or
 * that an operator accepted, counted from the first tick that ran.
 */
export async function advanceHighWaterMark(tx: Sql, exportId: string): Promise<void> {
  await tx.query(
    `with recursive ${prefixOf({ exportId: '$1' })}
     -- Also if the mark stays: a completion that began before must see that the export has changed.
     update batch_exports e set ${moveMark} from ${walked} where e.id = $1`,
    [exportId],
  );
}
