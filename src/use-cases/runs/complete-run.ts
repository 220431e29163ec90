import { recordSteps } from '../../store/chains.ts';
import {
  type CompletedRun,
  type CompletionOutcome,
  completeRuns,
} from '../../store/completions.ts';
import type { Sql } from '../../store/database.ts';
import { lockExport } from '../../store/exports.ts';
import type { Joint } from '../../store/joint.ts';
import { type ClaimedRun, lockRun } from '../../store/leases.ts';
import type { LeftoverFile } from '../../store/leftover-files.ts';
import type { NewLogEntry } from '../../store/log-entries.ts';
import type { Receipt } from '../../store/receipts.ts';
import type { RunResult } from '../../store/runs.ts';
import type { Context } from '../context.ts';

/** A recorded completion. */
export interface Completion {
  /** Whether there are uploads or files that the run must end or remove. */
  readonly leavesFiles: boolean;
}

/**
 * Records that the manifest of a run is current: the run, its receipt, the high-water mark, the replaced
 * files and its last log entries, all or nothing.
 *
 * @param entries of the run, which are not written yet
 * @param joint default: the completion is a statement of its own
 * @returns null if the lease is lost; then nothing is recorded
 */
export async function recordCompletion(
  { db }: Pick<Context, 'db'>,
  run: ClaimedRun,
  result: RunResult,
  receipt: Receipt,
  replaced: readonly LeftoverFile[],
  entries: readonly NewLogEntry[] = [],
  joint: Joint<CompletedRun, CompletionOutcome> = completedAlone(db),
): Promise<Completion | null> {
  const { teamId, exportId, runId } = run;
  const message = `Completed: ${plural(result.recordsCompleted, 'row')}, ${plural(result.bytesExported, 'byte')} in ${plural(result.files, 'file')}.${rejectedPart(result)}`;
  const last: NewLogEntry = { teamId, exportId, runId, level: 'INFO', message };
  const completed = { lease: run, result, receipt, replaced, entries: [...entries, last] };
  const isAlone = result.steps.length > 0;
  const outcome = isAlone ? null : await joint.take(completed);
  if (outcome) return outcome.isCompleted ? outcome : null;
  return completeLocked(db, exportId, completed);
}

const completedAlone = (db: Sql): Joint<CompletedRun, CompletionOutcome> => ({
  take: async (completed) => (await completeRuns(db, [completed]))[0] ?? null,
});

/** The same after the transactions that change the export at this moment. */
function completeLocked(
  db: Context['db'],
  exportId: string,
  completed: CompletedRun,
): Promise<Completion | null> {
  return db.transaction(async (tx) => {
    // A deleted export too: a run that has begun to commit completes.
    await lockExport(tx, exportId, { evenDeleted: true });
    await lockRun(tx, completed.lease.runId);
    const [outcome] = await completeRuns(tx, [completed]);
    if (!outcome) throw new Error('the export changed under its lock, or is gone');
    if (!outcome.isCompleted) return null;
    await recordSteps(tx, completed.result.steps);
    return outcome;
  });
}

/** The end of the line of a run that left rows out. */
function rejectedPart({ recordsRejected: rows }: RunResult): string {
  return rows === 0 ? '' : ` ${plural(rows, 'row')} rejected.`;
}

/** `1 file`, `3 files` */
function plural(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`;
}
