/** Which deaths of a worker count against a run: the last part of the protocols in docs/internals/guarantees.md. */

import { expect, test } from 'vitest';
import { explore, type Model, Violation } from './explore.ts';

interface State {
  /** `waits`: for admission. `shared`: an attempt beside others. `alone`: an attempt in a process of its own. */
  readonly phase: 'waits' | 'shared' | 'alone' | 'failed';
  /** What the run has counted. */
  readonly counted: number;
  /** What the checker knows: processes that died during an attempt of the run. */
  readonly harmed: number;
  readonly deaths: number;
}

/** What is counted wrongly. */
type Fault = 'counts_waiting' | 'counts_from_reading' | 'progress_by_repetition';

const maxDeaths = 6;
const sharedDeaths = 2;

function crashModel(fault: Fault | null): Model<State> {
  return {
    start: { phase: 'waits', counted: 0, harmed: 0, deaths: 0 },
    keyOf: JSON.stringify,
    movesOf: (state) => {
      const to = (label: string, change: Partial<State>) => ({
        label,
        next: () => ({ ...state, ...change }),
      });
      const deaths = state.deaths + 1;
      const harmed = state.harmed + 1;
      const counted = state.counted + 1;
      if (state.deaths === maxDeaths) return [];
      switch (state.phase) {
        case 'waits': {
          const phase = state.counted >= sharedDeaths ? 'alone' : 'shared';
          return [
            to('claim', { phase }),
            to('the worker dies while the run waits for admission', {
              counted: state.counted + (fault === 'counts_waiting' ? 1 : 0),
              deaths,
            }),
          ];
        }
        case 'shared':
          return [
            to('the worker dies before the first row', {
              phase: 'waits',
              counted: fault === 'counts_from_reading' ? state.counted : counted,
              ...{ harmed, deaths },
            }),
            to('the worker dies after it sent again what was sent before', {
              phase: 'waits',
              counted: fault === 'progress_by_repetition' ? 1 : counted,
              ...{ harmed, deaths },
            }),
          ];
        case 'alone':
          return [to('its own process dies', { phase: 'failed', counted, harmed, deaths })];
        default:
          return [];
      }
    },
    check: ({ phase, harmed }) => {
      if (phase === 'failed' && harmed < sharedDeaths + 1)
        throw new Violation('Q1', `the run is Failed after ${harmed} deaths during its attempts`);
      if (harmed > sharedDeaths + 1)
        throw new Violation('Q2', `${harmed} processes died during attempts of the run`);
    },
  };
}

test('a run is Failed after three deaths during its attempts, and no fourth process dies of it', () => {
  expect(explore(crashModel(null)).violation).toBeNull();
});

test.each([
  ['counts_waiting', 'Q1'],
  ['counts_from_reading', 'Q2'],
  ['progress_by_repetition', 'Q2'],
] as const)('the model finds what %s breaks', (fault, invariant) => {
  const { violation } = explore(crashModel(fault));
  console.log(`${fault}\n${violation?.text}`);
  expect(violation?.invariant).toBe(invariant);
});
