import { endPause, lockExportNow } from '../../../state/store/exports/exports.ts';
import { appendLogEntries } from '../../../state/store/exports/log-entries.ts';
import {
  listNewlyHeldUp,
  noteAnnounced,
  takeOver,
} from '../../../state/store/healing/announced.ts';
import {
  endExpired,
  findHealedPauses,
  healMissed,
  healNow,
  makeHealingRuns,
} from '../../../state/store/healing/healing.ts';
import { supersede } from '../../../state/store/intervals/superseded.ts';
import { intervalsIn } from '../../scheduling/backfill-range.ts';
import { missedWhilePaused, newestGate, unpause } from '../../scheduling/schedule.ts';
import type { Context } from '../context.ts';
import { noteInLog } from '../exports/activity.ts';
import { readTimeline } from '../exports/schedule.ts';
import { announce, turnOfCode } from '../notifications/announce.ts';
import { doEach } from '../separate-work.ts';

/** The most that one call makes, ends and announces. */
const runsPerCall = 2_000;
const pausesPerCall = 50;
const announcedPerCall = 1_000;

/** Makes runs for intervals without data, and ends pauses that only Sluice made. Any worker may call it at any time. */
export async function heal(context: Context): Promise<number> {
  const { db, policy } = context;
  let runCount = 0;
  await doEach([
    // Up to the concurrency of a backfill per export, so a long outage never floods the outbox.
    async () => {
      runCount = await makeHealingRuns(db, policy.backfillConcurrency, runsPerCall);
    },
    async () => {
      const healed = await findHealedPauses(db, pausesPerCall);
      await doEach(healed.map((id) => () => endPauseOf(context, id)));
    },
    () => logExpired(context),
    () => announceCauses(context),
  ]);
  return runCount;
}

/** Announces what holds exports up, once for each error of an organization, and that it is over. */
async function announceCauses({ db }: Context): Promise<void> {
  await db.transaction(async (tx) => {
    const heldUp = await listNewlyHeldUp(tx, announcedPerCall);
    await noteAnnounced(tx, heldUp);
    const news = heldUp.filter(({ isKnown }) => !isKnown);
    await announce(tx, 'healing.started', news.map(withTurn));
    await announce(tx, 'healing.ended', (await takeOver(tx)).map(withTurn));
  });
}

const withTurn = <T extends { readonly code: string }>(one: T) => ({
  ...one,
  turn: turnOfCode(one.code, false),
});

/** The export works again, so its schedule goes on, and what the pause kept from running heals too. */
async function endPauseOf({ db }: Context, exportId: string): Promise<void> {
  await db.transaction(async (tx) => {
    const locked = await lockExportNow(tx, exportId);
    if (!locked) return;
    const { batchExport, now } = locked;
    const { mode, paused, pausedReason, schedule, teamId } = batchExport;
    // A person may have decided meanwhile.
    if (!paused || pausedReason === null) return;
    const pause = { start: newestGate(schedule).pausedSince ?? now, end: now };
    const timeline = await readTimeline(tx, exportId, schedule, pause);
    const missed = missedWhilePaused(schedule, timeline, now).flatMap((range) => [
      ...intervalsIn(timeline, range, 'oldest_first'),
    ]);
    await endPause(tx, exportId, unpause(schedule, now));
    const newest = missed.at(-1);
    const due = mode === 'append' ? missed : missed.slice(-1);
    if (newest && mode !== 'append') {
      const intervals = missed.slice(0, -1);
      await supersede(tx, [{ exportId, teamId, run: null, newest: newest.end, intervals }]);
    }
    await healMissed(tx, exportId, due);
    const message = `The cause of the pause is over, so Sluice has unpaused the export. Intervals that were missed in the pause and run now: ${due.length}.`;
    await noteInLog(tx, batchExport, 'INFO', message);
  });
}

async function logExpired({ db }: Context): Promise<void> {
  await db.transaction(async (tx) => {
    const ended = await endExpired(tx);
    await appendLogEntries(
      tx,
      ended.map(({ exportId, teamId, intervals }) => ({
        ...{ exportId, teamId, runId: null, level: 'ERROR' as const },
        message: `Sluice no longer tries to heal ${intervals} intervals: heal_for_hours is over. Fix the cause, then retry their runs.`,
      })),
    );
  });
}

/** The stored destination of an export has passed a test: what held the export up may be over. */
export async function notePassedTest({ db }: Pick<Context, 'db'>, exportId: string): Promise<void> {
  await healNow(db, exportId);
}
