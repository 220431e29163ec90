import { maxPageBytes } from '../../../foundation/domain/page-bytes.ts';
import type { Sql } from '../database/database.ts';
import type { LogEntry } from './log-entries.ts';
import { prepared } from '../database/prepared.ts';

/**
 * A position in the log of a run: all entries of transactions that ended before `transaction` began were sent.
 * Ids and times give no such position, since transactions end in another order than they write.
 */
export interface TailPosition {
  /** Number of the oldest transaction that was in progress. */
  readonly transaction: string;
  /** Within a poll of several pages: the last id that was sent, and the position of the next poll. */
  readonly page: { readonly afterId: number; readonly next: string } | null;
}

export interface TailEntry extends LogEntry {
  readonly id: number;
}

export interface LogTail {
  /** Oldest first. Those near the position can be among them a second time, with the same id. */
  readonly entries: readonly TailEntry[];
  readonly position: TailPosition;
  readonly hasMore: boolean;
}

const entryColumns = `l.id, l.team_id as "teamId", l.export_id as "exportId", l.run_id as "runId", l.timestamp, l.level, l.message`;

/** One row at least: it has the numbers of the statement's own snapshot. */
const withSnapshot = (entries: string): string => `
  select s.oldest, s.upcoming, l.* from (
      select pg_snapshot_xmin(snapshot)::text as oldest, pg_snapshot_xmax(snapshot)::text::bigint as upcoming
        from pg_current_snapshot() as snapshot) as s
    left join lateral (${entries}) as l on true order by l.id`;

/**
 * The whole number of the transaction that wrote a row: its lower half is in the row. A subtransaction's is higher
 * than that of the transaction that it is part of, so the comparison with a position holds for it too.
 */
const writer = `s.upcoming - ((s.upcoming - l.xmin::text::bigint) & 4294967295)`;

const newest = prepared(
  withSnapshot(`select * from (
      select ${entryColumns} from log_entries l where l.export_id = $1 and l.run_id = $2 order by l.id desc limit $3
    ) as l`),
);

const since = prepared(
  withSnapshot(`select ${entryColumns} from log_entries l
     where l.export_id = $1 and l.run_id = $2 and ${writer} >= $4::bigint and l.id > $5::bigint order by l.id limit $3`),
);

/** What a client gets of an entry besides its message, at most. */
const otherBytes = 400;

/** How many of the entries fit an answer; always one. */
function countFitting(entries: readonly TailEntry[]): number {
  let bytes = 0;
  for (const [count, { message }] of entries.entries()) {
    bytes += otherBytes + Buffer.byteLength(JSON.stringify(message));
    if (bytes > maxPageBytes && count > 0) return count;
  }
  return entries.length;
}

/**
 * What was written to the log of a run since `position`, up to the size of a page; without a position its newest entries. No entry
 * is ever left out.
 *
 * @returns null if the position is not of this database, as it is after a restore
 */
export async function findLogTail(
  sql: Sql,
  run: { readonly exportId: string; readonly runId: string },
  position: TailPosition | null,
  limit: number,
): Promise<LogTail | null> {
  const of = [run.exportId, run.runId];
  type Row = { oldest: string; upcoming: number } & (TailEntry | { id: null });
  const rows = await (position === null
    ? sql.query<Row>(newest, [...of, limit])
    : sql.query<Row>(since, [...of, limit + 1, position.transaction, position.page?.afterId ?? 0]));
  const [first] = rows;
  if (!first) throw new Error('a left join returned no row');
  if (position !== null && Number(position.transaction) > first.upcoming) return null;
  const found = rows.flatMap((row) => (row.id === null ? [] : [row]));
  const next = position?.page?.next ?? first.oldest;
  if (position === null) {
    // The newest of the newest.
    const entries = found.slice(-countFitting(found.toReversed()));
    return { entries, position: { transaction: next, page: null }, hasMore: false };
  }
  const entries = found.slice(0, Math.min(limit, countFitting(found)));
  const last = entries.at(-1);
  if (found.length === entries.length || !last) {
    return { entries, position: { transaction: next, page: null }, hasMore: false };
  }
  const page = { afterId: last.id, next };
  return { entries, position: { transaction: position.transaction, page }, hasMore: true };
}
