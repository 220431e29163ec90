/** Which other intervals have settled with one. */

import type pg from 'pg';
import { expect, test } from 'vitest';
import type { Look } from '../../../src/sources/postgres/live-transactions.ts';
import { settleInterval } from '../../../src/sources/postgres/settle.ts';
import { SharedServer } from '../../../src/sources/postgres/shared-server.ts';

const never = new AbortController().signal;
const nowMs = Date.parse('2024-03-10T00:00:00Z');
const end = Date.parse('2024-03-01T01:00:00Z');
const interval = { start: end - 3_600_000, end };
const times = { timeoutMs: 1_000, pollMs: 1, unseenMs: 1_000 };

const quiet: Look = {
  nowMs,
  isStandby: false,
  serverStart: '1',
  nextId: '100',
  sessions: [],
  locks: [],
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
      isAtWork: true,
      transactionAt: null,
      messageAt: at * 1_000,
      isStirring: false,
    },
  ],
});

/** A server that shows one look after the other, the last one again and again. */
function serverOf(...looks: readonly Look[]): SharedServer {
  const left = [...looks];
  const socket = { ref() {}, unref() {}, destroyed: true };
  const client = {
    connection: { stream: socket },
    once() {},
    query: async () => ({ rows: [left.length > 1 ? left.shift() : left[0]] }),
    end: async () => {},
  };
  return new SharedServer({
    connect: async () => client as unknown as pg.Client,
    pollMs: 1,
    keepMs: 0,
    patienceMs: 1_000,
    onLook: () => {},
  });
}

async function settle(...looks: readonly Look[]): Promise<(end: number) => boolean> {
  const source = serverOf(...looks);
  const requestedAt = performance.now();
  const settled = await settleInterval(
    { source, primary: null, allowsStandby: false },
    interval,
    times,
    never,
  );
  expect(settled.settled).toBe(true);
  return (other) => source.memory.covers({ start: other - 1_000, end: other }, requestedAt);
}

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
