import { invalid, orNotFound, Refusal } from '../../../foundation/domain/problem.ts';
import { isTerminal } from '../../../foundation/domain/run.ts';
import type { Sql } from '../../../state/store/database/database.ts';
import { cancelBackfillsOf, finishBackfill } from '../../../state/store/exports/backfills.ts';
import { lockExport } from '../../../state/store/exports/exports.ts';
import { appendLogEntries } from '../../../state/store/exports/log-entries.ts';
import { findGone } from '../../../state/store/intervals/superseded.ts';
import {
  cancelRuns,
  type FoundRun,
  findRun,
  hasBegunCommit,
  insertRuns,
  type Run,
} from '../../../state/store/runs/runs.ts';
import type { Actor, Context } from '../context.ts';
import { noteRemoval } from '../exports/activity.ts';

/**
 * Cancels a run. Its worker stops at its next heartbeat and leaves nothing behind. A run that has begun
 * to commit cannot be cancelled and completes. If the worker crashed during the commit, the next attempt
 * can be cancelled before it records the manifest: then the next run of the interval replaces the files.
 *
 * @throws Refusal if the run has ended or has begun to commit
 */
export async function cancelRun(context: Context, run: Run): Promise<void> {
  const { exportId, id: runId, teamId } = run;
  await context.db.transaction(async (tx) => {
    const cancelled = await cancelRuns(tx, { exportId, runId });
    if (cancelled.length > 0) {
      const begun = await hasBegunCommit(tx, runId);
      const message = begun ? `The run was cancelled. ${mayBeCurrent}` : 'The run was cancelled.';
      await appendLogEntries(tx, [{ teamId, exportId, runId, level: 'WARNING', message }]);
      return;
    }
    const now = await findRun(tx, exportId, runId);
    throw now !== null && !isTerminal(now.status)
      ? conflict(
          'The run is committing its files: it can no longer be cancelled and will complete.',
        )
      : refusal('The run has ended: only a run that is Starting or Running can be cancelled.');
  });
}

const mayBeCurrent =
  'An earlier attempt had begun to commit, so its manifest may be current or become current. Its files are complete then, but the interval does not count as exported. Retry the run to export it.';

/**
 * @param missingRows `drop`: delivered rows may go that the source no longer has; null: the caller said nothing
 * @throws Refusal if the run has not ended or was to erase rows, the interval has a live run or the export is deleted
 */
export async function retryRun(
  context: Context,
  run: FoundRun,
  missingRows: 'keep' | 'drop' | null = null,
  actor?: Actor,
): Promise<string> {
  if (!isTerminal(run.status)) {
    throw refusal('The run has not ended: only an ended run can be retried.');
  }
  const { exportId, teamId, interval, purpose } = run;
  if (purpose === 'erase') {
    throw conflict(
      'The run was to remove the rows with one value, and forgot the value when it ended. Run the command of the erasure again.',
    );
  }
  if (missingRows !== null && purpose !== 'whole') {
    const detail = `missing_rows is for a run that makes the files of its interval again, and the purpose of this run is ${purpose}. Leave missing_rows out, or start a backfill of the interval.`;
    throw new Refusal(invalid('missing_rows', detail));
  }
  const dropsMissing = missingRows === 'drop';
  const runId = await context.db.transaction(async (tx) => {
    // A deletion cancels the existing runs. Without the lock, a run created after it would stay.
    const batchExport = orNotFound(await lockExport(tx, exportId));
    const { mode } = batchExport;
    const hasPast = mode === 'append' || purpose !== 'whole';
    const gone = hasPast ? null : await findGone(tx, exportId, interval);
    if (gone !== null) throw refusal(whyGone[gone]);
    const [made] = await insertRuns(tx, [
      { exportId, teamId, interval, backfillId: null, purpose, dropsMissing },
    ]);
    if (made === undefined) {
      throw conflict(
        mode === 'append'
          ? 'Another run of this interval is live, or its rows are exported by intervals with other bounds. Wait until the run ends, or start a backfill.'
          : `Another run of the export is live, and an export of mode ${mode} has one at a time. Wait until it ends.`,
      );
    }
    if (dropsMissing) await noteRemoval(tx, actor, batchExport, made, shownBy(run));
    return made;
  });
  context.doorbell.runsWaiting();
  return runId;
}

export async function cancelBackfill(
  context: Context,
  exportId: string,
  backfillId: string,
  running: 'finish' | 'cancel',
): Promise<void> {
  await context.db.transaction(async (tx) => {
    if (!(await finishBackfill(tx, backfillId, 'Cancelled'))) {
      throw refusal('The backfill has ended: only a running one can be cancelled.');
    }
    if (running === 'cancel') await cancelRuns(tx, { exportId, backfillId });
  });
}

/** Cancels the live runs and backfills of an export, within the transaction that deletes it. */
export async function cancelLiveWork(tx: Sql, exportId: string): Promise<void> {
  await cancelBackfillsOf(tx, exportId);
  await cancelRuns(tx, { exportId });
}

function shownBy({ latestError }: Pick<FoundRun, 'latestError'>): number | null {
  const [, rows] = /(\d+) delivered rows are missing there/.exec(latestError ?? '') ?? [];
  return rows === undefined ? null : Number(rows);
}

const whyGone = {
  superseded:
    'A later interval has taken the place of this one: the source no longer has the rows of that time. Retry the newest run.',
  element:
    'The interval has an element already, and an element is the only copy of its changes. To get all rows again, raise new_base of the export: the next element is then a base.',
  removed:
    'keep_snapshots has removed the files of this interval, and would remove them again. Retry a newer run, or raise keep_snapshots first.',
};

const refusal = (detail: string) => new Refusal(invalid(null, detail));
const conflict = (detail: string) => new Refusal({ code: 'conflict', detail, attr: null });
