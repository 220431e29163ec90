import { type Instant, toTimestamp } from '../../../foundation/domain/time.ts';
import type { Sql } from '../../../state/store/database/database.ts';
import {
  type Checked,
  type CheckedExport,
  type LateInterval,
  listUnjudged,
  lockDueChecks,
  noteArrivals,
  noteLate,
  type OwedInterval,
  storeChecks,
} from '../../../state/store/healing/deadlines.ts';
import { readNow } from '../../../state/store/intervals/ticks.ts';
import { type Deadline, dueBy, outcomeOf } from '../../scheduling/deadline.ts';
import type { Context } from '../context.ts';
import { announce, type Concerned, turnOfCode } from '../notifications/announce.ts';
import { SeparateWork } from '../separate-work.ts';

const exportsPerCall = 500;
const intervalsPerExport = 100;
const minuteMs = 60_000;

/**
 * Judges the deadlines that may have changed their state, and records the events. It costs three statements for all exports
 * together. Any number of workers may call it at once.
 *
 * @throws what kept exports from being judged, after all others were
 */
export async function checkDeadlines({ db }: Pick<Context, 'db'>): Promise<number> {
  const judging = new SeparateWork();
  const checks = await db.transaction(async (tx) => {
    const arrived = await noteArrivals(tx);
    const lateOnes = arrived.map((one) => ({ ...one, intervals: 1, since: one.dueBy }));
    await announce(tx, 'interval.delivered_late', lateOnes);
    const checked = await lockDueChecks(tx, exportsPerCall);
    if (checked.length > 0) await judge(tx, checked, judging);
    return checked.length;
  });
  judging.end();
  return checks;
}

async function judge(tx: Sql, checked: readonly CheckedExport[], judging: SeparateWork) {
  const now = await readNow(tx);
  const owed = await listUnjudged(tx, checked, intervalsPerExport);
  const late: LateInterval[] = [];
  const checks: Checked[] = [];
  for (const one of checked) {
    const own = owed.filter(({ exportId }) => exportId === one.exportId);
    const judged = await judging.do(() => judgeExport(one, own, now));
    late.push(...(judged?.late ?? []));
    checks.push(judged?.check ?? laterCheck(one, now));
  }
  const noted = await noteLate(tx, late);
  const byId = new Map(checked.map((one) => [one.exportId, one]));
  const chosen = (wanted: (one: LateInterval, was: (typeof noted)[number]) => boolean) =>
    noted.flatMap((was) => {
      const one = late[was.index];
      const of = one && byId.get(one.exportId);
      return one && of && wanted(one, was) ? [concernOf(of, one)] : [];
    });
  const missed = chosen((one, was) => one.isMissed && !was.wasMissed && one.deliveredAt === null);
  await announce(tx, 'interval.missed', missed);
  const came = chosen((one, was) => one.isMissed && !was.wasMissed && one.deliveredAt !== null);
  await announce(tx, 'interval.delivered_late', came);
  const atRisk = chosen((one, was) => !one.isMissed && was.isNew);
  await announce(tx, 'interval.at_risk', atRisk);
  await storeChecks(tx, checks);
}

type Due = Pick<CheckedExport, 'deadlineMinutes' | 'deadlineAt'>;

function deadlineOf({ deadlineMinutes: minutes, deadlineAt: at }: Due): Deadline | null {
  if (minutes !== null) return { minutes, at: null };
  return at === null ? null : { minutes: null, at };
}

/** Returns how long before its deadline an interval counts as at risk; 0: it never does. */
function warnMsOf({ warnMinutes }: Pick<CheckedExport, 'warnMinutes'>): number {
  return (warnMinutes ?? 0) * minuteMs;
}

/** Judges intervals of an export in their order, up to the first whose deadline is open. */
function judgeExport(
  checked: CheckedExport,
  owed: readonly OwedInterval[],
  now: Instant,
): { readonly late: readonly LateInterval[]; readonly check: Checked } {
  const { exportId, schedule } = checked;
  const deadline = deadlineOf(checked);
  if (deadline === null) return { late: [], check: laterCheck(checked, now) };
  const warnMs = warnMsOf(checked);
  const late: LateInterval[] = [];
  let judgedTo: Instant | null = null;
  let nextCheckAt = Number.POSITIVE_INFINITY;
  for (const one of owed) {
    const due = dueBy(one.interval, schedule.cadences, deadline);
    const outcome = outcomeOf(due, one.deliveredAt, now, warnMs);
    const isOpen = outcome === 'pending' || outcome === 'at_risk';
    if (outcome === 'missed' || outcome === 'at_risk') {
      const turn = turnOfCode(one.code, one.waitsForSource);
      late.push({
        ...{ exportId, interval: one.interval, dueBy: due, deliveredAt: one.deliveredAt },
        ...{ isMissed: outcome === 'missed', code: one.code, turn },
      });
    }
    if (isOpen) nextCheckAt = Math.min(nextCheckAt, nextLook(due, warnMs, outcome, now));
    else if (nextCheckAt === Number.POSITIVE_INFINITY) judgedTo = one.tickAt;
  }
  const isFull = owed.length === intervalsPerExport;
  if (isFull && judgedTo !== null) nextCheckAt = now;
  if (nextCheckAt === Number.POSITIVE_INFINITY)
    nextCheckAt = firstLook(checked, deadline, warnMs, now);
  if (!Number.isFinite(nextCheckAt))
    throw new Error(`the deadline of export ${exportId} cannot be judged`);
  return { late, check: { exportId, judgedTo, nextCheckAt } };
}

const laterCheck = ({ exportId }: CheckedExport, now: Instant): Checked => ({
  ...{ exportId, judgedTo: null, nextCheckAt: now + 60 * minuteMs },
});

/** An open deadline is looked at every minute: the interval may arrive. */
function nextLook(due: Instant, warnMs: number, outcome: string, now: Instant): Instant {
  const changesAt = outcome === 'pending' && warnMs > 0 ? due - warnMs : due + 1;
  return Math.min(changesAt, now + minuteMs);
}

/** When the interval that is open now is looked at first. */
function firstLook(
  { schedule: { openIntervalStart: start, nextTickAt: end, cadences } }: CheckedExport,
  deadline: Deadline,
  warnMs: number,
  now: Instant,
): Instant {
  const due = dueBy({ start, end }, cadences, deadline);
  return Math.max(now + minuteMs / 4, end, Math.min(due - warnMs, end + minuteMs));
}

function concernOf(checked: CheckedExport, { code, turn, dueBy: due }: LateInterval): Concerned {
  const { organizationId, teamId, exportId, name } = checked;
  const since = toTimestamp(due);
  return { organizationId, teamId, exportId, name, intervals: 1, code, turn, since };
}
