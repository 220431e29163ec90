import type { LookBackHours } from '../../../foundation/domain/policy.ts';
import type { DataInterval, Instant } from '../../../foundation/domain/time.ts';
import type { Sql } from '../database/database.ts';
import type { IntervalPlace } from './leftover-files.ts';
import { boundsOf } from '../database/times.ts';
import { hoursOf, hoursValue, lateRowsWait } from '../intervals/look-backs.ts';

export interface SeenCommit {
  readonly run_id: string;
  readonly generation: number;
  readonly era: string;
  /** Only a tombstone has it. */
  readonly moved_to?: string | null;
}

/** SQL: how long an accepted era `e` still takes commits: clocks differ, and requests come late. Only for the newest one. */
const margin = `case when e.id = newest.id then interval '1 hour' else interval '0' end`;

/**
 * Says whether a commit that a bucket shows is of our database's history. Each commit is recorded before its manifest is put, so
 * what is not recorded was made by another database: a copy, which may still be in use, or ours before it was restored.
 * An operator who accepts an era says that the other one is gone: what was put before that is known, and what is put long
 * after it was made by yet another copy.
 *
 * A run that was live when an era began may have continued in both databases. In an earlier era it has committed only what was
 * begun by then. Runs that retention has deleted are known by what is current, or was, at the manifest's key. A tombstone
 * names no rows: it is enough that our history went on since.
 */
export async function knowsCommit(
  sql: Sql,
  { exportId, interval, destinationVersion }: IntervalPlace,
  { run_id: runId, generation, era, moved_to: movedTo }: SeenCommit,
  key: string,
  putAt: Instant | null = null,
): Promise<boolean> {
  const ofInterval = (alias: string) =>
    `${alias}.export_id = $1 and ${alias}.data_interval_start = $2 and ${alias}.data_interval_end = $3`;
  const rows = await sql.query(
    `select from (select id, accepted_at from eras order by number desc limit 1) newest
      where case when $10::float8 is null then newest.accepted_at is not null
                 else $10 < (select max(extract(epoch from e.accepted_at + ${margin})) * 1000 from eras e) end
         or exists (select from eras where id::text = $7) and (
              exists (select from runs r where ${ofInterval('r')} and r.id::text = $5 and ($9 or $6::numeric <=
                        case when $7 = newest.id::text then r.committing_generation
                             else coalesce(r.era_generation, r.committing_generation) end))
           or exists (select from receipts c where ${ofInterval('c')} and $6::numeric <= c.generation
                         and ($9 or $5 = c.run_id::text or c.manifest_key = $8 and c.destination_version = $4))
           or exists (select from leftover_files l where ${ofInterval('l')} and l.destination_version = $4
                         and l.key = $8 and not l.uncommitted and $6::numeric <= l.generation))`,
    [
      ...[exportId, ...boundsOf(interval), destinationVersion, runId, generation, era, key],
      movedTo !== undefined,
      putAt,
    ],
  );
  return rows.length > 0;
}

export interface CommitFacts {
  /** One run wrote all files, and they have as many rows as it counted in its snapshot. */
  readonly isWhole: boolean;
  /** Since all files were written, a run has looked for late rows to add, or has erased rows. */
  readonly isChanged: boolean;
  /** The snapshot of the run that wrote all files; null if several did. */
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
