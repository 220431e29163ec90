import { expect, test } from 'vitest';
import type { Look } from '../../../src/rows/sources/postgres/live-transactions.ts';
import type { Live } from '../../../src/rows/sources/postgres/pending.ts';
import { SettleMemory } from '../../../src/rows/sources/postgres/settle-memory.ts';

const live = (...preparedAtMs: number[]): Live => ({
  nowMs: 10_000,
  nextId: 100n,
  virtual: new Map(),
  sessions: new Map(),
  hasUnseen: false,
  prepared: new Map(preparedAtMs.map((at, index) => [BigInt(index), { preparedAtMs: at }])),
});

const lookOf = (serverStart: string, ...ids: string[]): Look => ({
  nowMs: 10_000,
  nextId: '100',
  isStandby: false,
  serverStart,
  sessions: [],
  locks: ids.map((id) => ({ id, pid: 1, own: false })),
  storePids: [],
  prepared: [],
});

const look = lookOf('one');

/** A time by both clocks. */
const at = (ms: number) => ({ process: ms, database: ms });

test('an interval is covered by one that ends with it or later, not by one that ends before', () => {
  const memory = new SettleMemory();
  expect(memory.settledAt({ start: 0, end: 1 }, at(10))).toBe(null);
  memory.noteSettled(5_000, live(), at(10), look);
  expect(memory.settledAt({ start: 4_500, end: 5_000 }, at(10))).toBe('one');
  expect(memory.settledAt({ start: 1_000, end: 4_000 }, at(10))).toBe('one');
  expect(memory.settledAt({ start: 4_500, end: 5_001 }, at(10))).toBe(null);
  memory.noteSettled(2_000, live(), at(10), look);
  expect(memory.settledAt({ start: 4_500, end: 5_000 }, at(10))).toBe('one');
  memory.forgetSettled();
  expect(memory.settledAt({ start: 4_500, end: 5_000 }, at(10))).toBe(null);
});

test('an interval is covered for a second only, and then one that ends earlier may settle anew', () => {
  let now = 0;
  const memory = new SettleMemory(() => now);
  memory.noteSettled(5_000, live(), at(10), look);
  now = 1_000;
  expect(memory.settledAt({ start: 4_000, end: 5_000 }, at(10))).toBe('one');
  now = 1_001;
  expect(memory.settledAt({ start: 4_000, end: 5_000 }, at(10))).toBe(null);
  memory.noteSettled(4_000, live(), at(10), look);
  expect(memory.settledAt({ start: 3_000, end: 4_000 }, at(10))).toBe('one');
});

test('an interval is covered only if its rows were asked for before the looks', () => {
  const memory = new SettleMemory();
  memory.noteSettled(5_000, live(), at(10), look);
  expect(memory.settledAt({ start: 4_000, end: 5_000 }, at(9))).toBe('one');
  expect(memory.settledAt({ start: 4_000, end: 5_000 }, at(11))).toBe(null);
});

test('a paused machine and a database whose clock was set back prove nothing', () => {
  const memory = new SettleMemory();
  memory.noteSettled(5_000, live(), at(1_000), look);
  const interval = { start: 4_000, end: 5_000 };
  // Paused for an hour after the look, and asked for half an hour later.
  expect(memory.settledAt(interval, { process: -1_800_000, database: 1_801_000 })).toBe(null);
  // Set back by an hour after the look.
  expect(memory.settledAt(interval, { process: 1_500, database: -3_600_000 })).toBe(null);
  expect(memory.settledAt(interval, { process: 900, database: 900 })).toBe('one');
  expect(memory.isPast(5_000, { ...look, nowMs: 11_000 })).toBe(true);
  expect(memory.isPast(5_000, { ...look, nowMs: 11_001 })).toBe(false);
  expect(memory.isPast(5_000, { ...look, nowMs: 8_999 })).toBe(false);
});

test('what a wait relied on is known for a second only, and what else it found covers more', () => {
  let now = 0;
  const memory = new SettleMemory(() => now);
  expect(memory.isPast(5_000, look)).toBe(false);
  memory.noteSettled(5_000, live(), at(10), look);
  expect(memory.isPast(5_000, look)).toBe(true);
  expect(memory.isPast(5_001, look)).toBe(false);
  expect(memory.isPast(5_000, lookOf('two'))).toBe(false);
  now = 600;
  memory.noteSettled(null, live(3_500), at(610), look);
  expect(memory.settledAt({ start: 4_000, end: 5_000 }, at(610))).toBe('one');
  expect(memory.settledAt({ start: 3_000, end: 5_000 }, at(610))).toBe(null);
  // A wait that began earlier ends later.
  memory.noteSettled(null, live(), at(20), look);
  expect(memory.settledAt({ start: 4_000, end: 5_000 }, at(610))).toBe('one');
  now = 1_001;
  expect(memory.isPast(5_000, look)).toBe(false);
  expect(memory.settledAt({ start: 4_000, end: 5_000 }, at(0))).toBe(null);
  memory.noteSettled(null, live(), at(1_000), look);
  expect(memory.isPast(5_000, look)).toBe(false);
});

test('a transaction that was prepared since an earlier interval began uncovers that one', () => {
  const memory = new SettleMemory();
  memory.noteSettled(5_000, live(3_500), at(10), look);
  expect(memory.settledAt({ start: 3_600, end: 4_000 }, at(10))).toBe('one');
  expect(memory.settledAt({ start: 3_500, end: 4_000 }, at(10))).toBe(null);
  expect(memory.settledAt({ start: 3_000, end: 4_000 }, at(10))).toBe(null);
});

test('a late transaction is known under all its names, until it ends or the server starts again', () => {
  const memory = new SettleMemory();
  const look = lookOf('one', '3/45');
  memory.noteLate(['3/45>90', 'prepared:7'], look);
  expect(memory.isLate('3/45:91', look)).toBe(true);
  expect(memory.isLate('prepared:7', look)).toBe(true);
  expect(memory.isLate('3/46:91', look)).toBe(false);
  expect(memory.isLate('3/45:91', lookOf('two', '3/45'))).toBe(false);
  memory.prune(lookOf('one', '3/46'));
  expect(memory.isLate('3/45:91', look)).toBe(false);
  expect(memory.isLate('prepared:7', look)).toBe(true);
});
