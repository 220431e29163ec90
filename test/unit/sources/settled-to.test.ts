/** Which other intervals have settled with one, and what those that follow need not look for. */

import { setImmediate } from 'node:timers/promises';
import type pg from 'pg';
import { describe, expect, test } from 'vitest';
import { type Look, liveAt } from '../../../src/rows/sources/postgres/live-transactions.ts';
import { recallSettled, renewSettled } from '../../../src/rows/sources/postgres/recall-settled.ts';
import { settleInterval } from '../../../src/rows/sources/postgres/settle.ts';
import { SharedServer } from '../../../src/rows/sources/postgres/shared-server.ts';

const never = new AbortController().signal;
const nowMs = Date.parse('2024-03-10T00:00:00Z');
const end = Date.parse('2024-03-01T01:00:00Z');
const interval = { start: end - 3_600_000, end };
const times = { pollMs: 1, unseenMs: 1_000 };
/** Before all looks. */
const requestedAt = { process: 0, database: 0 };

const quiet: Look = {
  nowMs,
  isStandby: false,
  serverStart: '1',
  nextId: '100',
  sessions: [],
  locks: [],
  storePids: [],
  prepared: [],
};

/** A session between two transactions of one message, which began at `at`. */
const between = (at: number): Look => ({
  ...quiet,
  sessions: [
    {
      pid: 7,
      xid: null,
      startedAt: 1,
      counts: true,
      hidden: false,
      sameRole: false,
      isAtWork: true,
      transactionAt: null,
      messageAt: at * 1_000,
      isStirring: false,
    },
  ],
});

/** A server that shows one look after the other, the last one again and again; `seen` counts them. */
function serverOf(looks: readonly Look[], now?: () => number) {
  const left = [...looks];
  let seen = 0;
  const socket = { ref() {}, unref() {}, destroyed: true };
  const client = {
    connection: { stream: socket },
    once() {},
    query: async () => ({
      rows: [{ ...(left.length > 1 ? left.shift() : left[0]), earlier: [] }],
    }),
    end: async () => {},
  };
  const source = new SharedServer({
    connect: async () => client as unknown as pg.Client,
    pollMs: 1,
    keepMs: 60_000,
    patienceMs: 1_000,
    onLook: () => {
      seen += 1;
    },
    ...(now && { now }),
  });
  return {
    source,
    seen: () => seen,
    settle: (timeoutMs = 1_000) =>
      settleInterval(
        { source, primary: null, allowsStandby: false },
        interval,
        { ...times, timeoutMs },
        never,
        requestedAt.database,
      ),
  };
}

async function settle(...looks: readonly Look[]): Promise<(end: number) => boolean> {
  const { source, settle: settleOnce } = serverOf(looks);
  expect((await settleOnce()).settled).toBe(true);
  return (other) =>
    source.memory.settledAt({ start: other - 1_000, end: other }, requestedAt) === '1';
}

test('what settled at one server is not recalled for another one that a pooler leads to since', async () => {
  const { source, settle: settleOnce } = serverOf([quiet, quiet, { ...quiet, serverStart: '2' }]);
  await settleOnce();
  await source.look(never);
  expect(source.serverStart).toBe('2');
  const servers = { source, primary: null, allowsStandby: false };
  expect(recallSettled(servers, interval, requestedAt)).toMatchObject({ server: '1' });
});

describe('a proof that will soon be too old', () => {
  /** Asked for by our database's clock. */
  const renewedAt = 5;
  const renewal = (looks: readonly Look[], now: () => number) => {
    const server = serverOf(looks, now);
    const servers = { source: server.source, primary: null, allowsStandby: false };
    return {
      ...server,
      recall: (from = requestedAt) => recallSettled(servers, interval, from),
      renew: () => renewSettled(servers, interval, { ...times, timeoutMs: 1_000 }, renewedAt),
    };
  };

  test('is found once more by a wait that relies on nothing, for runs of later requests too', async () => {
    let now = 0;
    const { settle, renew, recall, seen } = renewal([quiet], () => now);
    await settle();
    now = 499;
    await renew();
    expect(seen()).toBe(2);
    now = 500;
    const first = renew();
    while (seen() < 3) await setImmediate();
    // Another one meanwhile looks no more.
    await renew();
    await first;
    expect(seen()).toBe(4);
    now = 1_500;
    expect(recall({ process: 0, database: renewedAt })).toMatchObject({ settled: true });
    expect(recall({ process: 0, database: renewedAt + 1 })).toBe(null);
    now = 1_501;
    expect(recall()).toBe(null);
  });

  test('stays as it is if a transaction is open, which is not given up for others', async () => {
    let now = 0;
    const server = renewal([quiet, quiet, open(7, end - 1)], () => now);
    await server.settle();
    now = 600;
    await server.renew();
    expect(server.recall()).toMatchObject({ settled: true });
    now = 1_001;
    expect(server.recall()).toBe(null);
    const before = server.seen();
    expect(await server.settle(20)).toMatchObject({ settled: false, reason: 'transactions' });
    expect(server.seen() - before).toBeGreaterThan(2);
  });

  test('is not found if the server was started again, or does not answer', async () => {
    let now = 0;
    const server = renewal([quiet, quiet, quiet, { ...quiet, serverStart: '2' }], () => now);
    await server.settle();
    now = 600;
    await server.renew();
    now = 1_001;
    expect(server.recall()).toBe(null);
  });
});

test('a look counts from one poll after the end, when every time before the end is visible', async () => {
  const looksAt = async (at: number) => {
    const server = serverOf([{ ...quiet, nowMs: at }]);
    await server.settle();
    return server.seen();
  };
  expect(await looksAt(end + times.pollMs - 1)).toBe(3);
  expect(await looksAt(end + times.pollMs)).toBe(2);
});

test('with an interval of long ago all have settled that ended a minute before the first look', async () => {
  const covers = await settle(quiet);
  expect(covers(end)).toBe(true);
  expect(covers(nowMs - 60_000)).toBe(true);
  expect(covers(nowMs - 59_999)).toBe(false);
});

test('a session that a later interval would wait for keeps that one from being settled', async () => {
  const covers = await settle(quiet, between(end + 5_000), quiet);
  expect(covers(end)).toBe(true);
  expect(covers(end + 5_001)).toBe(false);
  const later = await settle(between(nowMs - 59_000), quiet);
  expect(later(nowMs - 60_000)).toBe(true);
});

test('what was waited for before the last looks does not matter', async () => {
  const covers = await settle(between(end - 1), between(end - 1), quiet);
  expect(covers(nowMs - 60_000)).toBe(true);
});

/** A transaction with a virtual id, whose session shows it or, if `at` is null, nothing. */
const open = (
  pid: number,
  at: number | null,
  shows: Partial<Look['sessions'][number]> = {},
): Look => ({
  ...quiet,
  sessions: between(0).sessions.map((session) => ({
    ...session,
    ...{ pid, messageAt: null, transactionAt: at === null ? null : at * 1_000, ...shows },
  })),
  locks: [{ id: '3/45', pid, own: false }],
});

test('for a second the next wait needs one look, which shows what was open at its request', async () => {
  let now = 0;
  const writer = open(7, nowMs - 5);
  const server = serverOf([quiet, quiet, quiet, writer, writer, quiet], () => now);
  await server.settle();
  expect(server.seen()).toBe(2);
  await server.settle();
  expect(server.seen()).toBe(3);
  await server.settle();
  expect(server.seen()).toBe(6);
  now = 1_001;
  await server.settle();
  expect(server.seen()).toBe(8);
});

test('at another start of the server the next wait needs two looks', async () => {
  const restarted = { ...quiet, serverStart: '2' };
  const server = serverOf([quiet, quiet, restarted], () => 0);
  await server.settle();
  await server.settle();
  expect(server.seen()).toBe(4);
});

describe('a session to our own tables', () => {
  const ours = (look: Look): Look => ({ ...look, storePids: [7] });
  const looksFor = async (look: Look) => {
    const server = serverOf([look, quiet]);
    await server.settle();
    return server.seen();
  };

  test('is not waited for, others are', async () => {
    const newer = open(7, end);
    expect(await looksFor(newer)).toBe(3);
    expect(await looksFor(ours(newer))).toBe(2);
    expect(await looksFor(ours({ ...newer, sessions: [] }))).toBe(2);
    expect(await looksFor({ ...ours(newer), storePids: [8] })).toBe(3);
  });

  test.each([
    ['a transaction from before the end', open(7, end - 1)],
    ['a message from before the end', open(7, end, { messageAt: (end - 1) * 1_000 })],
  ])('is waited for with %s', async (_, look) => {
    expect(await looksFor(ours(look))).toBe(3);
  });

  test('is waited for with a message that it does not show yet, until a minute after the end', () => {
    const stirring = open(7, null, { isStirring: true });
    const counts = (look: Look, at: number) => {
      const live = liveAt(look, at);
      return [live.sessions.size, live.virtual.size];
    };
    expect(counts(ours(stirring), nowMs - 59_999)).toEqual([1, 1]);
    expect(counts(ours(stirring), nowMs - 60_000)).toEqual([0, 0]);
    expect(counts(stirring, end)).toEqual([1, 1]);
  });

  test('is waited for if its times are not visible', async () => {
    const server = serverOf([ours(open(7, null, { hidden: true }))]);
    expect((await server.settle(0)).pending).toContain('3/45>100');
  });
});
