import { expect, test } from 'vitest';
import type { LogEntry } from '../../../src/clients/console/api-types.ts';
import { appended } from '../../../src/clients/console/log-tail.ts';

const entry = (id: number) => ({ id, entry: { message: `line ${id}` } as LogEntry });

test('entries that an answer repeats are shown once, and late ones in their place', () => {
  const first = appended([], [entry(4), entry(7)]);
  expect(appended(first, [entry(7), entry(5), entry(9)]).map(({ id }) => id)).toEqual([4, 5, 7, 9]);
  expect(appended(first, [entry(4)])).toBe(first);
});

test('the newest 5,000 are kept', () => {
  const many = Array.from({ length: 5_001 }, (_, id) => entry(id));
  expect(appended([], many).at(0)?.id).toBe(1);
});
