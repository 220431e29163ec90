import { type DataInterval, type Instant, toTimestamp } from '../../../foundation/domain/time.ts';
import { queryNumber, queryRows } from '../database/statement.ts';
import { live } from '../runs/run-moves.ts';
import { intervalOf, isSameInterval } from '../database/times.ts';

/** An interval for which a run began to commit files, and ended before that was recorded. They may be current. */
export interface UnfinishedCommit {
  readonly interval: DataInterval;
  readonly hasReceipt: boolean;
}

/** SQL of a leftover file `l` at the present place of its export `e`. */
const atPresentPlace = `leftover_files l join batch_exports e on e.id = l.export_id and e.destination_version = l.destination_version`;

/** Oldest first, without those with a live run, which ends such a state. @param since the first interval; null: all */
export const listUnfinishedCommits = queryRows<
  UnfinishedCommit,
  [exportId: string, since: Instant | null]
>(
  `select ${intervalOf('l')} as interval, l.generation is not null as "hasReceipt"
       from (select distinct l.data_interval_start, l.data_interval_end, c.generation
               from ${atPresentPlace}
               left join receipts c on ${isSameInterval('c', 'l')} and c.destination_version = l.destination_version
              where l.export_id = $1 and l.uncommitted and l.deleted_at is null and ($2::timestamptz is null or l.data_interval_start >= $2)
                -- An older one is only removed.
                and (c.generation is null or c.manifest_key is null or l.generation > c.generation)
                and not exists (select from runs r where r.export_id = l.export_id and r.status in ${live}
                       and r.data_interval_start = l.data_interval_start and r.data_interval_end = l.data_interval_end)) l
      order by l.data_interval_start, l.data_interval_end`,
  (exportId, since) => [exportId, since === null ? null : toTimestamp(since)],
);

/** Counts the deleted files of an export that are deleted once more, because a late request may bring them back. */
export const countDeletedAgain = queryNumber<[exportId: string]>(
  `select count(*) from ${atPresentPlace} where l.export_id = $1 and l.deleted_at is not null`,
);
