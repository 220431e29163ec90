/** One wait for an interval, and the next one that goes on with what it left: looks by look. */

import type pg from 'pg';
import { describe, expect, test } from 'vitest';
import { type Look, liveAt } from '../../../src/rows/sources/postgres/live-transactions.ts';
import { LongWaits } from '../../../src/rows/sources/postgres/shared-server.ts';
import { type SettleTimes, settleInterval } from '../../../src/rows/sources/postgres/settle.ts';
import { SharedServer } from '../../../src/rows/sources/postgres/shared-server.ts';

const never = new AbortController().signal;
const nowMs = Date.parse('2024-03-10T00:00:00Z');
const end = Date.parse('2024-03-01T01:00:00Z');
const interval = { start: end - 3_600_000, end };
const unseenMs = 1_000;

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

const session = {
  pid: 7,
  xid: null,
  startedAt: 1,
  counts: true,
  hidden: false,
  sameRole: false,
  isAtWork: true,
  transactionAt: null,
  messageAt: null,
  isStirring: false,
};

/** A session between two transactions of one message, which began at `at`. */
const between = (at: number): Look => ({
  ...quiet,
  sessions: [{ ...session, messageAt: at * 1_000 }],
});

/** A transaction with a virtual id, whose session shows it or, if `at` is null, nothing. */
const open = (
  pid: number,
  at: number | null,
  shows: Partial<Look['sessions'][number]> = {},
): Look => ({
  ...quiet,
  sessions: [{ ...session, pid, transactionAt: at === null ? null : at * 1_000, ...shows }],
  locks: [{ id: `3/${pid}`, pid, own: false }],
});

const stirring = (pid: number): Look => open(pid, null, { isStirring: true });

/** What several looks show at once. */
const both = (one: Look, other: Look): Look => ({
  ...one,
  sessions: [...one.sessions, ...other.sessions],
  locks: [...one.locks, ...other.locks],
});

/** A server that shows one look after the other, the last one again and again; `seen` counts them. */
function serverOf(looks: readonly Look[], readers: readonly number[] = []) {
  const left = [...looks];
  let seen = 0;
  let asked = 0;
  const socket = { ref() {}, unref() {}, destroyed: true };
  const client = {
    connection: { stream: socket },
    once() {},
    query: async (statement: string | { readonly text: string }) => {
      const text = typeof statement === 'string' ? statement : statement.text;
      if (text.includes('rolsuper')) {
        asked += 1;
        return { rows: readers.map((role) => ({ role })) };
      }
      return { rows: [{ ...(left.length > 1 ? left.shift() : left[0]), earlier: [] }] };
    },
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
  });
  return {
    source,
    seen: () => seen,
    /** How often it was asked which roles can write nothing. */
    asked: () => asked,
    settle: (
      patienceMs = 1_000,
      times: Partial<SettleTimes> = {},
      pending: readonly string[] | null = null,
    ) =>
      settleInterval(
        { source, primary: null, allowsStandby: false },
        interval,
        { pollMs: 1, unseenMs, waitedMs: 0, allowedMs: 60_000, patienceMs, ...times },
        never,
        pending,
      ),
  };
}

async function looksFor(...looks: readonly Look[]): Promise<number> {
  const server = serverOf(looks);
  expect((await server.settle()).settled).toBe(true);
  return server.seen();
}

test('a look counts from one poll after the end, when every time before the end is visible', async () => {
  expect(await looksFor({ ...quiet, nowMs: end })).toBe(3);
  expect(await looksFor({ ...quiet, nowMs: end + 1 })).toBe(2);
});

test('every wait looks twice, whatever another has found before', async () => {
  const server = serverOf([quiet]);
  await server.settle();
  await server.settle();
  expect(server.seen()).toBe(4);
});

test('two looks in a row must show nothing from before the end; what only stirs later is no reason', async () => {
  expect(await looksFor(quiet, between(end - 1), quiet)).toBe(4);
  expect(await looksFor(between(end - 1), between(end - 1), quiet)).toBe(4);
  expect(await looksFor(quiet, stirring(7))).toBe(2);
  expect(await looksFor(stirring(7), quiet)).toBe(3);
  // It was open at the first look, so it may write rows with any time.
  expect(await looksFor(open(7, nowMs - 5), quiet)).toBe(3);
});

test('a clock that cannot pass the end soon is not waited for if the run may come back', async () => {
  const behind = { ...quiet, nowMs: end - 60_000 };
  const server = serverOf([behind]);
  const found = await server.settle(10_000);
  expect(found).toMatchObject({ settled: false, reason: 'clock', pending: ['unlisted'] });
  expect(found.leftMs).toBeGreaterThan(50_000);
  expect(server.seen()).toBe(1);
  // The last wait lasts as long as it may.
  const last = await server.settle(500, { allowedMs: 500 });
  expect(last).toMatchObject({ reason: 'clock', leftMs: 0 });
  expect(server.seen()).toBeGreaterThan(2);
});

describe('a run that has waited shortly', () => {
  const writer = open(7, end - 1);

  test('may wait longer, and one look at what it named is enough', async () => {
    const server = serverOf([writer]);
    const first = await server.settle(20);
    expect(first).toMatchObject({ settled: false, reason: 'transactions', server: '1' });
    expect(first.pending).toEqual(['3/7>100', 'session:7:1>100', 'at:1']);
    expect(first.leftMs).toBeGreaterThan(59_000);
    const before = server.seen();
    const second = await server.settle(1_000, { waitedMs: 30_000 }, first.pending);
    expect(second).toMatchObject({ settled: false, pending: first.pending });
    expect(second.leftMs).toBeLessThanOrEqual(30_000);
    expect(server.seen() - before).toBe(1);
    expect(await server.settle(0, { waitedMs: 60_000 }, first.pending)).toMatchObject({
      leftMs: 0,
    });
  });

  test('waits for nothing that began since', async () => {
    const server = serverOf([both(open(8, nowMs - 1), between(end - 1))]);
    const found = await server.settle(1_000, { waitedMs: 1_000 }, ['3/9>100', 'at:1']);
    expect(found).toMatchObject({ settled: true, pending: [], server: '1', leftMs: 0 });
  });

  test('begins anew at another start of the server', async () => {
    const server = serverOf([{ ...quiet, serverStart: '2' }]);
    const found = await server.settle(1_000, { waitedMs: 1_000 }, ['3/7>100', 'at:1']);
    expect(found).toMatchObject({ settled: true, server: '2' });
    expect(server.seen()).toBe(3);
  });

  test('does not begin at a standby without its primary, which a look-back may look at', async () => {
    const server = serverOf([{ ...quiet, isStandby: true }]);
    const again = server.settle(1_000, { waitedMs: 1_000 }, ['3/7>100', 'at:1']);
    await expect(again).rejects.toMatchObject({ code: 'source.standby' });
  });

  test('does not begin the time for what its role does not see before it has waited for the rest', async () => {
    const hidden = open(7, null, { hidden: true });
    const server = serverOf([hidden]);
    const first = await server.settle(20);
    expect(first.pending).toEqual(['3/7>100', `unseen:${nowMs + unseenMs}`, 'at:1']);
    const later = { ...hidden, nowMs: nowMs + 10 * unseenMs };
    const names = ['3/7>100', `unseen:${nowMs + 11 * unseenMs}`, 'at:1'];
    const again = serverOf([later, { ...later, locks: [] }]);
    const waits = (waitedMs: number) => again.settle(20, { waitedMs }, first.pending);
    expect((await waits(1_000)).pending).toEqual(names);
    expect(await waits(2_000)).toMatchObject({
      reason: 'unseen',
      pending: names.slice(1),
      leftMs: 0,
    });
    // A look-back has begun it already.
    expect(await waits(0)).toMatchObject({ settled: true });
  });
});

describe('what another interval has waited for', () => {
  test('as long as this one may wait now is not waited for now', async () => {
    const server = serverOf([open(7, end - 1)]);
    await server.settle(100);
    const before = server.seen();
    const next = await server.settle(100);
    expect(server.seen() - before).toBe(2);
    expect(next.leftMs).toBeGreaterThan(59_000);
    // Longer is.
    const after = server.seen();
    await server.settle(200);
    expect(server.seen() - after).toBeGreaterThan(2);
  });

  test('in vain is given up by all, also by those that came back', async () => {
    const server = serverOf([open(7, end - 1)]);
    const { pending } = await server.settle(20);
    await server.settle(0, { waitedMs: 60_000 }, pending);
    expect(await server.settle(1_000)).toMatchObject({ settled: false, leftMs: 0 });
    expect(await server.settle(0, { waitedMs: 2_000 }, pending)).toMatchObject({ leftMs: 0 });
  });

  test('and only reads is asked once, as long as its transaction is open', async () => {
    const dump = open(7, end - 1, { role: 5 });
    const server = serverOf([dump], [5]);
    expect((await server.settle()).settled).toBe(true);
    expect((await server.settle()).settled).toBe(true);
    expect(server.asked()).toBe(1);
    const other = serverOf([dump, dump, dump, both(dump, open(8, end - 1, { role: 5 }))], [5]);
    await other.settle();
    expect(await other.settle()).toMatchObject({ settled: true });
    expect(other.asked()).toBe(2);
    // Now it has written.
    const wrote = serverOf(
      [dump, dump, dump, { ...dump, sessions: [{ ...session, role: 5, xid: '90' }] }],
      [5],
    );
    await wrote.settle();
    expect(await wrote.settle(20)).toMatchObject({ settled: false });
  });

  test('is known under all its names, until it ends or the server starts again', () => {
    const waits = new LongWaits();
    const look = open(7, end - 1);
    waits.note(['3/7>90', 'prepared:7'], look, 500);
    waits.note(['3/7>90'], look, 400);
    expect(waits.isLong('3/7:91', '1', 500)).toBe(true);
    expect(waits.isLong('3/7:91', '1', 501)).toBe(false);
    expect(waits.isLong('prepared:7', '1', 500)).toBe(true);
    expect(waits.isLong('3/8:91', '1', 0)).toBe(false);
    expect(waits.isLong('3/7:91', '2', 500)).toBe(false);
    waits.prune(open(8, end - 1));
    expect(waits.isLong('3/7:91', '1', 500)).toBe(false);
    expect(waits.isLong('prepared:7', '1', 500)).toBe(true);
    waits.note([], { ...look, serverStart: '2' }, 0);
    expect(waits.isLong('prepared:7', '1', 500)).toBe(false);
  });
});

describe('a session to our own tables', () => {
  const ours = (look: Look): Look => ({ ...look, storePids: [7] });

  test('is not waited for, others are', async () => {
    const newer = open(7, end);
    expect(await looksFor(newer, quiet)).toBe(3);
    expect(await looksFor(ours(newer), quiet)).toBe(2);
    expect(await looksFor(ours({ ...newer, sessions: [] }), quiet)).toBe(2);
    expect(await looksFor({ ...ours(newer), storePids: [8] }, quiet)).toBe(3);
  });

  test.each([
    ['a transaction from before the end', open(7, end - 1)],
    ['a message from before the end', open(7, end, { messageAt: (end - 1) * 1_000 })],
  ])('is waited for with %s', async (_, look) => {
    expect(await looksFor(ours(look), quiet)).toBe(3);
  });

  test('is waited for with a message that it does not show yet, until a minute after the end', () => {
    const counts = (look: Look, at: number) => {
      const live = liveAt(look, at);
      return [live.sessions.size, live.virtual.size];
    };
    expect(counts(ours(stirring(7)), nowMs - 59_999)).toEqual([1, 1]);
    expect(counts(ours(stirring(7)), nowMs - 60_000)).toEqual([0, 0]);
    expect(counts(stirring(7), end)).toEqual([1, 1]);
  });

  test('is waited for if its times are not visible', async () => {
    const server = serverOf([ours(open(7, null, { hidden: true }))]);
    expect((await server.settle(0)).pending).toContain('3/7>100');
  });
});
