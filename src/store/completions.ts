import type { Sql } from './database.ts';
import { moveMark, prefixOf, walked } from './high-water-mark.ts';
import type { Lease } from './lease.ts';
import type { LeftoverFile } from './leftover-files.ts';
import { entryValues, insertEntries, type NewLogEntry } from './log-entries.ts';
import { prepared } from './prepared.ts';
import type { Receipt } from './receipts.ts';
import { canMove, move } from './run-moves.ts';
import type { RunResult } from './runs.ts';
import { boundsOf } from './times.ts';

/** A run that has made its manifest current. */
export interface CompletedRun {
  readonly lease: Lease;
  readonly result: RunResult;
  readonly receipt: Receipt;
  /** Files that its commit has replaced. */
  readonly replaced: readonly LeftoverFile[];
  readonly entries: readonly NewLogEntry[];
}

/** What became of it. */
export interface CompletionOutcome {
  /** Whether the export was as the statement saw it; otherwise nothing was recorded. */
  readonly isFresh: boolean;
  /** Whether the lease was held; otherwise nothing was recorded. */
  readonly isCompleted: boolean;
  /** Whether there are uploads or files that the run must end or remove. */
  readonly leavesFiles: boolean;
}

const prefix = prefixOf({
  exportId: '$2',
  completing: { start: '$3::timestamptz', end: '$4::timestamptz', settled: '$18::boolean' },
});

const ofInterval = `l.export_id = $2 and l.data_interval_start = $3::timestamptz and l.data_interval_end = $4::timestamptz
  and l.destination_version = $29::int`;

const completeSql = prepared(`with recursive locked as materialized (
       -- Completions of an export come one after the other, so that each sees the receipts of those before.
       select e.id, e.xmin = (select seen.xmin from batch_exports seen where seen.id = $2) as is_fresh
         from batch_exports e where e.id = $2::uuid for no key update
     ), completed as (
       update runs set ${move('completed')}, records_total_count = $6, records_completed = $7, bytes_exported = $8,
              files = $9, cursor = null, records_dropped = $10, records_rejected = $11, snapshot = $12, settled = $18,
              pending_transactions = $13, steps = $14,
              latest_error = null, error_code = null, lease_holder = null, lease_expires_at = null,
              finished_at = now(), last_updated_at = now()
         from locked
        where runs.id = $1::uuid and fence = $5 and ${canMove('completed')} and locked.is_fresh
       returning runs.id
     ), received as (
       insert into receipts (export_id, data_interval_start, data_interval_end, run_id, manifest_key, manifest_etag,
              files, rejected_files, rows, bytes, destination_version, recipe, generation, era,
              snapshot, settled, pending_transactions, key_digest, key_count, pending_checked_at, looked_back_at)
       select $2::uuid, $3, $4, id, $19, $20, $21, $22, $23, $24, $29, $25, $26, $27,
              $12, $18, $13, $28, $6, clock_timestamp(), clock_timestamp() from completed
       on conflict (export_id, data_interval_start, data_interval_end) do update
          set run_id = excluded.run_id, manifest_key = excluded.manifest_key, manifest_etag = excluded.manifest_etag,
              files = excluded.files, rejected_files = excluded.rejected_files, rows = excluded.rows, bytes = excluded.bytes,
              destination_version = excluded.destination_version, recipe = excluded.recipe,
              generation = excluded.generation, era = excluded.era, committed_at = clock_timestamp(),
              snapshot = excluded.snapshot, settled = excluded.settled, pending_transactions = excluded.pending_transactions,
              key_digest = excluded.key_digest, key_count = excluded.key_count,
              pending_checked_at = excluded.pending_checked_at, looked_back_at = excluded.looked_back_at
     ), forgotten as (
       delete from leftover_files l using completed where ${ofInterval} and l.key = any ($30::text[])
     ), noted as (
       insert into leftover_files (export_id, data_interval_start, data_interval_end, destination_version, key, generation, manifest_key, uncommitted)
       select $2, $3, $4, $29, f.*, false from completed, unnest($15::text[], $16::int[], $17::text[]) as f
       on conflict do nothing
     ), ${prefix}, marked as (
       update batch_exports e set failure_streak = 0, last_success_at = now(), ${moveMark}
         from completed, ${walked} where e.id = $2
     ), logged as (
       ${insertEntries(31, 'completed')}
     )
     select is_fresh as "isFresh", exists (select from completed) as "isCompleted",
            cardinality($15::text[]) > 0
              or exists (select from uploads u where u.run_id = $1)
              or exists (select from leftover_files l where ${ofInterval} and l.key <> all ($30::text[])) as "leavesFiles"
       from locked`);

/**
 * Records that a run's manifest is current: the run, the interval's receipt with its proof, the replaced
 * files, the high-water mark and the log, all or nothing. One statement, so it holds the export's lock for
 * one round trip at most.
 *
 * The statement sees what was committed before it began. If another transaction has changed the export since,
 * nothing is recorded (`isFresh` false): lock the export, a deleted one too, then call again in the same
 * transaction.
 */
export async function completeRun(
  sql: Sql,
  { lease, result, receipt, replaced, entries }: CompletedRun,
): Promise<CompletionOutcome> {
  const files = [...receipt.files, ...receipt.rejectedFiles].map((file) => file.key);
  const named = receipt.manifestKey === null ? files : [...files, receipt.manifestKey];
  const [outcome] = await sql.query<CompletionOutcome>(completeSql, [
    lease.runId,
    receipt.exportId,
    ...boundsOf(receipt.interval),
    lease.fence,
    result.recordsTotalCount,
    result.recordsCompleted,
    result.bytesExported,
    result.files,
    result.recordsDropped,
    result.recordsRejected,
    result.snapshot,
    result.pending,
    JSON.stringify(result.steps),
    replaced.map((file) => file.key),
    replaced.map((file) => file.generation),
    replaced.map((file) => file.manifestKey),
    result.settled,
    receipt.manifestKey,
    receipt.manifestEtag,
    JSON.stringify(receipt.files),
    JSON.stringify(receipt.rejectedFiles),
    receipt.rows,
    receipt.bytes,
    receipt.recipe,
    receipt.generation,
    receipt.era,
    result.keyDigest,
    receipt.destinationVersion,
    named,
    ...entryValues(entries),
  ]);
  if (!outcome) throw new Error('the export is gone');
  return outcome;
}
