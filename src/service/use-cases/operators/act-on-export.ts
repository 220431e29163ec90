import { type BatchExport, disabledCodes } from '../../../foundation/domain/batch-export.ts';
import type { OperatorAction } from '../../../foundation/domain/causes.ts';
import { errorCatalogue, isErrorCode } from '../../../foundation/domain/errors.ts';
import { orNotFound, Refusal } from '../../../foundation/domain/problem.ts';
import type { DataInterval } from '../../../foundation/domain/time.ts';
import { recordOncePerHour } from '../../../state/store/exports/activity.ts';
import { findBatchExport } from '../../../state/store/exports/exports.ts';
import { healNow } from '../../../state/store/healing/healing.ts';
import {
  findMissingRange,
  findOwnerOf,
  type OperatorCause,
} from '../../../state/store/healing/operator-causes.ts';
import { runNow, startBackfill, wholeRange } from '../backfills/start-backfill.ts';
import { type Actor, type Context, inOneTransaction } from '../context.ts';
import { exportActivity } from '../exports/activity.ts';
import { pauseExport, unpauseExport } from '../exports/pause-export.ts';

interface Meaning {
  readonly means: string;
  readonly remedy: string;
}

export function describeCause({ code }: Pick<OperatorCause, 'code'>): Meaning {
  return isErrorCode(code) ? errorCatalogue[code] : (conditions[code] ?? unknown);
}

const unknown = { means: 'The newest run has failed.', remedy: 'Look at the error of the run.' };
const conditions: Readonly<Record<string, Meaning>> = {
  'verify.failed': {
    means:
      'The newest verification has not proven that the files contain each source row exactly once.',
    remedy:
      'Run `sluice verify --export <id>` with the id of the export: it prints what is wrong and the remedy.',
  },
  'intervals.missing': {
    means: 'The newest run worked, but earlier intervals have no data.',
    remedy: 'Retry all: the intervals without data are exported again.',
  },
  'export.late': {
    means: 'The data is late, and no run has failed.',
    remedy: 'Look whether workers run and whether they have enough capacity.',
  },
  'export.paused': {
    means: 'Sluice paused the export, and its newest run worked.',
    remedy: 'Retry all: the export continues.',
  },
};

interface Acted {
  /** The work that it has started. */
  readonly backfillIds: readonly string[];
  /** Why nothing was done; null: it was. */
  readonly passedOver: string | null;
}

const passOver = (reason: string): Acted => ({ backfillIds: [], passedOver: reason });

/** Probes, retries or pauses an export for an operator. To ask again does nothing twice. */
export async function actOnExport(
  context: Context,
  exportId: string,
  action: OperatorAction,
  keyId: string,
): Promise<Acted> {
  const scope = orNotFound(await findOwnerOf(context.db, exportId));
  const actor = { organizationId: scope.organizationId, keyId };
  if (action === 'pause') {
    await pauseExport(context, actor, exportId);
    return { backfillIds: [], passedOver: null };
  }
  const batchExport = orNotFound(await findBatchExport(context.db, scope, exportId));
  const { paused, pausedCode, pausedReason } = batchExport;
  if (paused && pausedReason === null) {
    return passOver('A person has paused the export: nothing was tried.');
  }
  if (paused && pausedCode !== null && disabledCodes.includes(pausedCode)) {
    return passOver(`${pausedReason} Nothing was tried.`);
  }
  try {
    const backfillIds =
      action === 'probe'
        ? await probe(context, batchExport)
        : await retry(context, actor, batchExport);
    const isUnpaused = paused && action === 'retry';
    if (isUnpaused || backfillIds.length > 0) return { backfillIds, passedOver: null };
    return passOver('No interval of the export is without data, or its run is live.');
  } catch (error) {
    const isRunning =
      error instanceof Refusal && error.problems.some(({ code }) => code === 'conflict');
    if (!isRunning) throw error;
    return passOver('A backfill of intervals without data is in progress.');
  }
}

/** Exports the first interval without data. */
function probe(context: Context, batchExport: BatchExport): Promise<readonly string[]> {
  return inOneTransaction(context, async (within) => {
    await healNow(within.db, batchExport.id);
    const missing = await findMissingRange(within.db, batchExport.id);
    return missing === null ? [] : exportMissing(within, batchExport, missing.first);
  });
}

/** Exports all intervals without data, and ends a pause that Sluice made. */
async function retry(
  context: Context,
  actor: Actor,
  batchExport: BatchExport,
): Promise<readonly string[]> {
  if (batchExport.paused) {
    // The next tick exports all that an export without a past can.
    const hasPast = batchExport.mode === 'append';
    const options = { backfill: hasPast, retryMissing: hasPast, isOfOperator: true };
    return (await unpauseExport(context, actor, batchExport.id, options)).backfillIds;
  }
  const missing = await findMissingRange(context.db, batchExport.id);
  return missing === null ? [] : exportMissing(context, batchExport, missing.all);
}

async function exportMissing(
  context: Context,
  batchExport: BatchExport,
  range: DataInterval,
): Promise<readonly string[]> {
  if (batchExport.mode !== 'append') {
    const ran = await runNow(context, batchExport);
    return 'started' in ran ? [ran.started.backfillId] : [];
  }
  const request = { ...wholeRange(range, 'missing'), isOfOperator: true };
  return [(await startBackfill(context, batchExport, request)).backfillId];
}

/** Lets the owner of an export know that an operator looked at it: once per key and hour. */
export async function recordLook(
  { db }: Pick<Context, 'db'>,
  actor: Actor,
  batchExport: Pick<BatchExport, 'id' | 'teamId'>,
): Promise<void> {
  const action = 'viewed by an operator';
  await recordOncePerHour(db, { ...exportActivity(actor, action, batchExport, []), action });
}
