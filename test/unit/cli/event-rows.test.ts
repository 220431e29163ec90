import { expect, test } from 'vitest';
import { readEventRows } from '../../../src/clients/cli/arguments.ts';

test('the quickstart writes from one to ten million events', () => {
  expect(['1', '20000', '10000000'].map(readEventRows)).toEqual([1, 20_000, 10_000_000]);
  for (const text of ['0', '-1', '1.5', '1e3', '', 'many', '10000001']) {
    expect(() => readEventRows(text), text).toThrow('a whole number from 1 to 10000000');
  }
});
