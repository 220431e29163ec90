/**
 * `npm run test:attack -- --minutes 10`: one tenant's runs and API calls alone, then beside an attacker with
 * ordinary keys at its full rate limit. Prints the figures, and exits 1 if a bar is missed.
 */

import { parseArgs } from 'node:util';
import { startVitest } from 'vitest/node';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    // Of the attacker; each asks at its full rate limit.
    keys: { type: 'string', default: '1' },
    // Only these attacks, by the beginning of their names: to find out which of them does harm.
    only: { type: 'string', default: '' },
  },
});
const minutes = Number(values.minutes);
if (!(minutes > 0 && minutes <= 120)) throw new RangeError('--minutes takes a number up to 120');
const keys = Number(values.keys);
if (!(keys >= 1 && keys <= 16)) throw new RangeError('--keys takes a number from 1 to 16');

const vitest = await startVitest('test', [], {
  config: false,
  watch: false,
  include: ['test/attack/attack.ts'],
  globalSetup: ['test/support/global-setup.ts'],
  testTimeout: (3 * minutes + 15) * 60_000,
  hookTimeout: 300_000,
  provide: { attackRun: { minutes, keys, only: values.only } },
});
await vitest.close();
