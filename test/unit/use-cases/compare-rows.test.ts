import { expect, test } from 'vitest';
import { SluiceError } from '../../../src/foundation/domain/errors.ts';
import type { Source } from '../../../src/rows/sources/source.ts';
import { compareRows } from '../../../src/service/use-cases/backfills/compare-rows.ts';

const choice = {
  mode: 'append' as const,
  ...{ model: 'events', tenantKey: '1', dslQuery: null },
  ...{ includeEvents: null, excludeEvents: null },
};
const intervals = (delivered: readonly number[]) =>
  delivered.map((deliveredRows, n) => ({
    ...{ start: n, end: n + 1 },
    ...{ deliveredRows, deliveredDigest: null },
  }));

/** A source of 2 rows per interval. */
function sourceOf(beforeLook = (_start: number) => {}): Source {
  const open = async ({ interval }: Parameters<Source['open']>[0]) => {
    beforeLook(interval.start);
    return { countRows: async () => 2, close: async () => {} };
  };
  return { open } as unknown as Source;
}

test('looks at up to 200 intervals with delivered rows, and says how many it left out', async () => {
  const looked: number[] = [];
  const source = sourceOf((start) => looked.push(start));
  const asked = intervals(Array.from({ length: 404 }, (_, n) => (n % 2 === 0 ? 3 : 0)));
  const { intervals: found, leftOut } = await compareRows(
    source,
    choice,
    asked,
    new AbortController().signal,
  );
  expect([looked.length, looked.at(-1)]).toEqual([200, 398]);
  expect(found.map(({ start }) => start)).toEqual(asked.map(({ start }) => start));
  expect(found[0]).toMatchObject({ rowsNow: 2, wouldGo: { rows: 1, isExact: false } });
  expect(found[1]).toMatchObject({ rowsNow: null, wouldGo: { rows: 0, isExact: true } });
  expect(found[400]).toMatchObject({ rowsNow: null, wouldGo: null });
  expect(leftOut).toBe(
    'Intervals with delivered rows that were not compared with the source: 2. A request looks at up to 200 intervals.',
  );
});

test('keeps what it has found if the time of the request is over, or the source fails', async () => {
  const tooLong = new AbortController();
  const slow = sourceOf((start) => {
    if (start < 1) return;
    tooLong.abort();
    throw new Error('the statement was cancelled');
  });
  const late = await compareRows(slow, choice, intervals([3, 3, 3]), tooLong.signal);
  expect(late.intervals.map(({ rowsNow }) => rowsNow)).toEqual([2, null, null]);
  expect(late.leftOut).toMatch(/: 2\. The source took too long\.$/);
  const denied = sourceOf(() => {
    throw new SluiceError('source.permission_denied', 'table events');
  });
  const { signal } = new AbortController();
  const failed = await compareRows(denied, choice, intervals([3]), signal);
  expect(failed.leftOut).toMatch(/: 1\. source\.permission_denied: .*table events/);
});
