import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import type { DataInterval } from '../../../foundation/domain/time.ts';
import type { Settlement, Unsettled } from '../source.ts';
import { describeBlockers, findReaders } from './blockers.ts';
import { findReading, type Look, liveAt, namesOfProcesses } from './live-transactions.ts';
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
  readonly allowedMs: number;
  /** Maximum time of this one. It does not wait for what another interval has waited for as long. */
  readonly patienceMs: number;
  /** The time that the waits before it have lasted. */
  readonly waitedMs: number;
  readonly pollMs: number;
  /** The time that an interval is unsettled if other roles' times are not visible. */
  readonly unseenMs: number;
  /** True if the interval must only have ended; missing: no. */
  readonly onlyEnd?: boolean;
}

export interface SettledServers {
  readonly source: SharedServer;
  readonly primary: SharedServer | null;
  readonly allowsStandby: boolean;
}

/** The first pause between two looks; it doubles up to `pollMs`. */
const firstPollMs = 5;
/** One look reads several views in turn, and a session may be between two transactions of an old message. */
const cleanLooks = 2;

const settledNow: Settlement = { settled: true, pending: [], reason: null, position: null };

const unsettled = (reason: Unsettled, pending: readonly PendingName[]): Settlement => {
  return { settled: false, pending, reason, position: null };
};

interface Wait {
  readonly interval: DataInterval;
  readonly times: SettleTimes;
  readonly beganAt: number;
  /** When it gives up, by the clock of this process. */
  readonly deadline: number;
  readonly signal: AbortSignal;
}

/**
 * Waits until no transaction can add rows to the interval: from then on every snapshot shows all rows whose
 * `now()` is in it (on a standby: every snapshot after `position`).
 *
 * First the clock of the server that writes must have passed the end. Then every live transaction must end,
 * as for CREATE INDEX CONCURRENTLY, and no session may still execute anything that began before the end. On
 * a standby both happen on its primary, and the standby must then replay what the primary has written.
 *
 * If only its end counts, the transactions are not waited for.
 *
 * @param pending what an earlier wait for the interval left: then one look shows what is left of it, and nothing else is
 *   waited for. Null: everything alive is waited for
 * @throws SluiceError `source.standby` if this cannot be proven and the operator has not allowed it
 */
export async function settleInterval(
  servers: SettledServers,
  interval: DataInterval,
  times: SettleTimes,
  signal: AbortSignal,
  pending: readonly PendingName[] | null = null,
): Promise<Settlement> {
  const beganAt = performance.now();
  const wait = { interval, times, beganAt, deadline: beganAt + times.patienceMs, signal };
  const settlement = await (pending === null
    ? beginWait(servers, wait)
    : goOnWaiting(servers, pending, wait));
  return { ...settlement, leftMs: timeLeft(servers, settlement, wait) };
}

/** Not at all for what another one has waited for in vain. */
function timeLeft(
  { source, primary }: SettledServers,
  { pending, reason }: Settlement,
  { times: { allowedMs, waitedMs }, beganAt }: Wait,
): number {
  const at = markValue(pending, 'at');
  const isVain = (name: PendingName) =>
    [source, primary].some((server) => server?.longWaits.isLong(name, at, allowedMs));
  const mayEnd =
    reason === 'clock' ||
    reason === 'replay' ||
    pending.some((name) => isTransaction(name) && !isVain(name));
  return mayEnd ? Math.max(0, allowedMs - waitedMs - (performance.now() - beganAt)) : 0;
}

function beginWait(
  { source, primary, allowsStandby }: SettledServers,
  wait: Wait,
): Promise<Settlement> {
  return source.hold(async () => {
    const first = await source.look(wait.signal);
    if (!first.isStandby) return settleWriter(source, first, wait);
    if (primary === null) {
      if (!allowsStandby) throw new SluiceError('source.standby');
      return unsettled('standby', [standby]);
    }
    return primary.hold(() => settleStandby({ source, primary }, wait));
  });
}

async function settleStandby(
  { source, primary }: { readonly source: SharedServer; readonly primary: SharedServer },
  wait: Wait,
): Promise<Settlement> {
  const { times, deadline, signal } = wait;
  const fault = await withBoth(source, primary, signal, findPrimaryFault);
  if (fault !== null) throw new SluiceError('source.standby', fault);
  const first = await primary.look(signal);
  const { serverStart, isStandby } = first;
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

/** Names mean nothing at another server, another start of it or a promoted standby: there the wait begins anew. */
async function goOnWaiting(
  servers: SettledServers,
  pending: readonly PendingName[],
  wait: Wait,
): Promise<Settlement> {
  const { source, primary, allowsStandby } = servers;
  const { signal, times } = wait;
  const beginAnew = () => beginWait(servers, wait);
  const isUnknown =
    pending.length === 0 || pending.some((name) => name === unlisted || name === standby);
  if (isUnknown) return beginAnew();
  const at = markValue(pending, 'at');
  const isOther = ({ serverStart }: Look) => at !== null && serverStart !== at;
  const leftAt = (server: SharedServer, look: Look) => {
    const names = leftOf(pending, look, wait);
    if (times.waitedMs > 0)
      server.longWaits.note(names.filter(isTransaction), look, times.waitedMs);
    return names;
  };
  const say = (look: Look, settlement: Settlement): Settlement => {
    const blockers = describeBlockers(look, settlement.pending);
    return { ...named(settlement, look.serverStart), blockers };
  };
  return source.hold(async () => {
    const look = await source.look(signal);
    if (!look.isStandby) {
      if (isOther(look) || markValue(pending, 'replay') !== null) return beginAnew();
      return { ...say(look, conclude(leftAt(source, look))), server: look.serverStart };
    }
    if (primary === null) {
      if (!allowsStandby) throw new SluiceError('source.standby');
      return unsettled('standby', pending);
    }
    return primary.hold(async () => {
      const seen = await primary.look(signal);
      if (isOther(seen)) return beginAnew();
      const names = leftAt(primary, seen);
      if (names.some(isTransaction)) return say(seen, conclude(names));
      const position =
        markValue(names, 'replay') ?? (await positionOf(primary, seen.serverStart, signal));
      const others = names.filter((name) => markValue([name], 'replay') === null);
      if (!(await canSee(source, primary, position, signal))) {
        return say(seen, unsettled('replay', [...others, replayOf(position)]));
      }
      return { ...say(seen, conclude(others)), position };
    });
  });
}

function conclude(pending: readonly PendingName[]): Settlement {
  if (pending.length === 0) return settledNow;
  return unsettled(pending.some(isTransaction) ? 'transactions' : 'unseen', pending);
}

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

/** As long as a run waits, the time for what its role does not see begins anew. */
function leftOf(
  pending: readonly PendingName[],
  look: Look,
  { interval: { end }, times: { waitedMs, unseenMs } }: Wait,
): readonly PendingName[] {
  return stillPending(pending, liveAt(look, end)).flatMap((name) => {
    if (markValue([name], 'at') !== null) return [];
    const until = markValue([name], 'unseen');
    if (until === null) return [name];
    if (waitedMs > 0) return [unseenUntil(look.nowMs + unseenMs)];
    return Number(until) > look.nowMs ? [name] : [];
  });
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

async function settleWriter(server: SharedServer, first: Look, wait: Wait): Promise<Settlement> {
  const { interval, times, signal } = wait;
  const lookAgain = async () => checkSame(first, await server.look(signal));
  let look = await waitForClock(first, lookAgain, wait);
  if (look === null) return unsettled('clock', [unlisted]);
  if (times.onlyEnd) return { ...settledNow, server: first.serverStart };
  // `now()` is taken a moment before anything is visible: a look one poll after the end shows what was between the two then.
  const hiddenMs = interval.end + times.pollMs - look.nowMs;
  if (hiddenMs > 0) {
    await delay(hiddenMs, undefined, { signal });
    look = await lookAgain();
  }
  const { left, live, blockers } = await waitForTransactions(server, look, lookAgain, wait);
  const pending = live.hasUnseen ? [...left, unseenUntil(live.nowMs + times.unseenMs)] : left;
  const { serverStart } = first;
  return { ...named(conclude(pending), serverStart), server: serverStart, blockers };
}

/**
 * A transaction that is not alive at another server may be alive here.
 * @throws SluiceError `source.unavailable` if a look is at another server, or at another start of it
 */
function checkSame(first: Look, look: Look): Look {
  if (look.serverStart === first.serverStart) return look;
  throw new SluiceError('source.unavailable', 'another server answers than before');
}

type LookAgain = () => Promise<Look>;

/** Null if its clock has not passed the end by the deadline, or cannot by then and the run may come back later. */
async function waitForClock(
  first: Look,
  lookAgain: LookAgain,
  { interval: { end }, times, deadline, signal }: Wait,
): Promise<Look | null> {
  const { allowedMs, patienceMs, pollMs, waitedMs } = times;
  const comesBack = patienceMs < allowedMs - waitedMs;
  for (let look = first; ; look = await lookAgain()) {
    const { nowMs } = look;
    if (nowMs >= end) return look;
    const leftMs = deadline - performance.now();
    if (leftMs <= 0 || (comesBack && end - nowMs > leftMs)) return null;
    // The clock may be changed meanwhile, so it is read again, more often near the end.
    const pauseMs = Math.min(Math.max(end - nowMs, firstPollMs), 20 * pollMs, leftMs);
    await delay(pauseMs, undefined, { signal });
  }
}

/** Of the first look, and until no session executes older messages. Nothing is waited for in vain twice. */
async function waitForTransactions(
  server: SharedServer,
  first: Look,
  lookAgain: LookAgain,
  { interval, times: { patienceMs, pollMs, waitedMs }, beganAt, deadline, signal }: Wait,
): Promise<{
  readonly left: readonly PendingName[];
  readonly live: Live;
  readonly blockers: readonly string[];
}> {
  const { longWaits } = server;
  let look = first;
  let readers: ReadonlySet<number> | null = null;
  const readLive = () => {
    const reading = findReading(look, readers ?? new Set(), longWaits.readingAt(look));
    return { live: liveAt(look, interval.end, reading), names: namesOfProcesses(look, reading) };
  };
  let { live } = readLive();
  let names: readonly PendingName[] = [...namesOf(live, interval.start), ...sessionsOf(live)];
  const fromFirst = new Set(names.map(baseOf));
  let clean = 0;
  for (let pauseMs = firstPollMs; ; pauseMs *= 2) {
    const isWaited = names.some((name) => !longWaits.isLong(name, look.serverStart, patienceMs));
    clean = isWaited ? 0 : clean + 1;
    const leftMs = deadline - performance.now();
    const givesUp = clean === 0 && leftMs <= 0;
    if (givesUp && patienceMs > 0) {
      const long = names.filter((name) => fromFirst.has(baseOf(name)));
      longWaits.note(long, look, waitedMs + performance.now() - beganAt);
    }
    if (givesUp || clean === cleanLooks) {
      return { left: names, live, blockers: describeBlockers(look, names) };
    }
    if (isWaited && readers === null && pauseMs >= pollMs) {
      // Not before: most transactions are short.
      readers = await server
        .use(signal, (client, patience) => findReaders(client, look, patience))
        .catch(() => new Set<number>());
      longWaits.noteReading([...readLive().names].filter(isVirtualId), look);
    }
    const joins = clean === 0 && leftMs > pollMs && (pauseMs >= pollMs || server.hasBeat);
    const longest = clean > 0 ? firstPollMs : Math.min(pauseMs, pollMs, leftMs);
    await (joins ? server.pause(signal) : delay(longest, undefined, { signal }));
    look = await lookAgain();
    const seen = readLive();
    live = seen.live;
    names = names.filter((name) => !seen.names.has(baseOf(name)));
    const bases = new Set(names.map((name) => name.split('>')[0]));
    // One that only stirs now has no time from before the end: the first look would show it.
    const others = [...live.sessions].filter(([name, { isOlder }]) => isOlder && !bases.has(name));
    names = [...stillPending(names, live), ...sessionsOf({ ...live, sessions: new Map(others) })];
  }
}

const isVirtualId = (name: PendingName): boolean => /^\d+\/\d+$/.test(name);
