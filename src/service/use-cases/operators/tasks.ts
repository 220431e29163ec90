import { disabledCodes } from '../../../foundation/domain/batch-export.ts';
import { type ErrorCode, errorCatalogue, isErrorCode } from '../../../foundation/domain/errors.ts';
import type { TaskAction } from '../../../foundation/domain/operator-task.ts';
import { notFound, Refusal } from '../../../foundation/domain/problem.ts';
import { cancelBackfill } from '../runs/cancel-work.ts';
import { healNow } from '../../../state/store/healing/healing.ts';
import { findBatchExport } from '../../../state/store/exports/exports.ts';
import {
  type CauseSearch,
  listCauses,
  listExportsOfCause,
  type OperatorCause,
} from '../../../state/store/healing/operator-causes.ts';
import {
  cancelTask,
  completeTasks,
  endTaskExport,
  findMissingRange,
  findTask,
  insertTask,
  nextOfTasks,
  type OperatorTask,
  type TaskExport,
  takeTaskExport,
} from '../../../state/store/healing/operator-tasks.ts';
import { startBackfill, wholeRange } from '../backfills/start-backfill.ts';
import { type Context, inOneTransaction } from '../context.ts';
import { pauseExport } from '../exports/pause-export.ts';
import { unpauseExport } from '../exports/unpause-export.ts';
import { doEach } from '../separate-work.ts';

const anyCause: CauseSearch = { search: null, turn: null, causeId: null };

/** @throws Refusal 404 if there is no such cause any more */
export async function findCause(
  { db }: Pick<Context, 'db'>,
  causeId: string,
): Promise<OperatorCause> {
  const { results } = await listCauses(db, { ...anyCause, causeId }, { limit: 1, offset: 0 });
  const [cause] = results;
  if (!cause) throw notFound();
  return cause;
}

/** What a cause means, for people. */
export function describeCause({ code }: Pick<OperatorCause, 'code'>): {
  readonly means: string;
  readonly remedy: string;
} {
  return isErrorCode(code) ? errorCatalogue[code as ErrorCode] : (conditions[code] ?? unknown);
}

const unknown = { means: 'The newest run has failed.', remedy: 'Look at the error of the run.' };
const conditions: Readonly<Record<string, { means: string; remedy: string }>> = {
  'verify.failed': {
    means:
      'The newest verification has not proven that the files contain each source row exactly once.',
    remedy:
      'Run sluice verify --export with the id of the export: it prints what is wrong and the remedy.',
  },
  'intervals.missing': {
    means: 'The newest run worked, but earlier intervals have no data.',
    remedy: 'Retry all: the intervals without data are exported again.',
  },
  'export.late': {
    means: 'The data is older than the objective, and no run has failed.',
    remedy: 'Look whether workers run and whether they have enough capacity.',
  },
  'export.paused': {
    means: 'Sluice paused the export, and its newest run worked.',
    remedy: 'Retry all: the export continues.',
  },
};

/**
 * Begins what an operator does to all exports of a cause. Sweeps do it.
 *
 * @param keyId the operator's key; null: the command line
 * @returns its id
 */
export async function startTask(
  context: Context,
  cause: OperatorCause,
  action: TaskAction,
  keyId: string | null,
): Promise<OperatorTask> {
  const { id, code, place } = cause;
  const found = await listExportsOfCause(context.db, id);
  const exports = action === 'probe' ? found.slice(0, 1) : found;
  const named =
    place === '' ? describeCause(cause).means : `${place}: ${describeCause(cause).means}`;
  const taskId = await context.db.transaction((tx) =>
    insertTask(tx, { action, cause: named, code, requestedBy: keyId, exports }),
  );
  const task = await findTask(context.db, taskId);
  if (!task) throw notFound();
  return task;
}

/** Cancels a task: exports that wait are left alone, and its backfills end. @throws Refusal if it has ended */
export async function endTask(context: Context, id: string): Promise<void> {
  await inOneTransaction(context, async (within) => {
    const backfills = await within.db.transaction((tx) => cancelTask(tx, id));
    if (backfills === null) {
      const detail = 'The task has ended: only a running one can be cancelled.';
      throw new Refusal({ code: 'invalid_input', detail, attr: null });
    }
    for (const { exportId, backfillId } of backfills) {
      await cancelBackfill(within, exportId, backfillId, 'cancel');
    }
  });
}

/** Exports that a sweep handles, at most. */
const perSweep = 50;

/** Does what is next of the operators' tasks. Any number of workers may call it. */
export async function advanceTasks(context: Context): Promise<void> {
  const waiting = await nextOfTasks(context.db, perSweep);
  await doEach([
    ...waiting.map((each) => () => advanceOne(context, each)),
    () => completeTasks(context.db),
  ]);
}

async function advanceOne(context: Context, asked: TaskExport): Promise<void> {
  const { taskId, exportId } = asked;
  try {
    await inOneTransaction(context, async (within) => {
      if (!(await takeTaskExport(within.db, taskId, exportId))) return;
      const { backfillIds, passedOver = null } = await act(within, asked);
      await endTaskExport(within.db, taskId, exportId, {
        status: passedOver === null ? 'done' : 'skipped',
        detail: passedOver,
        backfillIds,
      });
    });
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    // Another backfill of the project or the range runs: the turn comes again.
    if (error.problems.some(({ code }) => code === 'throttled' || code === 'conflict')) return;
    const end = { status: 'skipped', detail: error.message, backfillIds: [] } as const;
    await endTaskExport(context.db, taskId, exportId, end);
  }
}

/** What was done to an export. */
interface Acted {
  /** What it has started. */
  readonly backfillIds: readonly string[];
  /** Why nothing was done. */
  readonly passedOver?: string;
}

async function act(context: Context, asked: TaskExport): Promise<Acted> {
  const { action, exportId, organizationId, requestedBy: keyId } = asked;
  const actor = { organizationId, keyId };
  if (action === 'pause') {
    await pauseExport(context, actor, exportId);
    return { backfillIds: [] };
  }
  const batchExport = await findBatchExport(
    context.db,
    { organizationId, teamId: asked.teamId },
    exportId,
  );
  if (!batchExport) throw notFound();
  const { paused, pausedCode, pausedReason } = batchExport;
  if (paused && pausedReason === null) {
    return { backfillIds: [], passedOver: 'A person has paused the export: nothing was tried.' };
  }
  if (paused && pausedCode !== null && disabledCodes.includes(pausedCode)) {
    return { backfillIds: [], passedOver: `${pausedReason} Nothing was tried.` };
  }
  if (action === 'probe') await healNow(context.db, exportId);
  const missing = await findMissingRange(context.db, exportId);
  const started: string[] = [];
  if (missing !== null) {
    const range = action === 'probe' ? missing.first : missing.all;
    const request = { ...wholeRange(range), reprocess: 'failed' } as const;
    const { backfillId } = await startBackfill(context, batchExport, request);
    started.push(backfillId);
  }
  if (action === 'retry' && paused) {
    const { backfillIds } = await unpauseExport(context, actor, exportId, {
      backfill: true,
      retryMissing: false,
    });
    started.push(...backfillIds);
  }
  return started.length > 0
    ? { backfillIds: started }
    : {
        backfillIds: [],
        passedOver: 'No interval of the export is without data, or its run is live.',
      };
}
