import { type Backfill, backfillColumns } from './backfills.ts';
import type { Sql } from './database.ts';
import { type KeysetPage, type KeysetPlace, seek, toKeysetPage } from './keyset.ts';
import { Conditions } from './time-bound.ts';

/** A backfill and how far its runs have come. */
export interface BackfillWithProgress extends Backfill {
  readonly finishedRuns: number;
  readonly failedRuns: number;
  /** Since it was started, by Postgres' clock; until its end where it has ended. */
  readonly elapsedMs: number;
}

const columns = `${backfillColumns}, p.finished as "finishedRuns", p.failed as "failedRuns",
  floor(extract(epoch from coalesce(b.finished_at, clock_timestamp()) - b.created_at) * 1000)::bigint as "elapsedMs"`;

const progress = `lateral (
    select count(*) filter (where r.finished_at is not null)::int as finished,
           count(*) filter (where r.status in ('Failed', 'FailedRetryable'))::int as failed
      from runs r where r.backfill_id = b.id) as p`;

export async function findBackfill(
  sql: Sql,
  exportId: string,
  id: string,
): Promise<BackfillWithProgress | null> {
  const [row] = await sql.query<BackfillWithProgress>(
    `select ${columns} from backfills b, ${progress} where b.id = $1 and b.export_id = $2`,
    [id, exportId],
  );
  return row ?? null;
}

/** Newest first. */
export async function listBackfills(
  sql: Sql,
  exportId: string,
  place: KeysetPlace | null,
  limit: number,
): Promise<KeysetPage<BackfillWithProgress>> {
  const conditions = new Conditions().add('b.export_id = ?', exportId);
  const page = seek(conditions, { column: 'b.created_at', descending: true }, 'b.id', place, limit);
  const rows = await sql.query<BackfillWithProgress>(
    `select ${columns} from backfills b, ${progress} where ${conditions.sql} ${page}`,
    conditions.values,
  );
  return toKeysetPage(rows, place, limit);
}
