import { probeDelayMs } from '../../../foundation/domain/causes.ts';
import { intervalsIn } from '../../scheduling/backfill-range.ts';
import { missedWhilePaused } from '../../scheduling/missed-while-paused.ts';
import { newestGate, unpause } from '../../scheduling/schedule.ts';
import {
  forgetIdleCauses,
  listHeldUp,
  lockDueCauses,
  lockUnannounced,
  noteAnnounced,
  noteProbe,
} from '../../../state/store/healing/causes.ts';
import type { Sql } from '../../../state/store/database/database.ts';
import { lockExportNow } from '../../../state/store/exports/exports.ts';
import {
  endExpired,
  findFree,
  findHealedPauses,
  findHeldUp,
  findWaitingForCause,
  type HealingInterval,
  healMissed,
  markHealing,
  probeWithRun,
} from '../../../state/store/healing/healing.ts';
import { appendLogEntries } from '../../../state/store/exports/log-entries.ts';
import { insertRuns } from '../../../state/store/runs/runs.ts';
import { endPause } from '../../../state/store/exports/pauses.ts';
import type { Context } from '../context.ts';
import { readTimeline } from '../exports/timeline.ts';
import { announce, turnOfCode } from '../notifications/announce.ts';
import { doEach } from '../separate-work.ts';

/** Causes that one call probes at most. */
const causesPerCall = 100;

/** Runs that one call makes at most. */
const runsPerCall = 2_000;

/** Exports whose pause one call ends at most. */
const pausesPerCall = 50;

/**
 * Heals what can be healed now: probes the causes that are due, makes runs for intervals that nothing holds up any more,
 * and ends pauses that only Sluice made. Any number of workers may call it at once.
 *
 * @returns how many runs were made
 */
export async function heal(context: Context): Promise<number> {
  let made = 0;
  await doEach([
    async () => {
      made += await probeCauses(context);
    },
    async () => {
      made += await runFree(context);
    },
    async () => {
      const healed = await findHealedPauses(context.db, pausesPerCall);
      await doEach(healed.map((id) => () => endPauseOf(context, id)));
    },
    () => logExpired(context),
    () => announceCauses(context),
    () => forgetIdleCauses(context.db),
  ]);
  return made;
}

/** One attempt for each cause that is due, at the oldest of what it holds up. */
function probeCauses({ db }: Context): Promise<number> {
  return db.transaction(async (tx) => {
    let made = 0;
    for (const { id, ageMs } of await lockDueCauses(tx, causesPerCall)) {
      await noteProbe(tx, id, probeDelayMs(ageMs));
      const waiting = await findWaitingForCause(tx, id);
      if (waiting !== null) {
        await probeWithRun(tx, waiting, id);
        continue;
      }
      const held = await findHeldUp(tx, id);
      if (held) made += await makeHealingRuns(tx, [held], id);
    }
    return made;
  });
}

/** Announces causes that hold something up. */
async function announceCauses({ db }: Context): Promise<void> {
  await db.transaction(async (tx) => {
    const ids = await lockUnannounced(tx, causesPerCall);
    if (ids.length === 0) return;
    const held = await listHeldUp(tx, ids);
    const concerned = held.map((one) => ({ ...one, turn: turnOfCode(one.code, false) }));
    await announce(tx, 'healing.started', concerned);
    await noteAnnounced(tx, [...new Set(held.map(({ causeId }) => causeId))]);
  });
}

/** Up to the concurrency of a backfill per export, so a long outage never floods the outbox. */
function runFree({ db, policy }: Context): Promise<number> {
  return db.transaction(async (tx) => {
    const free = await findFree(tx, policy.backfillConcurrency, runsPerCall);
    return makeHealingRuns(tx, free, null);
  });
}

async function makeHealingRuns(
  tx: Sql,
  intervals: readonly HealingInterval[],
  causeId: string | null,
): Promise<number> {
  if (intervals.length === 0) return 0;
  const wanted = intervals.map((one) => ({ ...one, backfillId: null }));
  const made = await insertRuns(tx, wanted);
  await markHealing(tx, made, causeId);
  return made.length;
}

/** The export works again, so its schedule goes on, and what the pause kept from running heals too. */
async function endPauseOf({ db }: Context, exportId: string): Promise<void> {
  await db.transaction(async (tx) => {
    const locked = await lockExportNow(tx, exportId);
    if (!locked) return;
    const { batchExport, now } = locked;
    const { paused, pausedReason, schedule, teamId } = batchExport;
    // A person may have decided meanwhile.
    if (!paused || pausedReason === null) return;
    const pause = { start: newestGate(schedule).pausedSince ?? now, end: now };
    const timeline = await readTimeline(tx, exportId, schedule, pause);
    const missed = missedWhilePaused(schedule, timeline, now).flatMap((range) => [
      ...intervalsIn(timeline, range, 'oldest_first'),
    ]);
    await endPause(tx, exportId, unpause(schedule, now));
    await healMissed(tx, exportId, missed);
    const message = `The cause of the pause is over, so Sluice has unpaused the export. Intervals that were missed in the pause and run now: ${missed.length}.`;
    await appendLogEntries(tx, [{ teamId, exportId, runId: null, level: 'INFO', message }]);
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
