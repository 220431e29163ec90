import { describe, expect, test } from 'vitest';
import {
  isTerminal,
  nextStatus,
  type RunEvent,
  type RunStatus,
  runStatuses,
  terminalStatuses,
} from '../../../src/domain/run.ts';

const events: readonly RunEvent[] = [
  'claimed',
  'handed_back',
  'completed',
  'failed',
  'exhausted',
  'cancelled',
];

/** One line a status, one column an event, in the order above; `-` is not legal. */
const table: Record<RunStatus, string> = {
  Starting: 'Running - - Failed - Cancelled',
  Running: 'Running Running Completed Failed FailedRetryable Cancelled',
  Completed: '- - - - - -',
  Failed: '- - - - - -',
  FailedRetryable: '- - - - - -',
  Cancelled: '- - - - - -',
};

describe('every status and event', () => {
  const pairs = runStatuses.flatMap((status) =>
    events.map((event, index) => [status, event, table[status].split(' ')[index]] as const),
  );

  test.each(pairs)('%s on %s becomes %s', (status, event, expected) => {
    expect(nextStatus(status, event) ?? '-').toBe(expected);
  });

  test('no event leaves a terminal status, and some event leaves every other', () => {
    for (const status of runStatuses) {
      const left = events.some((event) => nextStatus(status, event) !== null);
      expect(left).toBe(!isTerminal(status));
    }
    expect(terminalStatuses).toHaveLength(4);
  });
});
