import { setTimeout as sleep } from 'node:timers/promises';
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

/** Organizations that one worker serves at a time. */
const lanes = 4;
/** Time limit of one check: reading the keys of a large interval is slow. */
const longestMs = 900_000;
/** Until a free lane looks for work again. */
const idleMs = 5_000;

export interface LookBackOptions {
  /** Throws SluiceError `source.unknown_model`. */
  readonly sourceOf: (model: string) => Source;
  readonly onError: (error: unknown, item: LookBack) => void;
  /** A run was created. */
  readonly onMade: () => void;
  /** Ends it, and the checks under way. */
  readonly stopping: AbortSignal;
}

/**
 * Checks completed intervals for late rows: after the end of a transaction that a run did not wait for
 * and, with `LATE_LOOKBACK_HOURS`, regularly. An interval with late rows runs again, so each row is in
 * exactly one current manifest. An interval without late rows and without open transactions becomes
 * settled, and the high-water mark may pass it.
 *
 * Goes on until no interval is due. An organization has one of four lanes: its slow keys do not
 * delay those of others.
 */
export async function lookBack(
  { db, policy }: Pick<Context, 'db' | 'policy'>,
  { sourceOf, onError, onMade, stopping }: LookBackOptions,
): Promise<void> {
  const served = new Map<string, Promise<void>>();
  const serve = async (organizationId: string, items: readonly LookBack[]): Promise<void> => {
    for (const item of items) {
      if (stopping.aborted) break;
      try {
        const signal = AbortSignal.any([stopping, AbortSignal.timeout(longestMs)]);
        if (await lookAt(db, sourceOf(item.model), item, signal)) onMade();
      } catch (error) {
        if (!stopping.aborted) onError(error, item);
      }
    }
    served.delete(organizationId);
  };
  try {
    while (!stopping.aborted) {
      const free = { limit: lanes - served.size, without: [...served.keys()] };
      const items = free.limit > 0 ? await takeLookBacks(db, policy.lateLookbackHours, free) : [];
      for (const id of new Set(items.map(({ organizationId }) => organizationId))) {
        const own = items.filter(({ organizationId }) => organizationId === id);
        served.set(id, serve(id, own));
      }
      if (served.size === 0) return;
      const all = new AbortController();
      const done = Promise.all(served.values()).finally(() => all.abort());
      await Promise.race([done, pause(AbortSignal.any([stopping, all.signal]))]);
    }
  } finally {
    await Promise.all(served.values());
  }
}

async function pause(signal: AbortSignal): Promise<void> {
  await sleep(idleMs, undefined, { signal }).catch(() => {});
}

/** @returns whether it created a run */
async function lookAt(
  db: Transactor,
  source: Source,
  item: LookBack,
  signal: AbortSignal,
): Promise<boolean> {
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
