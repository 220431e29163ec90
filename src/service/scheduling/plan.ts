/** Which ticks are due, which interval each one ends, and whether it runs. */

import type { Gate, Schedule } from '../../foundation/domain/schedule.ts';
import type { DataInterval, Instant } from '../../foundation/domain/time.ts';
import { tickAfter } from './boundary.ts';
import { newestGate } from './schedule.ts';

/** `ran`: a run is made for the interval. The others are only recorded. */
export type TickFate = PlannedFate | 'superseded';

export type PlannedFate = 'ran' | 'outside_window' | 'paused';

export interface Tick {
  readonly tickAt: Instant;
  /** Ends at `tickAt`. */
  readonly interval: DataInterval;
  readonly fate: TickFate;
}

export interface Plan {
  /** Oldest first. Record each in the transaction that stores `schedule`. */
  readonly ticks: readonly Tick[];
  readonly schedule: Schedule;
  /** True if ticks are still due at `now`: plan again. */
  readonly more: boolean;
}

/** Decides up to `limit` ticks at or before `now`. A clock that goes back decides nothing twice. */
export function planTicks(schedule: Schedule, now: Instant, limit: number): Plan {
  const ticks: Tick[] = [];
  let { openIntervalStart, nextTickAt } = schedule;
  while (nextTickAt <= now && ticks.length < limit) {
    const interval = { start: openIntervalStart, end: nextTickAt };
    ticks.push({ tickAt: nextTickAt, interval, fate: fateOf(schedule, nextTickAt) });
    openIntervalStart = nextTickAt;
    nextTickAt = tickAfter(schedule.cadences, nextTickAt);
  }
  if (ticks.length === 0) return { ticks, schedule, more: nextTickAt <= now };
  const planned = dropSpentGates({ ...schedule, openIntervalStart, nextTickAt });
  return { ticks, schedule: planned, more: nextTickAt <= now };
}

/** The newest tick at or before `now` that will run; null if none will. */
export function newestDue(schedule: Schedule, now: Instant): Instant | null {
  let newest: Instant | null = null;
  for (let plan = planTicks(schedule, now, planned); ; ) {
    newest = plan.ticks.findLast(({ fate }) => fate === 'ran')?.tickAt ?? newest;
    if (!plan.more) return newest;
    plan = planTicks(plan.schedule, now, planned);
  }
}

const planned = 1_000;

/** Ticks of an export that has no past: only the newest one that is due runs. */
export function supersedeEarlier(ticks: readonly Tick[], newest: Instant | null): readonly Tick[] {
  return ticks.map((tick) =>
    tick.fate === 'ran' && tick.tickAt !== newest ? { ...tick, fate: 'superseded' } : tick,
  );
}

/** The fate of a tick: the window decides first, then the pause. */
export function fateOf(schedule: Schedule, tickAt: Instant): PlannedFate {
  const gate = schedule.gates[gateIndexFor(schedule, tickAt)] ?? schedule.gates[0];
  if (!isInWindow(gate, tickAt)) return 'outside_window';
  return gate.pausedSince === null ? 'ran' : 'paused';
}

/** The first undecided tick that will run with the current settings; null if none will. */
export function nextRunAt(schedule: Schedule): Instant | null {
  const { cadences, nextTickAt } = schedule;
  if (fateOf(schedule, nextTickAt) === 'ran') return nextTickAt;
  const gate = newestGate(schedule);
  if (gate.pausedSince !== null) return null;
  const from = Math.max(nextTickAt - 1, gate.since, (gate.startAt ?? nextTickAt) - 1);
  const tickAt = tickAfter(cadences, from);
  return isInWindow(gate, tickAt) ? tickAt : null;
}

function isInWindow(gate: Gate, tickAt: Instant): boolean {
  const { startAt, endAt } = gate;
  return (startAt === null || startAt <= tickAt) && (endAt === null || tickAt <= endAt);
}

function gateIndexFor(schedule: Schedule, tickAt: Instant): number {
  const index = schedule.gates.findLastIndex((gate) => gate.since < tickAt);
  return Math.max(index, 0);
}

/** Keeps what undecided ticks need, and all of a pause that is still open. */
function dropSpentGates(schedule: Schedule): Schedule {
  const { gates } = schedule;
  const { pausedSince } = newestGate(schedule);
  const firstOfPause = gates.findIndex((gate) => gate.pausedSince === pausedSince);
  const firstUndecided = gateIndexFor(schedule, schedule.nextTickAt);
  const keepFrom = pausedSince === null ? firstUndecided : Math.min(firstUndecided, firstOfPause);
  const [first, ...rest] = gates.slice(keepFrom);
  return first === undefined ? schedule : { ...schedule, gates: [first, ...rest] };
}
