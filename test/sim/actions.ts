/** The histories the simulator draws from. */

import fc from 'fast-check';
import type { Cadence } from '../../src/foundation/domain/cadence.ts';
import type { Settings } from '../../src/service/scheduling/schedule.ts';
import type { Outcome } from './faulty-database.ts';
import type { SourceChange } from './source.ts';
import type { Action } from './world.ts';

const minuteMs = 60_000;
export const exportCount = 2;

const cadence: fc.Arbitrary<Cadence> = fc.constantFrom(
  { interval: 'every 20 minutes', timezone: 'UTC', offsetDay: null, offsetHour: null },
  { interval: 'hour', timezone: 'UTC', offsetDay: null, offsetHour: null },
  { interval: 'day', timezone: 'America/Havana', offsetDay: null, offsetHour: 0 },
);

const outcome: fc.Arbitrary<Outcome> = fc.oneof(
  { weight: 8, arbitrary: fc.constant<Outcome>('done') },
  { weight: 1, arbitrary: fc.constant<Outcome>('lost') },
  { weight: 1, arbitrary: fc.constant<Outcome>('unheard') },
);
const whichExport = fc.nat({ max: exportCount - 1 });
const pick = fc.nat({ max: 1000 });
const worker = fc.nat({ max: 2 });

/** Minutes mostly, so that leases run out in the middle of things; backwards at times. */
const wait = fc
  .oneof(
    { weight: 6, arbitrary: fc.integer({ min: 0, max: 25 }) },
    { weight: 2, arbitrary: fc.integer({ min: 30, max: 180 }) },
    { weight: 1, arbitrary: fc.integer({ min: -20, max: 0 }) },
  )
  .map((minutes) => ({ kind: 'wait' as const, ms: minutes * minuteMs }));

const sourceChange = fc.record({
  kind: fc.constant('source_changes' as const),
  change: fc.constantFrom<SourceChange>(
    'late',
    'late',
    'prune',
    'prune',
    'empty',
    'update',
    'restart',
  ),
  pick,
});

const action: fc.Arbitrary<Action> = fc.oneof(
  { weight: 8, arbitrary: wait },
  { weight: 8, arbitrary: fc.record({ kind: fc.constant('plan' as const), outcome }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('sweep' as const), outcome }) },
  {
    weight: 8,
    arbitrary: fc.record({ kind: fc.constant('dispatch' as const), slots: fc.nat(8), outcome }),
  },
  {
    weight: 12,
    arbitrary: fc.record({
      kind: fc.constant('deliver' as const),
      pick,
      twice: fc.boolean(),
      outcome,
    }),
  },
  {
    weight: 30,
    arbitrary: fc.record({
      kind: fc.constant('step' as const),
      worker,
      count: fc.integer({ min: 1, max: 5 }),
      outcome,
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('lose_job' as const), pick }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'flush_queue' as const }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('kill' as const), worker }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('shut_down' as const), worker }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('fault' as const),
      worker,
      isLasting: fc.oneof(
        { weight: 4, arbitrary: fc.constant(false) },
        { weight: 1, arbitrary: fc.constant(true) },
      ),
    }),
  },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('beat' as const), worker }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('beat_arrives' as const), pick }) },
  { weight: 6, arbitrary: sourceChange },
  { weight: 1, arbitrary: fc.constant({ kind: 'look_back' as const }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constantFrom('pause' as const, 'unpause' as const),
      export: whichExport,
      backfill: fc.boolean(),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('cadence' as const), export: whichExport, cadence }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('window' as const),
      export: whichExport,
      endsInMs: fc.option(fc.integer({ min: -60, max: 240 }).map((minutes) => minutes * minuteMs)),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('backfill' as const),
      export: whichExport,
      backMs: fc.integer({ min: 1, max: 180 }).map((minutes) => minutes * minuteMs),
      drops: fc.oneof(
        { weight: 4, arbitrary: fc.constant(false) },
        { weight: 1, arbitrary: fc.constant(true) },
      ),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('advance_backfill' as const), pick }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('cancel' as const), pick }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('zone_data' as const),
      export: whichExport,
      zone: fc.constantFrom('America/Havana', 'America/New_York', 'America/Bogota'),
    }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: 'retention' as const }) },
);

/** What is rare by chance and dangerous: several actions in a row, on which others follow. */
const motif: fc.Arbitrary<readonly Action[]> = fc.oneof(
  // A worker freezes before some step of its commit, and wakes after others have continued.
  fc
    .record({ worker, count: fc.integer({ min: 1, max: 3 }), minutes: fc.nat(25) })
    .map(({ worker: frozen, count, minutes }): readonly Action[] => [
      { kind: 'plan', outcome: 'done' },
      { kind: 'dispatch', slots: 8, outcome: 'done' },
      { kind: 'deliver', pick: 0, twice: false, outcome: 'done' },
      { kind: 'step', worker: frozen, count, outcome: 'done' },
      { kind: 'source_changes', change: 'late', pick: 0 },
      { kind: 'wait', ms: minutes * minuteMs },
      { kind: 'sweep', outcome: 'done' },
      { kind: 'dispatch', slots: 8, outcome: 'done' },
      { kind: 'deliver', pick: 0, twice: false, outcome: 'done' },
      { kind: 'step', worker: (frozen + 1) % 3, count: 5, outcome: 'done' },
      { kind: 'step', worker: (frozen + 2) % 3, count: 5, outcome: 'done' },
      { kind: 'step', worker: frozen, count: 2, outcome: 'done' },
    ]),
  // The clock of the database steps by more than a lease while workers commit, who then go on.
  fc
    .record({ worker, minutes: fc.integer({ min: 2, max: 10 }) })
    .map(({ worker: one, minutes }): readonly Action[] => [
      { kind: 'plan', outcome: 'done' },
      { kind: 'dispatch', slots: 8, outcome: 'done' },
      { kind: 'deliver', pick: 0, twice: false, outcome: 'done' },
      { kind: 'step', worker: one, count: 3, outcome: 'done' },
      { kind: 'wait', ms: minutes * minuteMs },
      { kind: 'sweep', outcome: 'done' },
      { kind: 'dispatch', slots: 8, outcome: 'done' },
      { kind: 'step', worker: one, count: 5, outcome: 'done' },
      { kind: 'deliver', pick: 0, twice: true, outcome: 'done' },
    ]),
  // New zone data comes between the days of an export, and days of before are exported again.
  fc
    .record({ export: whichExport, days: fc.integer({ min: 1, max: 3 }) })
    .map(({ export: one, days }): readonly Action[] => [
      { kind: 'wait', ms: days * 24 * 60 * minuteMs },
      { kind: 'plan', outcome: 'done' },
      { kind: 'zone_data', export: one, zone: 'America/Bogota' },
      { kind: 'backfill', export: one, backMs: days * 24 * 60 * minuteMs, drops: false },
      { kind: 'advance_backfill', pick: 0 },
    ]),
  // Rows come late to an interval that loses others, and look-backs find them while a worker is frozen.
  fc
    .record({ worker, pick, count: fc.integer({ min: 1, max: 4 }) })
    .map(({ worker: frozen, pick: which, count }): readonly Action[] => [
      { kind: 'source_changes', change: 'late', pick: which },
      { kind: 'source_changes', change: 'prune', pick: which },
      { kind: 'wait', ms: 6 * minuteMs },
      { kind: 'look_back' },
      { kind: 'dispatch', slots: 8, outcome: 'done' },
      { kind: 'deliver', pick: 0, twice: false, outcome: 'done' },
      { kind: 'step', worker: frozen, count, outcome: 'done' },
      { kind: 'source_changes', change: 'late', pick: which },
      { kind: 'wait', ms: 3 * minuteMs },
      { kind: 'sweep', outcome: 'done' },
      { kind: 'dispatch', slots: 8, outcome: 'done' },
      { kind: 'deliver', pick: 0, twice: false, outcome: 'done' },
      { kind: 'step', worker: (frozen + 1) % 3, count: 5, outcome: 'done' },
      { kind: 'step', worker: frozen, count: 3, outcome: 'done' },
    ]),
  // Intervals run again whose rows have left the source.
  fc
    .record({ export: whichExport, pick })
    .map(({ export: one, pick: which }): readonly Action[] => [
      { kind: 'source_changes', change: 'prune', pick: which },
      { kind: 'backfill', export: one, backMs: 180 * minuteMs, drops: false },
      { kind: 'advance_backfill', pick: 0 },
      ...[0, 1, 2].flatMap((worker): readonly Action[] => [
        { kind: 'dispatch', slots: 8, outcome: 'done' },
        { kind: 'deliver', pick: 0, twice: false, outcome: 'done' },
        { kind: 'step', worker, count: 5, outcome: 'done' },
      ]),
    ]),
  // A heartbeat is slower than the hand-back after it.
  worker.map((one): readonly Action[] => [
    { kind: 'beat', worker: one },
    { kind: 'shut_down', worker: one },
    { kind: 'beat_arrives', pick: 0 },
  ]),
);

const actions: fc.Arbitrary<readonly Action[]> = fc
  .array(
    fc.oneof(
      { weight: 30, arbitrary: action.map((one): readonly Action[] => [one]) },
      { weight: 1, arbitrary: motif },
    ),
    { maxLength: 100, size: 'max' },
  )
  .map((parts) => parts.flat());

export interface History {
  readonly createdAt: number;
  readonly settings: readonly Settings[];
  readonly actions: readonly Action[];
}

export const anyHistory: fc.Arbitrary<History> = fc.record({
  // Around both changes of clock of Havana in 2024, to the minute.
  createdAt: fc
    .record({
      base: fc.constantFrom(Date.UTC(2024, 2, 9), Date.UTC(2024, 10, 2)),
      minute: fc.nat({ max: 2880 }),
    })
    .map(({ base, minute }) => base + minute * minuteMs),
  settings: fc.array(
    fc.record({
      cadence,
      paused: fc.oneof(
        { weight: 4, arbitrary: fc.constant(false) },
        { weight: 1, arbitrary: fc.constant(true) },
      ),
      startAt: fc.constant(null),
      endAt: fc.constant(null),
    }),
    { minLength: exportCount, maxLength: exportCount },
  ),
  actions,
});
