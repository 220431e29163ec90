import { describe, expect, test } from 'vitest';
import type { Cadence } from '../../../src/foundation/domain/cadence.ts';
import {
  boundaryAtOrBefore,
  countBoundaries,
  nextBoundary,
  nominalMs,
} from '../../../src/service/scheduling/boundary.ts';
import { at, daily, show, utc, weekly } from './examples.ts';

function boundariesFrom(cadence: Cadence, from: string, count: number): string[] {
  const found: string[] = [];
  let instant = boundaryAtOrBefore(cadence, at(from));
  while (found.length < count) {
    found.push(show(instant));
    instant = nextBoundary(cadence, instant);
  }
  return found;
}

describe('UTC cadences', () => {
  test.each([
    ['hour', '2024-02-29T13:59:59.999Z', '2024-02-29T13:00:00Z', '2024-02-29T14:00:00Z'],
    ['hour', '2024-02-29T14:00Z', '2024-02-29T14:00:00Z', '2024-02-29T15:00:00Z'],
    ['every 1 minutes', '2024-02-29T23:59:30Z', '2024-02-29T23:59:00Z', '2024-03-01T00:00:00Z'],
    ['every 5 minutes', '2024-01-01T00:04:59Z', '2024-01-01T00:00:00Z', '2024-01-01T00:05:00Z'],
    ['hour', '1969-12-31T23:30Z', '1969-12-31T23:00:00Z', '1970-01-01T00:00:00Z'],
  ] as const)('%s at %s is between %s and %s', (interval, instant, before, after) => {
    expect(show(boundaryAtOrBefore(utc(interval), at(instant)))).toBe(before);
    expect(show(nextBoundary(utc(interval), at(instant)))).toBe(after);
  });

  test('take no notice of the zone', () => {
    const kathmandu = { ...utc('hour'), timezone: 'Asia/Kathmandu' };
    expect(show(nextBoundary(kathmandu, at('2024-01-01T00:20Z')))).toBe('2024-01-01T01:00:00Z');
  });
});

describe('local days and weeks', () => {
  test.each<[string, Cadence, string, string[]]>([
    [
      'a day in New York has 23 hours when the clock goes forward',
      daily('America/New_York'),
      '2024-03-09T12:00Z',
      ['2024-03-09T05:00:00Z', '2024-03-10T05:00:00Z', '2024-03-11T04:00:00Z'],
    ],
    [
      'a day in New York has 25 hours when the clock goes back',
      daily('America/New_York'),
      '2024-11-02T12:00Z',
      ['2024-11-02T04:00:00Z', '2024-11-03T04:00:00Z', '2024-11-04T05:00:00Z'],
    ],
    [
      'a bound in a gap moves to the first instant that exists',
      daily('America/New_York', 2),
      '2024-03-09T12:00Z',
      ['2024-03-09T07:00:00Z', '2024-03-10T07:00:00Z', '2024-03-11T06:00:00Z'],
    ],
    [
      'a bound in a fold is the first of the two',
      daily('America/New_York', 1),
      '2024-11-02T12:00Z',
      ['2024-11-02T05:00:00Z', '2024-11-03T05:00:00Z', '2024-11-04T06:00:00Z'],
    ],
    [
      'midnight in São Paulo is in a gap',
      daily('America/Sao_Paulo'),
      '2018-11-03T12:00Z',
      ['2018-11-03T03:00:00Z', '2018-11-04T03:00:00Z', '2018-11-05T02:00:00Z'],
    ],
    [
      'Apia left out 30 December 2011: two midnights are one boundary',
      daily('Pacific/Apia'),
      '2011-12-29T12:00Z',
      ['2011-12-29T10:00:00Z', '2011-12-30T10:00:00Z', '2011-12-31T10:00:00Z'],
    ],
    [
      'a week that ends on the day Apia left out ends at the first instant after it',
      weekly('Pacific/Apia', 5, 8),
      '2011-12-29T16:00Z',
      ['2011-12-23T18:00:00Z', '2011-12-30T10:00:00Z', '2012-01-05T18:00:00Z'],
    ],
    [
      'a leap day is a day',
      daily('UTC', 4),
      '2024-02-28T12:00Z',
      ['2024-02-28T04:00:00Z', '2024-02-29T04:00:00Z', '2024-03-01T04:00:00Z'],
    ],
    [
      'weeks start on Sunday for offset 0',
      weekly('UTC', 0),
      '2024-02-29T12:00Z',
      ['2024-02-25T00:00:00Z', '2024-03-03T00:00:00Z'],
    ],
    [
      'weeks begin on the offset day and hour over a change of clock',
      weekly('Europe/London', 1, 9),
      '2024-03-29T12:00Z',
      ['2024-03-25T09:00:00Z', '2024-04-01T08:00:00Z', '2024-04-08T08:00:00Z'],
    ],
  ])('%s', (_, cadence, from, expected) => {
    expect(boundariesFrom(cadence, from, expected.length)).toEqual(expected);
  });

  test('between the two passes of a fold the boundary of the first pass counts', () => {
    const cadence = daily('America/New_York', 1);
    expect(show(boundaryAtOrBefore(cadence, at('2024-11-03T06:30Z')))).toBe('2024-11-03T05:00:00Z');
    expect(show(nextBoundary(cadence, at('2024-11-03T05:59Z')))).toBe('2024-11-04T06:00:00Z');
  });

  test('if a fold goes back past a boundary, that boundary stays passed', () => {
    // At 02:00 on 5 March 2010 Casey went back to 23:00 on the 4th.
    const cadence = daily('Antarctica/Casey');
    const secondPass = at('2010-03-04T15:30Z');
    expect(show(boundaryAtOrBefore(cadence, secondPass))).toBe('2010-03-04T13:00:00Z');
    expect(show(nextBoundary(cadence, secondPass))).toBe('2010-03-05T16:00:00Z');
  });

  test('a boundary is at, not before and not after itself', () => {
    const cadence = daily('America/New_York');
    const boundary = at('2024-03-10T05:00Z');
    expect(boundaryAtOrBefore(cadence, boundary)).toBe(boundary);
    expect(show(boundaryAtOrBefore(cadence, boundary - 1))).toBe('2024-03-09T05:00:00Z');
    expect(show(nextBoundary(cadence, boundary))).toBe('2024-03-11T04:00:00Z');
  });

  test('an unknown zone is refused', () => {
    expect(() => nextBoundary(daily('Mars/Olympus'), 0)).toThrow(/unknown timezone Mars\/Olympus/);
  });
});

describe('counting', () => {
  test('ten years hold 5,260,320 minutes and 3,653 days', () => {
    const [from, to] = [at('2014-01-01T00:00Z'), at('2024-01-02T00:00Z')];
    expect(countBoundaries(utc('every 1 minutes'), from, to)).toBe(3653 * 1440);
    expect(countBoundaries(daily('UTC'), from, to)).toBe(3653);
  });

  test('the day that Apia left out is not counted', () => {
    const [from, to] = [at('2011-12-01T10:00Z'), at('2012-01-01T10:00Z')];
    // 1 December is counted by its successor; 31 days of UTC less the one that was left out.
    expect(countBoundaries(daily('Pacific/Apia'), from, to)).toBe(31);
    expect(countBoundaries(daily('Pacific/Apia', 5), from, to)).toBe(32);
  });

  test.each(['Pacific/Apia', 'Pacific/Kwajalein', 'America/New_York', 'Asia/Manila', 'UTC'])(
    'fifty years of local days and weeks in %s agree with a walk over them',
    (zone) => {
      for (const cadence of [daily(zone), daily(zone, 23), weekly(zone, 1)]) {
        const [from, upTo] = [at('1971-05-06T07:08Z'), at('2021-09-10T11:12Z')];
        let [walked, between] = [0, 0];
        for (let tick = nextBoundary(cadence, from); tick <= upTo; walked += 1) {
          // Ranges that end at a boundary, right before it, and begin at it.
          if (walked % 701 === 0) {
            expect(countBoundaries(cadence, from, tick)).toBe(walked + 1);
            expect(countBoundaries(cadence, from, tick - 1)).toBe(walked);
            between += 1;
          }
          tick = nextBoundary(cadence, tick);
        }
        expect(between).toBeGreaterThan(2);
        expect(countBoundaries(cadence, from, upTo)).toBe(walked);
      }
    },
  );

  test('an empty or inverted range holds none', () => {
    expect(countBoundaries(utc('hour'), 0, 0)).toBe(0);
    expect(countBoundaries(utc('hour'), 7_200_000, 0)).toBe(0);
    expect(countBoundaries(daily('UTC'), at('2024-01-05'), at('2024-01-01'))).toBe(0);
  });

  test('nominal lengths are those of days without a change of clock', () => {
    expect(nominalMs('every 20 minutes')).toBe(1_200_000);
    expect(nominalMs('hour')).toBe(3_600_000);
    expect(nominalMs('day')).toBe(86_400_000);
    expect(nominalMs('week')).toBe(604_800_000);
  });
});
