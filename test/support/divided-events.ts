import type pg from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest';
import {
  type IntervalBench,
  type OpenedDestination,
  openedBy,
  openIntervalBench,
} from './interval-bench.ts';

/** Values that folders must keep apart. */
export const dividing = [
  ...[null, '', '..', '.', 'a/b', 'x=1', 'größe 😀', `"q"\n`, 'l'.repeat(400), 'Signup', '100%'],
  // Two spellings of one letter, and long texts that differ at their end.
  ...['caf\u00e9', 'cafe\u0301', `${'l'.repeat(1_000)}a`, `${'l'.repeat(1_000)}b`],
  ...['%2F', 'a,{b}*?', ' '],
];

/** Gives the events one of these names each, and the times of two days. */
export async function divideEvents(pool: pg.Pool): Promise<void> {
  await pool.query(
    `update events set event = ($1::text[])[1 + (properties ->> 'n')::int % $2],
            "timestamp" = '2026-11-24T22:00:00Z'::timestamptz + (properties ->> 'n')::int * interval '1 minute'`,
    [dividing, dividing.length],
  );
}

/** For each test of a file: a source with so many divided events, and an empty bucket whose store was probed. */
export function useDividedBench(rows: number): {
  readonly bench: IntervalBench;
  readonly opened: OpenedDestination;
} {
  let bench: IntervalBench;
  let opened: OpenedDestination;
  beforeAll(async () => {
    bench = await openIntervalBench(rows);
    await divideEvents(bench.database.pool);
  });
  afterAll(() => bench?.drop());
  beforeEach(async () => {
    opened = await openedBy.S3();
    await opened.destination.probe(new AbortController().signal);
  });
  afterEach(() => opened.close());
  return {
    get bench() {
      return bench;
    },
    get opened() {
      return opened;
    },
  };
}
