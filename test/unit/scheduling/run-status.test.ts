import { expect, test } from 'vitest';
import {
  isTerminal,
  liveStatuses,
  runMoves,
  runStatuses,
  terminalStatuses,
} from '../../../src/foundation/domain/run.ts';

test('a status is live or terminal', () => {
  expect([...liveStatuses, ...terminalStatuses].toSorted()).toEqual([...runStatuses].toSorted());
});

test('no event leaves a terminal status, and some event leaves every live one', () => {
  const left = new Set(Object.values(runMoves).flatMap(({ from }) => [...from]));
  for (const status of runStatuses) expect(left.has(status as never)).toBe(!isTerminal(status));
});

test('some event leads to each status but the first', () => {
  const reached = new Set(Object.values(runMoves).map(({ to }) => to));
  expect([...reached].toSorted()).toEqual(
    runStatuses.filter((status) => status !== 'Starting').toSorted(),
  );
});
