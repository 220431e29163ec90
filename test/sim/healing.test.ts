/** What heals after outages, in virtual time, and, at night, changes of the code that these tests must find. */

import { expect, test } from 'vitest';
import type { ErrorCode } from '../../src/foundation/domain/errors.ts';
import { useStage } from '../support/use-stage.ts';
import {
  type Asked,
  type Mutant,
  openHealing,
  type Played,
  type Scenario,
  type World,
} from './healing-world.ts';

const side = useStage(openHealing);

const isDown = (now: number, from: number, to: number) => now >= from && now < to;

/** All stores fail from one hour to another. */
const storeAway =
  (from: number, to: number, code: ErrorCode = 'destination.unavailable'): World =>
  ({ at, now }) =>
    at === 'store' && isDown(now, from, to) ? code : null;
const sourceAway =
  (from: number, to: number): World =>
  ({ at, now }) =>
    at === 'source' && isDown(now, from, to) ? 'source.unavailable' : null;
const both =
  (...worlds: readonly World[]): World =>
  (asked) => {
    for (const world of worlds) {
      const code = world(asked);
      if (code !== null) return code;
    }
    return null;
  };

/** Nothing is missing, and no hand was needed. */
function expectHealed({ exports }: Played, hours: number): void {
  for (const { done, holes, paused } of exports) {
    expect({ done: done.size, holes, paused }).toEqual({ done: hours, holes: 0, paused: false });
  }
}

/** How often an export asks a place that fails, in the last hours of an outage. */
function expectFewRequests({ requests }: Played, from: number, to: number, most: number): void {
  const late = requests.filter(({ now }) => now >= from && now < to);
  const exports = new Set(late.map((one) => one.export)).size;
  expect(late.length).toBeLessThanOrEqual(Math.ceil(most * exports * (to - from)));
}

interface Outage extends Scenario {
  readonly name: string;
  /** Hours in which each export asks at most `most` times an hour. */
  readonly quiet?: readonly [number, number, number];
}

/** At night each has 500 exports: about a quarter of an hour on a machine that does nothing else. */
const outages: readonly Outage[] = [
  {
    name: 'store and source, and the source is back first',
    world: both(storeAway(1.5, 4), sourceAway(2, 3)),
    ...{ hours: 6, exportCount: 4 },
  },
  {
    name: 'their store for a day',
    ...{ world: storeAway(1.5, 25), hours: 27, exportCount: 3, quiet: [20, 25, 1.1] },
  },
  {
    name: 'their store for a day, 500 exports',
    ...{ world: storeAway(1, 25), hours: 28, exportCount: 500, quiet: [21, 25, 1] },
  },
  {
    name: 'their credentials, which were repaired a day later',
    world: storeAway(1, 9, 'destination.invalid_credentials'),
    ...{ hours: 12, exportCount: 500 },
  },
  {
    name: 'their source for 3 hours',
    ...{ world: sourceAway(1.5, 4), hours: 7, exportCount: 500 },
  },
  {
    name: 'their source for a day, with look-backs',
    ...{
      world: sourceAway(1, 25),
      hours: 28,
      exportCount: 20,
      looksBack: true,
      quiet: [21, 25, 2.5],
    },
  },
  {
    name: 'store and source, and the store is back first',
    ...{ world: both(storeAway(2, 4), sourceAway(1, 7)), hours: 10, exportCount: 500 },
  },
  {
    name: 'their store, and our own database in the middle of that',
    ...{ world: storeAway(1, 7), away: { from: 3, to: 5 }, hours: 11, exportCount: 500 },
  },
];

test.each(outages.map((outage) => [outage.name, outage] as const))(
  'hourly exports heal without a hand after the loss of %s',
  async (_name, outage) => {
    const played = await side.play(outage);
    expectHealed(played, outage.hours);
    if (outage.quiet) expectFewRequests(played, ...outage.quiet);
  },
  3_600_000,
);

/** One property of healing: what is played, and what must be true afterwards. */
interface Property extends Scenario {
  readonly name: string;
  readonly check: (played: Played) => void;
  /** Changes of the code with which it must not be true, tried at night. */
  readonly mutants: Readonly<Record<string, Mutant>>;
}

/** When the last of an export's intervals before `hour` arrived. */
const arrived = ({ exports }: Played, number: number, hours: readonly number[]): number =>
  Math.max(...hours.map((hour) => exports[number]?.done.get(hour) ?? Number.POSITIVE_INFINITY));

const range = (from: number, to: number): readonly number[] =>
  Array.from({ length: to - from }, (_, index) => from + index);

const tries = ({ attempts }: Played, number: number, hour: number): number =>
  attempts.filter((one) => one.export === number && one.hour === hour).length;

const properties: readonly Property[] = [
  {
    name: 'an export waits for its own store and source, and for those of no other',
    // The second export's source dies for good while the bucket of both is unreachable. No tick comes after the outage.
    world: both(storeAway(1, 4), ({ at, now, export: number }) =>
      at === 'source' && number === 1 && now > 2 ? 'source.unavailable' : null,
    ),
    ...{ hours: 8, exportCount: 2, endsAt: 4 },
    check: (played) => {
      expect(arrived(played, 0, range(0, 4))).toBeLessThan(4.6);
      expect(played.exports[1]?.holes).toBeGreaterThan(0);
    },
    mutants: {
      'a success does not end the wait': {
        text: /heal_failures = case when exists[\s\S]*?then e\.heal_after end/,
        becomes:
          'failing_since = null, exhausted_since = null, failing_code = null, failing_error = null',
      },
    },
  },
  {
    name: 'a throttled prefix of one export keeps no other from its bucket',
    // The first export is throttled for good, the second for a while. No tick comes after that.
    world: ({ at, export: number, now }) =>
      at === 'store' && (number === 0 || isDown(now, 1.5, 3)) ? 'destination.throttled' : null,
    ...{ hours: 6, exportCount: 2, endsAt: 2 },
    check: (played) => {
      expect(arrived(played, 1, [0, 1])).toBeLessThan(4.5);
    },
    mutants: {
      'the oldest interval asks for all exports at its store': {
        text: /select due\.\* from due\n([\s\S]*?)where e\.id = free\.id and free\.waits/,
        becomes: `select due.* from due where not due.waits or due.id = (select other.id from batch_exports other join holes h on h.export_id = other.id
          where other.heal_after is not null order by h.data_interval_start, other.id limit 1)
          $1where free.waits`,
      },
    },
  },
  ...[1, 2].map((concurrency) => ({
    name: `an interval that cannot work keeps no other back, ${concurrency} at a time`,
    world: both(storeAway(1, 3), ({ at, hour }) =>
      at === 'source' && hour === 1 ? 'source.row_too_large' : null,
    ),
    ...{ hours: 8, exportCount: 2, concurrency, endsAt: 8 },
    check: (played: Played) => {
      for (const number of [0, 1]) {
        expect(arrived(played, number, [0, 2, 3])).toBeLessThan(4.5);
        expect(arrived(played, number, range(4, 8))).toBeLessThan(8.5);
        expect(tries(played, number, 1)).toBeGreaterThan(5);
        expect(tries(played, number, 1)).toBeLessThan(150);
      }
    },
    mutants: {
      'an interval does not wait for itself': {
        of: 'note_hole()' as const,
        text: /next_try_at = clock_timestamp\(\) \+ case[\s\S]*?end;/,
        becomes: 'next_try_at = clock_timestamp();',
      },
    },
  })),
  {
    name: 'a dozen old intervals under a prefix that stays throttled keep no other back, without a tick that works',
    world: ({ at, now, hour }) =>
      at === 'store' && (isDown(now, 1, 14) || (now >= 14 && hour < 12))
        ? 'destination.throttled'
        : null,
    ...{ hours: 17, exportCount: 1, endsAt: 14 },
    check: (played) => {
      expect(arrived(played, 0, [12, 13])).toBeLessThan(17);
    },
    mutants: {
      'every attempt is at the oldest': { text: /ready\.heal_failures % 2 = 1/g, becomes: 'false' },
    },
  },
  {
    name: 'a store that fails is asked once an hour in the end, by what heals and by the schedule',
    ...{ world: storeAway(1.5, 25), hours: 26, exportCount: 1 },
    check: (played) => expectFewRequests(played, 19, 25, 1.2),
    mutants: {
      'an export never waits': {
        of: 'note_failing()',
        text: 'heal_failures >= free',
        becomes: 'false',
      },
      'the schedule asks too': {
        text: /not \(e\.heal_after <= [\s\S]*?'65 minutes'\)/,
        becomes: 'false',
      },
    },
  },
  ...(['snapshot', 'changes'] as const).map((mode) => ({
    name: `of mode ${mode} the newest interval takes the place of all that an outage kept from their data, one run at a time`,
    world: both(storeAway(1.5, 4.2), sourceAway(4, 4.4)),
    ...{ hours: 8, exportCount: 2, mode },
    check: ({ exports, atATime }: Played) => {
      expect(atATime).toBe(1);
      for (const { done, holes, paused, superseded } of exports) {
        expect([holes, paused]).toEqual([0, false]);
        // It is about the present, so nothing earlier is made after the outage.
        expect([...done.keys(), ...superseded].toSorted((a, b) => a - b)).toEqual(range(0, 8));
        expect(superseded.at(-1)).toBeLessThan(4);
      }
    },
    mutants: {
      'an earlier interval is made after all': {
        text: 'h.data_interval_end < n.newest',
        becomes: 'false',
      },
    },
  })),
  ...(['snapshot', 'changes'] as const).map((mode) => ({
    name: `a row that stops every run of mode ${mode} pauses the export, and a person decides`,
    world: ({ at, now }: Asked) => (at === 'source' && now > 1.5 ? 'source.json_too_deep' : null),
    ...{ hours: 16, exportCount: 1, mode },
    check: ({ exports, requests }: Played) => {
      expect(exports[0]).toMatchObject({ paused: true, pausedCode: 'source.json_too_deep' });
      // One of each tick: what is decided by people is not tried by itself.
      expect(requests.map(({ hour }) => hour)).toEqual(range(1, 11));
    },
    mutants: {
      'an error that people decide heals': {
        of: 'note_hole()' as const,
        text: 'not is_decided_by_people(new.error_code)',
        becomes: 'true',
      },
    },
  })),
  {
    name: 'another database at the bucket stops the export, also if what heals meets it',
    world: both(storeAway(1, 3), ({ at, now }) =>
      at === 'store' && now >= 3 ? 'run.unknown_history' : null,
    ),
    ...{ hours: 8, exportCount: 1, endsAt: 3 },
    check: ({ exports, requests }) => {
      expect(exports[0]).toMatchObject({ paused: true, pausedCode: 'run.unknown_history' });
      // Those that were on their way.
      expect(requests.filter(({ code }) => code === 'run.unknown_history').length).toBeLessThan(3);
    },
    mutants: {
      'an export that waits for a person goes on': {
        text: /, 'run\.unknown_history'/g,
        becomes: '',
      },
    },
  },
  {
    name: 'what was set aside is not tried again by itself, whatever it was before',
    world: both(storeAway(1, 3), ({ at, now, hour }) =>
      at === 'source' && now >= 3 && hour === 1 ? 'run.crashed' : null,
    ),
    ...{ hours: 8, exportCount: 1 },
    check: (played) => {
      expect(arrived(played, 0, [0, ...range(2, 8)])).toBeLessThan(8.5);
      expect(played.requests.filter(({ code }) => code === 'run.crashed')).toHaveLength(1);
    },
    mutants: {
      'an error that people decide heals': {
        of: 'note_hole()',
        text: 'not is_decided_by_people(new.error_code)',
        becomes: 'true',
      },
    },
  },
];

test.each(properties.map((property) => [property.name, property] as const))(
  '%s',
  async (_name, property) => {
    property.check(await side.play(property));
    for (const [name, mutant] of Object.entries(property.mutants)) {
      const played = await side.play(property, mutant);
      expect(() => property.check(played), `without notice: ${name}`).toThrow();
    }
  },
  600_000,
);
