import type { LookBackHours } from '../../../foundation/domain/policy.ts';
import type { DataInterval } from '../../../foundation/domain/time.ts';
import type { Sql } from '../database/database.ts';
import { boundsOf } from '../database/times.ts';
import { hoursOf, hoursValue, lateRowsWait } from './look-backs.ts';

/** How the current files of an interval came about. */
export interface CommitFacts {
  /** One run wrote all files, and they have as many rows as it counted in its snapshot. */
  readonly isWhole: boolean;
  /** Since all files were written, a run has looked for late rows to add, or has erased rows. */
  readonly isChanged: boolean;
  /** What the run saw that wrote all files; null if several did. */
  readonly snapshot: string | null;
  /** Rows that the last run counted in its snapshot. */
  readonly rowsRead: number;
  /** A look-back is due: it adds rows that have come since. */
  readonly isLookedAt: boolean;
  /** Why late rows of the interval wait for a person; null if they do not. */
  readonly waitsFor: string | null;
  /** Late rows of the interval waited, and a person has accepted it without them. */
  readonly isAccepted: boolean;
}

/** @param usual how long after its end an interval is regularly compared with its source, if the export does not say it */
export async function findCommit(
  sql: Sql,
  exportId: string,
  interval: DataInterval,
  usual: LookBackHours,
): Promise<CommitFacts> {
  const rejected = `(select coalesce(sum((f ->> 'rows')::bigint), 0) from jsonb_array_elements(c.rejected_files) f)`;
  const [row] = await sql.query<CommitFacts>(
    `select r.purpose = 'whole' and r.records_total_count - r.records_dropped = c.rows + ${rejected} as "isWhole",
            r.purpose <> 'whole' as "isChanged", case r.purpose when 'whole' then r.snapshot end as snapshot,
            coalesce(r.records_total_count, 0) as "rowsRead",
            not c.settled or c.data_interval_end > now() - ${hoursOf('$4')} * interval '1 hour' as "isLookedAt",
            case when ${lateRowsWait} then c.late_rows_wait end as "waitsFor",
            c.late_rows_wait is not null and not (${lateRowsWait}) as "isAccepted"
       from receipts c join runs r on r.id = c.run_id join batch_exports e on e.id = c.export_id
      where c.export_id = $1 and c.data_interval_start = $2 and c.data_interval_end = $3`,
    [exportId, ...boundsOf(interval), hoursValue(usual)],
  );
  const unknown = { isWhole: false, isChanged: false, isLookedAt: false, isAccepted: false };
  return row ?? { ...unknown, snapshot: null, rowsRead: 0, waitsFor: null };
}
