/** Which deaths of a worker count against a run: the last part of the protocols in docs/guarantees.md. */

import { describe, expect, test } from 'vitest';
import { explore, type Model, Violation } from './explore.ts';

interface State {
  readonly phase: 'idle' | 'waits' | 'reads' | 'failed';
  /** What the run has counted. */
  readonly counted: number;
  /** What the checker knows: workers that died while they read or wrote. */
  readonly harmful: number;
  readonly deaths: number;
}

const maxDeaths = 6;

/** @param countsWaiting fault 10: a death while the run waits for settling counts as well */
function crashModel(countsWaiting: boolean): Model<State> {
  return {
    start: { phase: 'idle', counted: 0, harmful: 0, deaths: 0 },
    keyOf: JSON.stringify,
    movesOf: (state) => {
      const to = (label: string, change: Partial<State>) => ({
        label,
        next: () => ({ ...state, ...change }),
      });
      const deaths = state.deaths + 1;
      if (state.deaths === maxDeaths && state.phase !== 'idle') return [];
      switch (state.phase) {
        case 'idle':
          return [
            state.counted > 2 ? to('failed', { phase: 'failed' }) : to('claim', { phase: 'waits' }),
          ];
        case 'waits': {
          const counted = state.counted + (countsWaiting ? 1 : 0);
          return [
            to('settled, reading begins', { phase: 'reads' }),
            to('the worker dies while it waits', { phase: 'idle', counted, deaths }),
          ];
        }
        case 'reads': {
          const change = { counted: state.counted + 1, harmful: state.harmful + 1, deaths };
          return [to('the worker dies while it reads', { phase: 'idle', ...change })];
        }
        default:
          return [];
      }
    },
    check: ({ phase, harmful }) => {
      if (phase === 'failed' && harmful < 3)
        throw new Violation('Q1', `the run is Failed after ${harmful} deaths of its own`);
    },
  };
}

describe('deaths that count', () => {
  test('a run is Failed only after it crashed three processes itself', () => {
    expect(explore(crashModel(false)).violation).toBeNull();
  });

  test('fault 10: the model finds that deaths while a run waits must not count', () => {
    const { violation } = explore(crashModel(true));
    console.log(`counts_waiting\n${violation?.text}`);
    expect(violation?.invariant).toBe('Q1');
  });
});
