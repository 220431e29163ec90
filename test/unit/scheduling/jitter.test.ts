import { expect, test } from 'vitest';
import { jitterMs } from '../../../src/service/scheduling/jitter.ts';
import { daily, utc, weekly } from './examples.ts';

/** Ids that share all but their last digits, as UUIDv7 of one second do. */
const ids = Array.from(
  { length: 2000 },
  (_, index) => `018f5b8e-0000-7000-8000-${index.toString(16).padStart(12, '0')}`,
);

test.each([
  ['5% of five minutes', utc('every 5 minutes'), 300, 15_000],
  ['5% of an hour', utc('hour'), 300, 180_000],
  ['five minutes for a day', daily('UTC'), 300, 300_000],
  ['five minutes for a week', weekly('UTC', 0), 300, 300_000],
  ['what the operator allows', utc('hour'), 7, 7_000],
])('stays below %s and spreads evenly under it', (_, cadence, maxJitterSeconds, ceilingMs) => {
  const delays = ids.map((id) => jitterMs(id, cadence, maxJitterSeconds));
  expect(Math.max(...delays)).toBeLessThan(ceilingMs);
  expect(Math.min(...delays)).toBeGreaterThanOrEqual(0);
  const tenths = Array.from({ length: 10 }, () => 0);
  for (const delay of delays) {
    const tenth = Math.floor((delay / ceilingMs) * 10);
    tenths[tenth] = (tenths[tenth] ?? 0) + 1;
  }
  expect(Math.min(...tenths)).toBeGreaterThan(140);
  expect(Math.max(...tenths)).toBeLessThan(260);
});

test('is off at 0', () => {
  expect(new Set(ids.map((id) => jitterMs(id, daily('UTC'), 0)))).toEqual(new Set([0]));
});
