import { describe, expect, test } from 'vitest';
import {
  boundaryAtOrBefore,
  countBoundaries,
  nextBoundary,
  nominalMs,
} from '../../../src/service/scheduling/boundary.ts';
import { at, daily, show, utc, weekly } from './examples.ts';

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
