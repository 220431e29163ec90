/**
 * The boundaries of days and weeks against a second definition that shares nothing with the first:
 * the wall clock as `Intl.DateTimeFormat` writes it, read every quarter of an hour around each
 * change of offset. All zones of the list, 1970 to 2100, every change, every offset hour.
 */

import { describe, expect, test } from 'vitest';
import type { Cadence } from '../../src/foundation/domain/cadence.ts';
import type { Instant } from '../../src/foundation/domain/time.ts';
import { nextBoundary } from '../../src/service/scheduling/boundary.ts';
import { firstYear, lastYear, zones } from './zones.ts';

const quarterMs = 900_000;
const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

/** How far the reading goes to both sides of a change: more than a day left out whole. */
const reachMs = 30 * hourMs;

interface Reading {
  readonly instant: Instant;
  /** What the wall shows, as if it were UTC. */
  readonly wall: number;
}

type Wall = (instant: Instant) => number;

function wallOf(timezone: string): Wall {
  const format = new Intl.DateTimeFormat('sv-SE', {
    timeZone: timezone,
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
  });
  return (instant) => Date.parse(`${format.format(instant).replace(' ', 'T')}Z`);
}

/** Every instant at which the offset changes: found week by week, then to the second. */
function changesOf(wall: Wall): Instant[] {
  const offset = (instant: Instant): number => wall(instant) - instant;
  const changes: Instant[] = [];
  const end = Date.UTC(lastYear + 1, 0, 1);
  let offsetBefore = offset(Date.UTC(firstYear, 0, 1));
  for (let week = Date.UTC(firstYear, 0, 1); week < end; week += 7 * dayMs) {
    const offsetAfter = offset(week + 7 * dayMs);
    if (offsetAfter !== offsetBefore) {
      let [low, high] = [week, week + 7 * dayMs];
      while (high - low > 1000) {
        const middle = Math.floor((low + high) / 2000) * 1000;
        if (offset(middle) === offsetBefore) low = middle;
        else high = middle;
      }
      changes.push(high);
    }
    offsetBefore = offsetAfter;
  }
  return changes;
}

/**
 * Quarters of an hour of UTC: every whole hour of these zones is one. The change itself is read too
 * (Asia/Gaza once changed at a minute past midnight).
 */
function readAround(wall: Wall, change: Instant): Reading[] {
  const instants = [change - reachMs, change, change + reachMs];
  const first = Math.ceil((change - reachMs) / quarterMs) * quarterMs;
  for (let instant = first; instant < change + reachMs; instant += quarterMs) {
    instants.push(instant);
  }
  return [...new Set(instants)]
    .sort((a, b) => a - b)
    .map((instant) => ({ instant, wall: wall(instant) }));
}

/** The contract in its own words: the first instant that shows the label; in a gap, the first after. */
function boundaryByReading(readings: readonly Reading[], label: number): Instant | undefined {
  const shown = readings.find(({ wall }) => wall === label);
  if (shown !== undefined) return shown.instant;
  return readings.find(
    ({ wall }, index) => wall > label && (readings[index - 1]?.wall ?? Infinity) < label,
  )?.instant;
}

function boundariesByReading(readings: readonly Reading[], labels: readonly number[]): Instant[] {
  const found = labels.map((label) => boundaryByReading(readings, label));
  return [...new Set(found)].filter((instant) => instant !== undefined).sort((a, b) => a - b);
}

function boundariesByRoom(cadence: Cadence, after: Instant, upTo: Instant): Instant[] {
  const found: Instant[] = [];
  for (let at = nextBoundary(cadence, after); at <= upTo; at = nextBoundary(cadence, at)) {
    found.push(at);
  }
  return found;
}

/** Labels at that hour which the wall passes in the readings, on the days that `keep` names. */
function labelsIn(
  readings: readonly Reading[],
  hour: number,
  keep: (weekday: number) => boolean,
): number[] {
  const first = readings[0]?.wall ?? 0;
  const last = readings.at(-1)?.wall ?? 0;
  const labels: number[] = [];
  for (let day = Math.floor(first / dayMs) * dayMs; day <= last; day += dayMs) {
    const label = day + hour * hourMs;
    if (label > first && label <= last && keep(new Date(day).getUTCDay())) labels.push(label);
  }
  return labels;
}

describe.each(zones)('around every change of %s', (timezone) => {
  test('days and weeks begin where the wall clock says', () => {
    const wall = wallOf(timezone);
    const changes = changesOf(wall);
    // A zone without a change (UTC) gets some midnights instead.
    const centres =
      changes.length > 0 ? changes : [0, Date.UTC(2000, 1, 29), Date.UTC(2100, 1, 28)];
    const wrong: string[] = [];
    for (const change of centres) {
      const [from, to] = [change - reachMs, change + reachMs];
      const readings = readAround(wall, change);
      const compare = (cadence: Cadence, keep: (weekday: number) => boolean) => {
        const found = boundariesByRoom(cadence, from, to).join();
        const shown = boundariesByReading(
          readings,
          labelsIn(readings, cadence.offsetHour ?? 0, keep),
        ).join();
        if (found === shown) return;
        const at = new Date(change).toISOString();
        wrong.push(`${at} ${JSON.stringify(cadence)}: ${found}, but the wall shows ${shown}`);
      };
      for (let offsetHour = 0; offsetHour < 24; offsetHour += 1) {
        const offsetDay = offsetHour % 7;
        compare({ interval: 'day', timezone, offsetDay: null, offsetHour }, () => true);
        compare(
          { interval: 'week', timezone, offsetDay, offsetHour },
          (weekday) => weekday === offsetDay,
        );
      }
    }
    expect(wrong).toEqual([]);
  });
});
