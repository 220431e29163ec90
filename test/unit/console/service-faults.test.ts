import { expect, test } from 'vitest';
import { readServiceFaults } from '../../../src/clients/console/service-faults.ts';

test('each part that is not ok is named with its reason', () => {
  const checks = { postgres: 'ok', queue: 'ok', era: 'ok', workers: 'no worker has reported' };
  expect(readServiceFaults({ status: 'degraded', checks })).toEqual([
    'Workers: no worker has reported.',
  ]);
});

test.each([[null], [{}], [{ checks: null }], [{ status: 'starting' }], ['text']])(
  'an answer of another shape shows nothing: %j',
  (answer) => {
    expect(readServiceFaults(answer)).toEqual([]);
  },
);
