import { expect, test } from 'vitest';
import { describeGoing, describeMissing } from '../../../src/clients/console/going-rows.ts';
import { lateRowsIn } from '../../../src/clients/console/coverage-grid.ts';

const totals = {
  ...{ delivered_rows: 1_000, rows_now: 100, would_go: 900, would_go_is: 'at_least' as const },
  ...{ compared_intervals: 1, left_out: null },
} as const;

test.each([
  [
    totals,
    'keep',
    '1,000 rows are delivered, and the source has 100 now. At least 900 delivered rows would go, so the runs of these intervals fail and their files stay.',
  ],
  [
    totals,
    'drop',
    '1,000 rows are delivered, and the source has 100 now. At least 900 delivered rows will be removed.',
  ],
  [
    { ...totals, rows_now: 1_000, would_go: 0, would_go_is: 'exact' },
    'drop',
    '1,000 rows are delivered, and the source has 1,000 now. No delivered row would go.',
  ],
  [
    { ...totals, rows_now: null, would_go: null, would_go_is: null },
    'drop',
    '1,000 rows are delivered. How many of them the source no longer has is not known; such rows are removed.',
  ],
] as const)('what would go is said with its numbers (%#)', (given, missingRows, text) => {
  expect(describeGoing(given, missingRows)).toBe(text);
});

test('the numbers of an error are shown before rows are dropped, and none are made up', () => {
  const detail =
    '1000 rows are delivered, 100 rows are in the new files, and 900 delivered rows are missing there';
  expect(describeMissing(`Delivered rows are missing (${detail}. The first keys: a, b)`)).toBe(
    'Delivered rows: 1,000. Rows in the new files: 100. Delivered rows that are missing there: 900.',
  );
  expect(describeMissing('Whether delivered rows are missing cannot be known: denied')).toBeNull();
});

test('a selection shows the late rows that wait in it', () => {
  const wait = (hour: number) => ({
    ...{ start: `2024-03-01T0${hour}:00:00Z`, end: `2024-03-01T0${hour + 1}:00:00Z`, why: 'x' },
  });
  const span = { start: Date.parse(wait(1).start), end: Date.parse(wait(1).end) };
  expect(lateRowsIn([wait(0), wait(1), wait(2)], span)).toEqual([wait(1)]);
});
