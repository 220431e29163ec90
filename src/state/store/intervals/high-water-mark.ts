import { command } from '../database/statement.ts';
import { anyNumber } from '../database/prepared.ts';

interface Walk {
  /** The ids of the exports: a list, or a SELECT. */
  readonly exportIds: string;
  /** A table of what the statement completes, with `settled`. It sees their holes as before, and none of their receipts. */
  readonly completing?: string;
}

/** SQL of a recursive table `prefix`: by export, the bounds from its high-water mark to an interval that is neither settled nor accepted. */
export function prefixOf({ exportIds, completing }: Walk): string {
  const isOther = (row: string) =>
    completing
      ? `and not exists (select from ${completing} c where c.export_id = p.export_id
             and c.data_interval_start = ${row}.data_interval_start and c.data_interval_end = ${row}.data_interval_end)`
      : '';
  const own = completing
    ? `select c.data_interval_end from ${completing} c
        where c.export_id = p.export_id and c.data_interval_start = p.mark and c.settled
        union all`
    : '';
  return `prefix as (
    select e.id as export_id, coalesce(e.high_water_mark,
             (select min(t.data_interval_start) from ticks t where t.export_id = e.id and t.fate = 'ran')) as mark
      from batch_exports e where e.id in (${exportIds})
    union all
    select p.export_id, passed.data_interval_end from prefix p, lateral (
      ${own}
      select r.data_interval_end from receipts r
       where r.export_id = p.export_id and r.data_interval_start = p.mark and r.settled ${isOther('r')}
       union all
      select a.data_interval_end from accepted_intervals a
       where a.export_id = p.export_id and a.data_interval_start = p.mark
         -- A run that failed since is a hole again.
         and not exists (select from holes h
                          where h.export_id = p.export_id and h.data_interval_start = p.mark ${isOther('h')})
       limit 1) as passed
  )`;
}

/** SQL of a table: of each export the first and the last mark of `prefix`. */
export const walked = `(select export_id, max(mark) as mark, min(mark) as first from prefix group by export_id ${anyNumber}) m`;

/** SQL that moves the mark of `e` to the end of the prefix, never back, and notes where it began. */
export const moveMark = `mark_began_at = coalesce(e.mark_began_at, m.first), high_water_mark =
  case when m.mark > coalesce(e.high_water_mark, m.first) then m.mark else e.high_water_mark end`;

/** To the end of the unbroken prefix that is settled or accepted, counted from the first tick that ran. */
export const advanceHighWaterMark = command<[exportId: string]>(`
     with recursive ${prefixOf({ exportIds: '$1' })}
     -- Also if the mark stays: a completion that began before must see that the export has changed.
     update batch_exports e set ${moveMark} from ${walked} where e.id = m.export_id`);
