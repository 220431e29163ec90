import { Grouped } from '../../domain/grouped.ts';
import { KeyedGroups } from '../../domain/keyed-groups.ts';
import { recordSteps } from '../../store/chains.ts';
import {
  type CompletedRun,
  type CompletionOutcome,
  completeRuns,
} from '../../store/completions.ts';
import { lockExport } from '../../store/exports.ts';
import type { Joint } from '../../store/joint.ts';
import { type ClaimedRun, lockRuns } from '../../store/leases.ts';
import type { LeftoverFile } from '../../store/leftover-files.ts';
import type { NewLogEntry } from '../../store/log-entries.ts';
import type { RunResult } from '../../store/runs.ts';
import { isDatabaseUnavailable } from '../../store/unavailable.ts';
import type { Context } from '../context.ts';

/** A recorded completion. */
export interface Completion {
  /** Whether there are uploads or files that the run must end or remove. */
  readonly leavesFiles: boolean;
}

/** Lets completions of the same moment share statements. */
export interface JointCompletions {
  /** As `completeRuns`. */
  readonly free: Joint<CompletedRun, CompletionOutcome>;
  /** As `completeLocked`, by export. */
  readonly locked: Pick<KeyedGroups<CompletedRun, CompletionOutcome>, 'take' | 'ended'>;
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
  receipt: CompletedRun['receipt'],
  replaced: readonly LeftoverFile[],
  entries: readonly NewLogEntry[] = [],
  joint: JointCompletions = completedAlone(db),
): Promise<Completion | null> {
  const { teamId, exportId, runId } = run;
  const message = `Completed: ${plural(result.recordsCompleted, 'row')}, ${plural(result.bytesExported, 'byte')} in ${plural(result.files, 'file')}.${rejectedPart(result)}`;
  const last: NewLogEntry = { teamId, exportId, runId, level: 'INFO', message };
  const completed = { lease: run, result, receipt, replaced, entries: [...entries, last] };
  const countsSteps = result.steps.length > 0;
  const free = countsSteps ? null : await completeFree(joint, exportId, completed);
  const outcome = free ?? (await joint.locked.take(exportId, completed));
  return outcome.isCompleted ? outcome : null;
}

/**
 * If the export is locked, another completion of this process may hold it. Then it is free once that one has ended. If each
 * completion locked it for itself instead, the next ones would find it locked too, and so on.
 */
async function completeFree(
  { free, locked }: JointCompletions,
  exportId: string,
  completed: CompletedRun,
): Promise<CompletionOutcome | null> {
  const outcome = await free.take(completed);
  if (outcome) return outcome;
  await locked.ended(exportId);
  return free.take(completed);
}

const completedAlone = (db: Context['db']): JointCompletions => ({
  free: { take: async (completed) => (await completeRuns(db, [completed]))[0] ?? null },
  locked: lockedCompletions(db),
});

/** Those that lock their export first. */
export function lockedCompletions(db: Context['db']): KeyedGroups<CompletedRun, CompletionOutcome> {
  return new KeyedGroups(
    () => new Grouped((runs) => completeLocked(db, runs), isDatabaseUnavailable),
  );
}

/** Records completions of one export, after the transactions that change the export at this moment. */
async function completeLocked(
  db: Context['db'],
  runs: readonly CompletedRun[],
): Promise<readonly CompletionOutcome[]> {
  const exportId = runs[0]?.receipt.exportId;
  if (exportId === undefined) return [];
  return db.transaction(async (tx) => {
    // A deleted export too: a run that has begun to commit completes.
    await lockExport(tx, exportId, { evenDeleted: true });
    await lockRuns(
      tx,
      runs.map(({ lease }) => lease.runId),
    );
    const outcomes = await completeRuns(tx, runs);
    const recorded: CompletionOutcome[] = [];
    for (const [index, outcome] of outcomes.entries()) {
      if (!outcome) throw new Error('the export changed under its lock, or is gone');
      if (outcome.isCompleted) await recordSteps(tx, runs[index]?.result.steps ?? []);
      recorded.push(outcome);
    }
    return recorded;
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
