import type { Instant } from '../../../foundation/domain/time.ts';
import type { Sql } from '../database/database.ts';
import type { IntervalPlace } from './leftover-files.ts';
import { boundsOf } from '../database/times.ts';

/** What a manifest in a bucket says about its commit. */
export interface SeenCommit {
  readonly run_id: string;
  readonly generation: number;
  readonly era: string;
  /** Of a tombstone. */
  readonly moved_to?: string | null;
}

/**
 * SQL of how long after its acceptance an era `e` still accepts commits: the clock of a store may differ from ours, and a
 * request that was sent before may come late. Only in the newest era, since a copy of the database has the others too.
 */
const margin = `case when e.id = newest.id then interval '1 hour' else interval '0' end`;

/**
 * Whether a commit that a bucket shows is of our database's history. Each commit is recorded before its manifest is put, so
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
