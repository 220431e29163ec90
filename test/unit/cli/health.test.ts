import { expect, test } from 'vitest';
import { reasonOf } from '../../../src/clients/cli/api/health.ts';
import type { BatchExport } from '../../../src/clients/cli/api/types.ts';

test('the reason of a failing export says that it is paused: a retry alone does not help', () => {
  const run = { latest_error: 'destination.access_denied: Refused.' };
  const failing = { latest_runs: [run], paused: false } as unknown as BatchExport;
  expect(reasonOf(failing, 'failing', 0)).toBe('destination.access_denied: Refused.');
  expect(reasonOf({ ...failing, paused: true }, 'failing', 0)).toBe(
    'paused; destination.access_denied: Refused.',
  );
});
