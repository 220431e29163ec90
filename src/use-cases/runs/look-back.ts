import { readFileSettings } from '../../domain/file-settings.ts';
import { describeInterval } from '../../domain/time.ts';
import type { Settlement, Source } from '../../sources/source.ts';
import type { Transactor } from '../../store/database.ts';
import { lockExport } from '../../store/exports.ts';
import { advanceHighWaterMark } from '../../store/high-water-mark.ts';
import { appendLogEntries } from '../../store/log-entries.ts';
import { type LookBack, recordLookBack, takeLookBacks } from '../../store/look-backs.ts';
import { insertRuns } from '../../store/runs.ts';
import type { Context } from '../context.ts';
import { type RowChoice, sourceRequestOf } from './source-request.ts';

/** Intervals that one sweep checks. */
const perSweep = 20;
/** Time limit of one check: reading the keys of a large interval is slow. */
const longestMs = 900_000;

/**
 * Checks completed intervals for late rows: after the end of a transaction that a run did not wait for
 * and, with `LATE_LOOKBACK_HOURS`, regularly. An interval with late rows runs again, so each row is in
 * exactly one current manifest. An interval without late rows and without open transactions becomes
 * settled, and the high-water mark may pass it.
 *
 * @param sourceOf throws SluiceError `source.unknown_model`
 * @returns how many runs were created
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
  const state: Pick<Settlement, 'settled' | 'pending' | 'position' | 'server'> = item.settled
    ? { settled: true, pending: [], position: null }
    : await source.recheck(interval, item.pending, signal);
  // A transaction that has ended may have added rows, even if others are still open.
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
      state.server,
    ));
  const { exportId, teamId } = item;
  return db.transaction(async (tx) => {
    // Deleted meanwhile: it never runs again.
    if (!(await lockExport(tx, exportId))) return false;
    if (!late) {
      const { settled, pending } = state;
      const recorded = await recordLookBack(tx, item, { settled, pending, compared });
      if (recorded && settled && !item.settled) await advanceHighWaterMark(tx, exportId);
      return false;
    }
    const runs = await insertRuns(tx, [{ exportId, teamId, interval, backfillId: null }]);
    // The interval has a live run, which reads the late rows itself.
    if (runs.length === 0) return false;
    await appendLogEntries(tx, [
      {
        teamId,
        exportId,
        runId: null,
        level: 'WARNING',
        message: `Late rows found in ${describeInterval(interval)}. Sluice exports the interval again.`,
      },
    ]);
    return true;
  });
}

/** The choice that the interval's files were made with; the export may have changed since. */
function choiceOf(item: LookBack): RowChoice {
  return { ...item, ...readFileSettings(item.config), ...item.recipe };
}
