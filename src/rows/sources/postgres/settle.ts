import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import type { DataInterval, Instant, Moment } from '../../../foundation/domain/time.ts';
import type { Settlement, Unsettled } from '../source.ts';
import { describeBlockers, findReaders } from './blockers.ts';
import { type Look, liveAt, longAgoMs, namesOfReaders } from './live-transactions.ts';
import {
  baseOf,
  isTransaction,
  type Live,
  markValue,
  namedAt,
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
import type { SharedServer } from './shared-server.ts';

export interface SettleTimes {
  /** Maximum time of the whole wait. */
  readonly timeoutMs: number;
  readonly pollMs: number;
  /** How long an interval is unsettled if other roles' times are not visible. */
  readonly unseenMs: number;
  /**
   * Whether no interval waits for it: it relies on nothing that was found before, and gives up no transaction for others;
   * default: no.
   */
  readonly isAhead?: boolean;
  /** Called again and again with what an interval waits for, once it has waited for a moment. */
  readonly onWait?: (blockers: readonly string[]) => void;
}

/** The database that is read, and the one that is written if that is another. */
export interface SettledServers {
  readonly source: SharedServer;
  /** A standby's primary; null if it is not known. */
  readonly primary: SharedServer | null;
  /** Whether a standby without its primary may be read anyway. */
  readonly allowsStandby: boolean;
}

/** The first pause between two looks; it doubles up to `pollMs`. */
const firstPollMs = 5;
/**
 * Consecutive looks that must find nothing: one look reads several views one after the other, and a session may be
 * between two transactions of one message from before the end. If it is known that none is, one look shows what
 * else is open.
 */
const cleanLooks = 2;

export const settledNow: Settlement = { settled: true, pending: [], reason: null, position: null };

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
 * @param databaseMs a time that our database's clock has shown before the call
 * @throws SluiceError `source.standby` if this cannot be proven and the operator has not allowed it
 */
export function settleInterval(
  { source, primary, allowsStandby }: SettledServers,
  interval: DataInterval,
  times: SettleTimes,
  signal: AbortSignal,
  databaseMs = Number.NEGATIVE_INFINITY,
): Promise<Settlement> {
  const wait = { interval, times, deadline: performance.now() + times.timeoutMs, signal };
  return source.hold(async () => {
    const first = await lookFirst(source, databaseMs, signal);
    if (!first.look.isStandby) return settleWriter(source, first, wait);
    if (primary === null) {
      if (!allowsStandby) throw new SluiceError('source.standby');
      return unsettled('standby', [standby]);
    }
    return primary.hold(() => settleStandby({ source, primary }, databaseMs, wait));
  });
}

/** A wait until an interval settles. */
interface Wait {
  readonly interval: DataInterval;
  readonly times: SettleTimes;
  /** When it gives up, by the clock of this process. */
  readonly deadline: number;
  readonly signal: AbortSignal;
}

/** The look from which a wait goes on, and when it was asked for. */
interface FirstLook {
  readonly look: Look;
  readonly askedAt: Moment;
}

async function lookFirst(
  server: SharedServer,
  databaseMs: number,
  signal: AbortSignal,
): Promise<FirstLook> {
  const askedAt = { process: performance.now(), database: databaseMs };
  return { askedAt, look: await server.look(signal) };
}

async function settleStandby(
  { source, primary }: { readonly source: SharedServer; readonly primary: SharedServer },
  databaseMs: number,
  wait: Wait,
): Promise<Settlement> {
  const { times, deadline, signal } = wait;
  const fault = await withBoth(source, primary, signal, findPrimaryFault);
  if (fault !== null) throw new SluiceError('source.standby', fault);
  const first = await lookFirst(primary, databaseMs, signal);
  const { serverStart, isStandby } = first.look;
  if (isStandby) throw new SluiceError('source.unavailable', 'another primary answers than before');
  const settlement = await settleWriter(primary, first, wait);
  if (settlement.pending.some((name) => name === unlisted || isTransaction(name))) {
    return { ...settlement, server: null };
  }
  const position = await positionOf(primary, serverStart, signal);
  const ready = () => canSee(source, primary, position, signal);
  for (let pauseMs = firstPollMs; !(await ready()); pauseMs *= 2) {
    const leftMs = deadline - performance.now();
    if (leftMs <= 0) {
      return named(unsettled('replay', [...settlement.pending, replayOf(position)]), serverStart);
    }
    await delay(Math.min(pauseMs, times.pollMs, leftMs), undefined, { signal });
  }
  return { ...settlement, position, server: null };
}

/**
 * Checks again, without waiting, what kept an interval from settling. The names mean nothing at another server or at
 * another start of it, nor at a standby that was promoted: there everything alive is looked at anew.
 */
export async function recheckInterval(
  servers: SettledServers,
  interval: DataInterval,
  pending: readonly PendingName[],
  times: SettleTimes,
  signal: AbortSignal,
): Promise<Settlement> {
  const { source, primary } = servers;
  const lookAnew = () =>
    settleInterval(
      { ...servers, allowsStandby: true },
      interval,
      { ...times, timeoutMs: 0 },
      signal,
    );
  if (pending.some((name) => name === unlisted || name === standby)) return lookAnew();
  const at = markValue(pending, 'at');
  const isOther = ({ serverStart }: Look) => at !== null && serverStart !== at;
  return source.hold(async () => {
    const look = await source.look(signal);
    if (!look.isStandby) {
      if (isOther(look) || markValue(pending, 'replay') !== null) return lookAnew();
      const found = conclude(leftAt(look, interval, pending));
      return { ...named(found, look.serverStart), server: look.serverStart };
    }
    if (primary === null) return unsettled('standby', pending);
    return primary.hold(async () => {
      const seen = await primary.look(signal);
      if (isOther(seen)) return lookAnew();
      const { serverStart } = seen;
      const left = leftAt(seen, interval, pending);
      if (left.some(isTransaction)) return named(conclude(left), serverStart);
      const position =
        markValue(left, 'replay') ?? (await positionOf(primary, serverStart, signal));
      const others = left.filter((name) => markValue([name], 'replay') === null);
      if (!(await canSee(source, primary, position, signal))) {
        return named(unsettled('replay', [...others, replayOf(position)]), serverStart);
      }
      return { ...named(conclude(others), serverStart), position };
    });
  });
}

function conclude(pending: readonly PendingName[]): Settlement {
  if (pending.length === 0) return settledNow;
  return unsettled(pending.some(isTransaction) ? 'transactions' : 'unseen', pending);
}

/** Adds to what is pending which start of the server that writes it is of. */
function named(settlement: Settlement, serverStart: string): Settlement {
  if (settlement.settled) return settlement;
  const names = settlement.pending.filter((name) => markValue([name], 'at') === null);
  return { ...settlement, pending: [...names, namedAt(serverStart)] };
}

function positionOf(
  primary: SharedServer,
  serverStart: string,
  signal: AbortSignal,
): Promise<string> {
  return primary.use(signal, (client, patience) => readPosition(client, serverStart, patience));
}

/** What is left of `pending` in a look at the server that writes. */
function leftAt(
  look: Look,
  { end }: DataInterval,
  pending: readonly PendingName[],
): readonly PendingName[] {
  const live = liveAt(look, end);
  const until = markValue(pending, 'unseen');
  return stillPending(pending, live).filter(
    (name) =>
      markValue([name], 'at') === null &&
      (markValue([name], 'unseen') === null || Number(until) > live.nowMs),
  );
}

function withBoth<T>(
  source: SharedServer,
  primary: SharedServer,
  signal: AbortSignal,
  work: (source: pg.Client, primary: pg.Client, signal: AbortSignal) => Promise<T>,
): Promise<T> {
  return source.use(signal, (client, patience) =>
    primary.use(patience, (writer) => work(client, writer, patience)),
  );
}

/** Whether the standby shows everything that the primary had written up to `position`. */
async function canSee(
  source: SharedServer,
  primary: SharedServer,
  position: string,
  signal: AbortSignal,
): Promise<boolean> {
  // The order matters: a position means something only on the timeline that has been replayed.
  return (
    (await source.use(signal, (client, patience) => hasReplayed(client, position, patience))) &&
    (await withBoth(source, primary, signal, (standby, writer, patience) =>
      isSameTimeline(standby, writer, position, patience),
    ))
  );
}

async function settleWriter(
  server: SharedServer,
  first: FirstLook,
  wait: Wait,
): Promise<Settlement> {
  const { interval, times, signal } = wait;
  const lookAgain = async () => checkSame(first.look, await server.look(signal));
  let look = await waitForClock(first.look, lookAgain, wait);
  if (look === null) return unsettled('clock', [unlisted]);
  // `now()` is taken a moment before anything is visible: a look one poll after the end shows what was between the two then.
  const hiddenMs = interval.end + times.pollMs - look.nowMs;
  if (hiddenMs > 0) {
    await delay(hiddenMs, undefined, { signal });
    look = await lookAgain();
  }
  const waited = await waitForTransactions(server, look, lookAgain, wait);
  const { left, live, settledTo, blockers } = waited;
  const pending = live.hasUnseen ? [...left, unseenUntil(live.nowMs + times.unseenMs)] : left;
  if (pending.length === 0) server.memory.noteSettled(settledTo, live, first.askedAt, first.look);
  const { serverStart } = first.look;
  return { ...named(conclude(pending), serverStart), server: serverStart, blockers };
}

/**
 * A lost connection may lead to another server next, such as a standby behind the same address: what is not
 * alive there may be alive here.
 *
 * @throws SluiceError `source.unavailable` if a look is at another server, or at another start of it
 */
function checkSame(first: Look, look: Look): Look {
  if (look.serverStart === first.serverStart) return look;
  throw new SluiceError('source.unavailable', 'another server answers than before');
}

type LookAgain = () => Promise<Look>;

/** @returns the look in which the server's clock has passed the end; null if it has not by the deadline */
async function waitForClock(
  first: Look,
  lookAgain: LookAgain,
  { interval: { end }, times: { pollMs }, deadline, signal }: Wait,
): Promise<Look | null> {
  for (let look = first; ; look = await lookAgain()) {
    const { nowMs } = look;
    if (nowMs >= end) return look;
    const leftMs = deadline - performance.now();
    if (leftMs <= 0) return null;
    // The clock may be changed meanwhile, so it is read again, more often near the end.
    const pauseMs = Math.min(Math.max(end - nowMs, firstPollMs), 20 * pollMs, leftMs);
    await delay(pauseMs, undefined, { signal });
  }
}

/**
 * Waits for what was alive at the first look, and until no session executes older messages. What an earlier
 * interval waited for in vain is not waited for again.
 *
 * What was alive at the first look has any time, so other intervals have settled too, up to a while before that
 * look, if the last looks show no session from before that either.
 *
 * @returns `settledTo`: the end of the latest of them; null if an earlier wait has found that out
 */
async function waitForTransactions(
  server: SharedServer,
  first: Look,
  lookAgain: LookAgain,
  { interval, times: { pollMs, timeoutMs, isAhead, onWait }, deadline, signal }: Wait,
): Promise<{
  readonly left: readonly PendingName[];
  readonly live: Live;
  readonly settledTo: Instant | null;
  readonly blockers: readonly string[];
}> {
  const latest = Math.max(interval.end, Math.floor(first.nowMs) - longAgoMs);
  let look = first;
  let live = liveAt(look, interval.end);
  let left: readonly PendingName[] = [...namesOf(live, interval.start), ...sessionsOf(live)];
  const fromFirst = new Set(left.map(baseOf));
  let clean = 0;
  let settledTo = latest;
  let readers: ReadonlySet<number> | null = null;
  const done = () => ({ left, live, blockers: describeBlockers(look, left) });
  for (let pauseMs = firstPollMs; ; pauseMs *= 2) {
    const isWaited = left.some((name) => !server.memory.isLate(name, look));
    clean = isWaited ? 0 : clean + 1;
    if (isWaited) settledTo = latest;
    else if (liveAt(look, latest, readers ?? undefined).sessions.size > 0) settledTo = interval.end;
    if (clean === cleanLooks) return { ...done(), settledTo };
    if (clean === 1 && !isAhead && server.memory.isPast(interval.end, look)) {
      return { ...done(), settledTo: null };
    }
    const leftMs = deadline - performance.now();
    if (clean === 0 && leftMs <= 0) {
      const late = left.filter((name) => fromFirst.has(baseOf(name)));
      if (timeoutMs > 0 && !isAhead) server.memory.noteLate(late, look);
      return { ...done(), settledTo: interval.end };
    }
    if (isWaited && pauseMs >= pollMs) {
      // Not before: most transactions are short.
      readers ??= await server
        .use(signal, (client, patience) => findReaders(client, look, patience))
        .catch(() => new Set<number>());
      onWait?.(describeBlockers(look, left));
    }
    const joins = clean === 0 && leftMs > pollMs && (pauseMs >= pollMs || server.hasBeat);
    const longest = clean > 0 ? firstPollMs : Math.min(pauseMs, pollMs, leftMs);
    await (joins ? server.pause(signal) : delay(longest, undefined, { signal }));
    look = await lookAgain();
    live = liveAt(look, interval.end, readers ?? undefined);
    const reading = namesOfReaders(look, readers ?? new Set());
    left = left.filter((name) => !reading.has(baseOf(name)));
    const known = new Set(left.map((name) => name.split('>')[0]));
    const others = new Map([...live.sessions].filter(([session]) => !known.has(session)));
    left = [...stillPending(left, live), ...sessionsOf({ ...live, sessions: others })];
  }
}
