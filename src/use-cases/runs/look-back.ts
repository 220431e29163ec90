import { readFileSettings } from '../../domain/file-settings.ts';
import { describeInterval } from '../../domain/time.ts';
import type { Settlement, Source } from '../../sources/source.ts';
import type { Transactor } from '../../store/database.ts';
import { lockExport } from '../../store/exports.ts';
import { appendLogEntries } from '../../store/log-entries.ts';
import { type LookBack, recordLookBack, takeLookBacks } from '../../store/look-backs.ts';
import { advanceHighWaterMark } from '../../store/receipts.ts';
import { insertRuns } from '../../store/runs.ts';
import type { Context } from '../context.ts';
import { type RowChoice, sourceRequestOf } from './source-request.ts';

/** Intervals that one sweep looks at. */
const perSweep = 20;
/** Reading the keys of a large interval takes its time. */
const longestMs = 900_000;

/**
 * Looks at completed intervals for rows that came late: after a transaction that outlived the wait has
 * ended and, with `LATE_LOOKBACK_HOURS`, at any time, for rows that no wait can know of. Such an
 * interval runs again, so each row is in exactly one current manifest. One that has nothing to wait for
 * any more and no late rows is settled, and the high-water mark may pass it.
 *
 * @param sourceOf throws SluiceError `source.unknown_model`
 * @returns how many runs were made
 */
export async function lookBack(
  { db, policy }: Pick<Context, 'db' | 'policy'>,
  sourceOf: (model: string) => Source,
  onError: (error: unknown, item: LookBack) => void,
): Promise<number> {
  let made = 0;
  for (const item of await takeLookBacks(db, policy.lateLookbackHours, perSweep)) {
    try {
      if (await lookAt(db, sourceOf(item.model), item)) made += 1;
    } catch (error) {
      onError(error, item);
    }
  }
  return made;
}

async function lookAt(db: Transactor, source: Source, item: LookBack): Promise<boolean> {
  const signal = AbortSignal.timeout(longestMs);
  const { interval } = item;
  const state: Pick<Settlement, 'settled' | 'pending' | 'position'> = item.settled
    ? { settled: true, pending: [], position: null }
    : await source.recheck(interval, item.pending, signal);
  // What has ended may have left rows, whatever else is still waited for.
  const hasEnded = item.pending.some((name) => !state.pending.includes(name));
  const compared = item.isDue || hasEnded || state.settled;
  const { snapshot, keyDigest: digest, keyCount: count } = item;
  const late =
    compared &&
    (await source.hasLateRows(
      sourceRequestOf(choiceOf(item), interval),
      { snapshot, digest, count },
      state.position,
      signal,
    ));
  const { exportId, teamId } = item;
  return db.transaction(async (tx) => {
    await lockExport(tx, exportId);
    if (!late) {
      const { settled, pending } = state;
      const recorded = await recordLookBack(tx, item, { settled, pending, compared });
      if (recorded && settled && !item.settled) await advanceHighWaterMark(tx, exportId);
      return false;
    }
    const runs = await insertRuns(tx, [{ exportId, teamId, interval, backfillId: null }]);
    // The interval has a live run, which settles for itself.
    if (runs.length === 0) return false;
    await appendLogEntries(tx, [
      {
        teamId,
        exportId,
        runId: null,
        level: 'WARNING',
        message: `Rows came late for ${describeInterval(interval)}; the interval runs again.`,
      },
    ]);
    return true;
  });
}

/** The rows as the interval's files have them; the export may have changed since. */
function choiceOf(item: LookBack): RowChoice {
  return { ...item, ...readFileSettings(item.config), ...item.recipe };
}
