import type { Cadence } from '../../foundation/domain/cadence.ts';
import type { CadenceHistory, Gate, Schedule } from '../../foundation/domain/schedule.ts';
import type { DataInterval, Instant } from '../../foundation/domain/time.ts';
import { newestCadence, tickAfter, tickAtOrBefore } from './boundary.ts';
import { boundAfter, boundAtOrBefore, boundBefore, type Timeline } from './timeline.ts';

/**
 * The planner's state of one export, and the effect of each change. Settings are dated: a tick is decided
 * by the settings at the time it came due, however late that happens. So a change while the workers were
 * down never affects ticks that were due before it.
 */

export interface Window {
  readonly startAt: Instant | null;
  readonly endAt: Instant | null;
}

export interface Settings extends Window {
  readonly cadence: Cadence;
  readonly paused: boolean;
}

/** The schedule of an export created at `now`. Nothing runs for the past: the first tick is the next boundary. */
export function openSchedule(settings: Settings, now: Instant): Schedule {
  const { cadence, paused, startAt, endAt } = settings;
  const cadences: CadenceHistory = [{ since: null, cadence }];
  return {
    cadences,
    gates: [{ since: now, pausedSince: paused ? now : null, startAt, endAt }],
    openIntervalStart: tickAtOrBefore(cadences, now),
    nextTickAt: tickAfter(cadences, now),
  };
}

/**
 * The interval open at `now` ends at the next old boundary; the new cadence begins there. A second change
 * before that boundary replaces the first. Ticks overdue at `now` keep the old cadence.
 */
export function changeCadence(schedule: Schedule, cadence: Cadence, now: Instant): Schedule {
  const closesAt =
    now < schedule.nextTickAt ? schedule.nextTickAt : tickAfter(schedule.cadences, now);
  const [first, ...rest] = schedule.cadences;
  const earlier = rest.filter((era) => era.since !== null && era.since < closesAt);
  const history: CadenceHistory = [first, ...earlier];
  return {
    ...schedule,
    cadences: sameCadence(newestCadence(history), cadence)
      ? history
      : [...history, { since: closesAt, cadence }],
  };
}

/** Ticks after `now` do not run. No effect on a paused export. */
export function pause(schedule: Schedule, now: Instant): Schedule {
  if (newestGate(schedule).pausedSince !== null) return schedule;
  return changeGate(schedule, { pausedSince: changeTime(schedule, now) }, now);
}

/** Ticks after `now` run again. To know what was missed, ask `missedWhilePaused` first. */
export function unpause(schedule: Schedule, now: Instant): Schedule {
  return changeGate(schedule, { pausedSince: null }, now);
}

/** New bounds for ticks after `now`. A `startAt` in the past runs nothing for the past. */
export function changeWindow(schedule: Schedule, window: Partial<Window>, now: Instant): Schedule {
  return changeGate(schedule, window, now);
}

/** The gate of undecided future ticks. */
export function newestGate(schedule: Schedule): Gate {
  return schedule.gates.at(-1) ?? schedule.gates[0];
}

function changeGate(
  schedule: Schedule,
  change: Partial<Omit<Gate, 'since'>>,
  now: Instant,
): Schedule {
  const newest = newestGate(schedule);
  const since = changeTime(schedule, now);
  const next: Gate = { ...newest, ...change, since };
  if (sameGate(newest, next)) return schedule;
  const [first, ...rest] = schedule.gates;
  // The open interval keeps its end, also if new zone data has moved the boundary.
  const { nextTickAt, cadences } = schedule;
  const closes = newest.since < nextTickAt && nextTickAt <= since;
  // A gate without a tick is replaced, so that changes between two ticks do not accumulate.
  if (rest.length > 0 && !closes && tickAfter(cadences, newest.since) > since) {
    const keptSchedule: Schedule = { ...schedule, gates: [first, ...rest.slice(0, -1)] };
    const replaced: Gate = { ...next, since: newest.since };
    return sameGate(newestGate(keptSchedule), replaced)
      ? keptSchedule
      : { ...keptSchedule, gates: [...keptSchedule.gates, replaced] };
  }
  return { ...schedule, gates: [...schedule.gates, next] };
}

/** After a clock went back, a change must still be dated after decided ticks and earlier changes. */
function changeTime(schedule: Schedule, now: Instant): Instant {
  return Math.max(now, newestGate(schedule).since, schedule.openIntervalStart);
}

function sameGate(a: Gate, b: Gate): boolean {
  return a.pausedSince === b.pausedSince && a.startAt === b.startAt && a.endAt === b.endAt;
}

function sameCadence(a: Cadence, b: Cadence): boolean {
  return (
    a.interval === b.interval &&
    a.timezone === b.timezone &&
    a.offsetDay === b.offsetDay &&
    a.offsetHour === b.offsetHour
  );
}

/** The intervals that an unpause with `{"backfill": true}` exports. */

/** The intervals that the pause, still open at `now`, kept from running, joined, oldest first. Ask before `unpause`. */
export function missedWhilePaused(
  schedule: Schedule,
  timeline: Timeline,
  now: Instant,
): readonly DataInterval[] {
  const { pausedSince } = newestGate(schedule);
  if (pausedSince === null) return [];
  const { gates } = schedule;
  const ranges: DataInterval[] = [];
  gates.forEach((gate, index) => {
    if (gate.pausedSince !== pausedSince) return;
    const until = gates[index + 1]?.since ?? now;
    const from = Math.max(gate.since, (gate.startAt ?? Number.NEGATIVE_INFINITY) - 1);
    const firstTick = boundAfter(timeline, from);
    const upTo = Math.min(until, now, gate.endAt ?? Number.POSITIVE_INFINITY);
    if (firstTick > upTo) return;
    const range = { start: boundBefore(timeline, firstTick), end: boundAtOrBefore(timeline, upTo) };
    const last = ranges.at(-1);
    if (last !== undefined && last.end === range.start) {
      ranges[ranges.length - 1] = { start: last.start, end: range.end };
    } else {
      ranges.push(range);
    }
  });
  return ranges;
}
