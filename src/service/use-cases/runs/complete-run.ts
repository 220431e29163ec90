import type { ClaimedRun } from '../../../state/store/runs/claims.ts';
import type { CompletedRun } from '../../../state/store/runs/completions.ts';
import type { NewLogEntry } from '../../../state/store/exports/log-entries.ts';
import type { RunStatements } from '../../../state/store/runs/run-statements.ts';
import type { RunResult } from '../../../state/store/runs/runs.ts';

/** A recorded completion. */
export interface Completion {
  /** Whether there are files that the run must remove. */
  readonly leavesFiles: boolean;
}

/**
 * Records that the manifest of a run is current, with the line of its log that says so.
 *
 * @param completed `entries` of the run are those that are not written yet
 * @returns null if the lease is lost; then nothing is recorded
 */
export async function recordCompletion(
  statements: RunStatements,
  run: ClaimedRun,
  { entries, ...completed }: Omit<CompletedRun, 'lease'>,
): Promise<Completion | null> {
  const { teamId, exportId, runId } = run;
  const { result } = completed;
  const message = `Completed: ${plural(result.recordsCompleted, 'row')}, ${plural(result.bytesExported, 'byte')} in ${plural(result.files, 'file')}.${rejectedPart(result)}`;
  const last: NewLogEntry = { teamId, exportId, runId, level: 'INFO', message };
  const outcome = await statements.complete({
    ...completed,
    lease: run,
    entries: [...entries, last],
  });
  return outcome.isCompleted ? outcome : null;
}

/** The end of the line of a run that left rows out. */
function rejectedPart({ recordsRejected: rows }: RunResult): string {
  return rows === 0 ? '' : ` ${plural(rows, 'row')} rejected.`;
}

/** `1 file`, `3 files` */
function plural(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`;
}
