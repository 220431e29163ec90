import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import { SluiceError } from '../../domain/errors.ts';
import type { DataInterval, Instant } from '../../domain/time.ts';
import type { Settlement, Unsettled } from '../source.ts';
import { readLive, readServer } from './live-transactions.ts';
import {
  isTransaction,
  type Live,
  markValue,
  namesOf,
  type PendingName,
  replayOf,
  sessionsOf,
  standby,
  stillPending,
  unlisted,
  unseenUntil,
} from './pending.ts';
import { findPrimaryFault, hasReplayed, isSameTimeline, readPosition } from './replay.ts';

export interface SettleTimes {
  /** Maximum time of the whole wait. */
  readonly timeoutMs: number;
  readonly pollMs: number;
  /** How long an interval is unsettled if other roles' times are not visible. */
  readonly unseenMs: number;
}

/** The database that is read, and the one that is written if that is another. */
export interface SettledServers {
  readonly client: pg.Client;
  /**
   * Runs `work` with a connection to a standby's primary, then closes it; null if the primary is not known.
   */
  readonly withPrimary: (<T>(work: (primary: pg.Client) => Promise<T>) => Promise<T>) | null;
  /** Whether a standby without its primary may be read anyway. */
  readonly allowsStandby: boolean;
}

/** Shortly after an interval's end, some transactions may not be visible yet. */
const longAgoMs = 60_000;
/** The first pause between two looks; it doubles up to `pollMs`. */
const firstPollMs = 5;
/** Consecutive looks that must find nothing: one look reads several views one after the other. */
const cleanLooks = 2;

const settledNow: Settlement = { settled: true, pending: [], reason: null, position: null };

const unsettled = (reason: Unsettled, pending: readonly PendingName[]): Settlement => {
  return { settled: false, pending, reason, position: null };
};

/**
 * Waits until no transaction can add rows to the interval: from then on every snapshot shows all rows whose
 * `now()` is in it (on a standby: every snapshot after `position`).
 *
 * First the clock of the server that writes must have passed the end. Then every live transaction must end,
 * as for CREATE INDEX CONCURRENTLY, and no session may still execute anything that began before the end. On
 * a standby both happen on its primary, and the standby must then replay what the primary has written.
 *
 * @throws SluiceError `source.standby` if this cannot be proven and the operator has not allowed it
 */
export async function settleInterval(
  { client, withPrimary, allowsStandby }: SettledServers,
  interval: DataInterval,
  times: SettleTimes,
  signal: AbortSignal,
): Promise<Settlement> {
  const deadline = performance.now() + times.timeoutMs;
  if (!(await readServer(client, signal)).isStandby) {
    return settleWriter(client, interval, times, deadline, signal);
  }
  if (withPrimary === null) {
    if (!allowsStandby) throw new SluiceError('source.standby');
    return unsettled('standby', [standby]);
  }
  return withPrimary(async (primary) => {
    const fault = await findPrimaryFault(client, primary, signal);
    if (fault !== null) throw new SluiceError('source.standby', fault);
    const settlement = await settleWriter(primary, interval, times, deadline, signal);
    if (settlement.pending.some((name) => name === unlisted || isTransaction(name))) {
      return settlement;
    }
    const position = await readPosition(primary, signal);
    const ready = () => canSee(client, primary, position, signal);
    for (let pauseMs = firstPollMs; !(await ready()); pauseMs *= 2) {
      const leftMs = deadline - performance.now();
      if (leftMs <= 0) return unsettled('replay', [...settlement.pending, replayOf(position)]);
      await delay(Math.min(pauseMs, times.pollMs, leftMs), undefined, { signal });
    }
    return { ...settlement, position };
  });
}

/** Checks again, without waiting, what kept an interval from settling. */
export async function recheckInterval(
  servers: SettledServers,
  interval: DataInterval,
  pending: readonly PendingName[],
  times: SettleTimes,
  signal: AbortSignal,
): Promise<Settlement> {
  const { client, withPrimary } = servers;
  if (pending.some((name) => name === unlisted || name === standby)) {
    return settleInterval(
      { ...servers, allowsStandby: true },
      interval,
      { ...times, timeoutMs: 0 },
      signal,
    );
  }
  if (!(await readServer(client, signal)).isStandby) {
    const left = await recheckWriter(client, interval, pending, signal);
    return conclude(left.filter((name) => markValue([name], 'replay') === null));
  }
  if (withPrimary === null) return unsettled('standby', pending);
  return withPrimary(async (primary) => {
    const left = await recheckWriter(primary, interval, pending, signal);
    if (left.some(isTransaction)) return conclude(left);
    const position = markValue(left, 'replay') ?? (await readPosition(primary, signal));
    const others = left.filter((name) => markValue([name], 'replay') === null);
    if (!(await canSee(client, primary, position, signal))) {
      return unsettled('replay', [...others, replayOf(position)]);
    }
    return { ...conclude(others), position };
  });
}

function conclude(pending: readonly PendingName[]): Settlement {
  if (pending.length === 0) return settledNow;
  return unsettled(pending.some(isTransaction) ? 'transactions' : 'unseen', pending);
}

async function recheckWriter(
  client: pg.Client,
  interval: DataInterval,
  pending: readonly PendingName[],
  signal: AbortSignal,
): Promise<readonly PendingName[]> {
  const live = await readLive(client, interval.end, signal);
  const until = markValue(pending, 'unseen');
  return stillPending(pending, live).filter(
    (name) => markValue([name], 'unseen') === null || Number(until) > live.nowMs,
  );
}

/** Whether the standby shows everything that the primary had written up to `position`. */
async function canSee(
  client: pg.Client,
  primary: pg.Client,
  position: string,
  signal: AbortSignal,
): Promise<boolean> {
  // The order matters: a position means something only on the timeline that has been replayed.
  return (
    (await hasReplayed(client, position, signal)) && (await isSameTimeline(client, primary, signal))
  );
}

async function settleWriter(
  client: pg.Client,
  interval: DataInterval,
  times: SettleTimes,
  deadline: number,
  signal: AbortSignal,
): Promise<Settlement> {
  const clockMs = await waitForClock(client, interval.end, times.pollMs, deadline, signal);
  if (clockMs === null) return unsettled('clock', [unlisted]);
  // `now()` is taken a moment before anything is visible. Waiting one poll covers what was between the two
  // when the interval ended; long after the end there is nothing between.
  if (clockMs - interval.end < longAgoMs) await delay(times.pollMs, undefined, { signal });
  const { left, live } = await waitForTransactions(client, interval, times, deadline, signal);
  const pending = live.hasUnseen ? [...left, unseenUntil(live.nowMs + times.unseenMs)] : left;
  return conclude(pending);
}

/** @returns the server's clock once it has passed `end`; null if it has not by the deadline */
async function waitForClock(
  client: pg.Client,
  end: Instant,
  pollMs: number,
  deadline: number,
  signal: AbortSignal,
): Promise<number | null> {
  for (;;) {
    const { nowMs } = await readServer(client, signal);
    if (nowMs >= end) return nowMs;
    const leftMs = deadline - performance.now();
    if (leftMs <= 0) return null;
    // The clock may be changed meanwhile, so it is read again, more often near the end.
    const pauseMs = Math.min(Math.max(end - nowMs, firstPollMs), 20 * pollMs, leftMs);
    await delay(pauseMs, undefined, { signal });
  }
}

/** Waits for what was alive at the first look, and until no session executes older messages. */
async function waitForTransactions(
  client: pg.Client,
  interval: DataInterval,
  { pollMs }: SettleTimes,
  deadline: number,
  signal: AbortSignal,
): Promise<{ readonly left: readonly PendingName[]; readonly live: Live }> {
  let live = await readLive(client, interval.end, signal);
  let left: readonly PendingName[] = [...namesOf(live, interval.start), ...sessionsOf(live)];
  let clean = 0;
  for (let pauseMs = firstPollMs; ; pauseMs *= 2) {
    clean = left.length === 0 ? clean + 1 : 0;
    if (clean === cleanLooks) return { left, live };
    const leftMs = deadline - performance.now();
    if (clean === 0 && leftMs <= 0) return { left, live };
    const longest = clean > 0 ? firstPollMs : Math.min(pauseMs, pollMs, leftMs);
    await delay(longest, undefined, { signal });
    live = await readLive(client, interval.end, signal);
    const known = new Set(left.map((name) => name.split('>')[0]));
    const others = new Map([...live.sessions].filter(([session]) => !known.has(session)));
    left = [...stillPending(left, live), ...sessionsOf({ ...live, sessions: others })];
  }
}
