import {
  type CommitNames,
  type IntervalResult,
  type LeftoverFile,
  namedBy,
} from '../../../foundation/domain/receipt.ts';
import { recordSteps } from '../transformations/chains.ts';
import { lockRuns } from './claims.ts';
import type { Sql, Transactor } from '../database/database.ts';
import { lockExport } from '../exports/exports.ts';
import { moveMark, prefixOf, walked } from '../intervals/high-water-mark.ts';
import { canMove, isRunning, type Lease, move } from './run-moves.ts';
import { entryValues, insertEntries, type NewLogEntry } from '../exports/log-entries.ts';
import { anyNumber, isAny, plannedOnce } from '../database/prepared.ts';
import { columnsOf, type Receipt, writtenColumns, writtenTypes } from '../intervals/receipts.ts';
import { boundsOf, isSameInterval } from '../database/times.ts';

/** A run that has made its manifest current. */
export interface CompletedRun {
  readonly run: Lease & Pick<Receipt, 'exportId' | 'interval' | 'destinationVersion'>;
  readonly result: IntervalResult;
  /** Files that its commit has replaced. */
  readonly replaced: readonly LeftoverFile[];
  readonly entries: readonly NewLogEntry[];
}

export interface CompletionOutcome {
  /** True if the lease was held; otherwise nothing was recorded. */
  readonly isCompleted: boolean;
  readonly leavesFiles: boolean;
}

/** SQL: whether a leftover `l` is of the interval and the place of a run. */
const isLeftOf = (run: string) =>
  `${isSameInterval('l', run)} and l.destination_version = ${run}.destination_version`;

/** SQL: whether rows of the source were exported. What only changes the files says nothing of the source. */
const isOfSchedule = `exists (select from completed c where c.export_id = e.id and c.purpose not in ('erase', 'expire'))`;

const askedRuns = `asked as materialized (
  select * from jsonb_to_recordset($1::jsonb) as a (
    fence bigint, export_id uuid, data_interval_start timestamptz, data_interval_end timestamptz,
    total_rows bigint, completed_rows bigint, dropped_rows bigint, rejected_rows bigint, sent_bytes bigint, file_count int,
    steps jsonb, ${writtenTypes}, named text[], replaced jsonb) ${anyNumber}
)`;

/** A table `locked` of their exports that no other transaction holds; `is_fresh`: nor has changed since the statement began. */
const locked = `locked as materialized (
  -- Completions of an export come one after the other, so that each sees the receipts of those before.
  select export.* from (select distinct export_id from asked) known, lateral (
    select e.id, e.xmin = (select seen.xmin from batch_exports seen where seen.id = e.id) as is_fresh
      from batch_exports e where e.id = known.export_id for no key update skip locked) export
)`;

/** A table `free` of the completions that can be recorded now: export and run are held by this statement. */
const free = `free as materialized (
  select asked.* from asked join locked on locked.id = asked.export_id and locked.is_fresh,
         lateral (select from runs r where r.id = asked.run_id for no key update skip locked) run
)`;

/** A table `completed` of those whose lease was held. All that follows is about these. */
const completed = `completed as (
  update runs set ${move('completed')}, records_total_count = free.total_rows, records_completed = free.completed_rows,
         bytes_exported = free.sent_bytes, files = free.file_count, cursor = null, records_dropped = free.dropped_rows,
         records_rejected = free.rejected_rows, snapshot = free.snapshot, settled = free.settled,
         pending_transactions = free.pending_transactions, steps = free.steps,
         latest_error = null, error_code = null, lease_holder = null, lease_expires_at = null,
         finished_at = now(), last_updated_at = now()
    from free
   where runs.id = free.run_id and runs.fence = free.fence and ${canMove('completed')}
  returning free.*, runs.purpose, runs.drops_missing, runs.erasure, runs.created_at
)`;

/** SQL: whether two receipts have the same files and the same manifest. */
const isSameContent = (a: string, b: string): string =>
  `(${[a, b].map((row) => ['destination_version', 'generation', 'rows', 'bytes', 'manifest_sha256'].map((name) => `${row}.${name}`).join(', ')).join(') is not distinct from (')})
   and (${a}.manifest_sha256 is not null or ${a}.files = ${b}.files)`;

/** The receipt of an earlier commit, until a statement has booked it. */
const superseded = `superseded as (
  insert into stated_intervals as s (export_id, data_interval_start, data_interval_end, superseded)
  select old.export_id, old.data_interval_start, old.data_interval_end, array[to_jsonb(old) - 'recipe' - 'snapshot']
    from completed c join receipts old on ${isSameInterval('old', 'c')} and not (${isSameContent('old', 'c')})
  on conflict (export_id, data_interval_start, data_interval_end) do update set superseded = s.superseded || excluded.superseded
)`;

/** The receipt of the interval, with its proof. Same files of the same manifest stay those that the former run has made. */
const received = `received as (
  insert into receipts (export_id, data_interval_start, data_interval_end, made_by, pending_checked_at, looked_back_at, ${writtenColumns.join(', ')})
  select export_id, data_interval_start, data_interval_end,
         jsonb_build_object('run', coalesce(erasure, run_id), 'purpose', purpose, 'drops', drops_missing, 'at', api_time(clock_timestamp()),
           'asked_at', api_time(created_at)), clock_timestamp(), clock_timestamp(), ${writtenColumns.join(', ')} from completed
  on conflict (export_id, data_interval_start, data_interval_end) do update
     set made_by = case when ${isSameContent('receipts', 'excluded')} then receipts.made_by else excluded.made_by end,
         committed_at = clock_timestamp(), late_rows_wait = null, late_rows_code = null, look_tries = 0, look_after = null,
         ${['pending_checked_at', 'looked_back_at', ...writtenColumns].map((column) => `${column} = excluded.${column}`).join(', ')}
)`;

/** A file that the manifest names is no leftover. */
const forgotten = `forgotten as (
  delete from leftover_files l using completed c where ${isLeftOf('c')} and l.key = any (c.named)
)`;

/** Files that the commit has replaced are leftovers. */
const noted = `noted as (
  insert into leftover_files (export_id, data_interval_start, data_interval_end, destination_version, key, generation, manifest_key, etag, uncommitted)
  select c.export_id, c.data_interval_start, c.data_interval_end, c.destination_version, f.key, f.generation, f.manifest_key, f.etag, false
    from completed c, jsonb_to_recordset(c.replaced) as f (key text, generation int, manifest_key text, etag text)
  on conflict do nothing
)`;

/** So is what is current at a place that the export has left, until the export returns. */
const leftBehind = `left_behind as (
  -- What is current at a place that the export has left stays so, until the export returns.
  insert into leftover_files (export_id, data_interval_start, data_interval_end, destination_version, key, generation, manifest_key, etag, uncommitted)
  select old.export_id, old.data_interval_start, old.data_interval_end, old.destination_version, f.key, old.generation, old.manifest_key, f.etag, false
    from completed c, lateral (select * from receipts r where ${isSameInterval('r', 'c')} and r.destination_version <> c.destination_version) old,
         lateral (select file->>'key' as key, file->>'etag' as etag from jsonb_array_elements(old.files || old.rejected_files) file
                  union all select old.manifest_key, old.manifest_etag where old.manifest_key is not null) f
  on conflict do nothing
)`;

const endsWithSuccess = (column: string): string =>
  `${column} = case when not ${isOfSchedule} then e.${column} end`;

/** The high-water mark and the export's health. A success of its schedule ends that it fails. */
const marked = `marked as (
  update batch_exports e set ${moveMark},
         failure_streak = case when ${isOfSchedule} then 0 else e.failure_streak end,
         last_success_at = case when ${isOfSchedule} then now() else e.last_success_at end,
         heal_failures = case when ${isOfSchedule} then 0 else e.heal_failures end,
         ${['failing_since', 'exhausted_since', 'failing_code', 'failing_error', 'heal_after'].map(endsWithSuccess).join(', ')}
    from ${walked} where e.id = m.export_id
)`;

/** The last entries of the runs' logs. */
const logged = `logged as (
  ${insertEntries(2, 'completed')}
)`;

/** By run: whether it is recorded, and whether files are left to remove. */
const outcomes = `select free.run_id as "runId", exists (select from completed c where c.run_id = free.run_id) as "isCompleted",
       jsonb_array_length(free.replaced) > 0
         or ${isAny(`from leftover_files l where ${isLeftOf('free')} and l.key <> all (free.named)`)} as "leavesFiles"
  from free`;

/** The walk of the high-water mark sees the receipts before this statement, and what completes with it. */
const prefix = prefixOf({ exportIds: 'select export_id from completed', completing: 'completed' });

const completeSql = plannedOnce(
  `with recursive ${[
    ...[askedRuns, locked, free, completed, superseded, received, forgotten, noted, leftBehind],
    ...[prefix, marked, logged],
  ].join(', ')} ${outcomes}`,
);

/**
 * Records that the manifests of runs are current: for each the run, the interval's receipt with its proof, the
 * replaced files, the high-water mark and the log, all or nothing. One statement, so it holds the lock of an export
 * for one round trip at most.
 *
 * The statement sees what was committed before it began, and waits for no lock. If another transaction has locked the
 * run or its export, or has changed the export since, nothing is recorded for the run: lock both, a deleted export
 * too, then call again in the same transaction.
 *
 * @returns in the order of the runs; null if nothing was recorded because of a lock or a change
 */
export async function completeFree(
  sql: Sql,
  runs: readonly CompletedRun[],
): Promise<readonly (CompletionOutcome | null)[]> {
  const rows = await sql.query<CompletionOutcome & { readonly runId: string }>(completeSql, [
    JSON.stringify(runs.map(recordOf)),
    ...entryValues(runs.flatMap(({ entries }) => entries)),
  ]);
  const outcomes = new Map(rows.map((row) => [row.runId, row]));
  return runs.map(({ run }) => outcomes.get(run.runId) ?? null);
}

/** Records completions of one export, after the transactions that change the export at this moment. */
export async function completeLocked(
  db: Transactor,
  runs: readonly CompletedRun[],
): Promise<readonly CompletionOutcome[]> {
  const exportId = runs[0]?.run.exportId;
  if (exportId === undefined) return [];
  return db.transaction(async (tx) => {
    // A deleted export too: a run that has begun to commit completes.
    await lockExport(tx, exportId, { evenDeleted: true });
    await lockRuns(
      tx,
      runs.map(({ run }) => run.runId),
    );
    const outcomes = await completeFree(tx, runs);
    const recorded: CompletionOutcome[] = [];
    for (const [index, outcome] of outcomes.entries()) {
      if (!outcome) throw new Error('the export changed under its lock, or is gone');
      if (outcome.isCompleted) await recordSteps(tx, runs[index]?.result.steps ?? []);
      recorded.push(outcome);
    }
    return recorded;
  });
}

function recordOf({ run, result, replaced }: CompletedRun) {
  const [start, end] = boundsOf(run.interval);
  return {
    ...columnsOf(result),
    run_id: run.runId,
    fence: run.fence,
    export_id: run.exportId,
    destination_version: run.destinationVersion,
    data_interval_start: start,
    data_interval_end: end,
    total_rows: result.totalRows,
    completed_rows: result.rows,
    dropped_rows: result.droppedRows,
    rejected_rows: result.rejectedRows,
    sent_bytes: result.bytes,
    file_count: result.madeFiles,
    steps: result.steps ?? [],
    named: namedBy(result),
    replaced: replaced.map(({ manifestKey: manifest_key, ...file }) => ({ ...file, manifest_key })),
  };
}

export interface BegunCommit {
  readonly run: Pick<CompletedRun['run'], 'runId' | 'fence' | 'destinationVersion'>;
  /** Kept as a whole for the next attempt. */
  readonly intent: CommitNames;
}

/** @param free whether the runs are locked already, or must be free */
const beginCommitsSql = (free: boolean) =>
  plannedOnce(`with asked as materialized (
       select * from jsonb_to_recordset($1::jsonb) as a (
         run_id uuid, fence bigint, intent jsonb, generation int, destination_version int, manifest_key text, keys text[]) ${anyNumber}
     ), free as materialized (
       select asked.* from asked ${free ? ', lateral (select from runs r where r.id = asked.run_id for no key update skip locked) run' : ''}
     ), begun as (
       update runs set committing_at = now(), commit_intent = free.intent, committing_generation = file_generation,
              lease_expires_at = now() + $2 * interval '1 ms'
         from free where runs.id = free.run_id and runs.fence = free.fence and ${isRunning('runs')}
       returning free.*, runs.export_id, runs.data_interval_start, runs.data_interval_end
     ), noted as (
       insert into leftover_files (export_id, data_interval_start, data_interval_end, destination_version, key, generation, manifest_key, uncommitted)
       select export_id, data_interval_start, data_interval_end, destination_version, key, generation, manifest_key, true
         from begun, unnest(begun.keys) as key
       on conflict (export_id, destination_version, key) do update
          set generation = excluded.generation, manifest_key = excluded.manifest_key, uncommitted = true, noted_at = now()
     )
     select run_id as "runId", exists (select from begun where begun.run_id = free.run_id) as "isHeld" from free`);

const [beginLockedSql, beginFreeSql] = [beginCommitsSql(false), beginCommitsSql(true)];

/** Notes that a commit begins, after the transactions that change its run at this moment. @returns false if the lease is lost */
export async function beginLockedCommit(
  sql: Sql,
  request: BegunCommit,
  leaseMs: number,
): Promise<boolean> {
  return (await beginAll(sql, beginLockedSql, [request], leaseMs))[0] === true;
}

/** Waits for no lock. In the order of the requests: false if the lease is lost; null for a run that is locked now. */
export function beginFreeCommits(
  sql: Sql,
  requests: readonly BegunCommit[],
  leaseMs: number,
): Promise<readonly (boolean | null)[]> {
  return beginAll(sql, beginFreeSql, requests, leaseMs);
}

async function beginAll(
  sql: Sql,
  text: string,
  requests: readonly BegunCommit[],
  leaseMs: number,
): Promise<readonly (boolean | null)[]> {
  const shared = requests.map(({ run, intent }) => ({
    run_id: run.runId,
    fence: run.fence,
    intent,
    generation: intent.generation,
    destination_version: run.destinationVersion,
    manifest_key: intent.manifestKey,
    keys: namedBy(intent),
  }));
  const rows = await sql.query<{ readonly runId: string; readonly isHeld: boolean }>(text, [
    JSON.stringify(shared),
    leaseMs,
  ]);
  const held = new Map(rows.map(({ runId, isHeld }) => [runId, isHeld]));
  return requests.map(({ run }) => held.get(run.runId) ?? null);
}
