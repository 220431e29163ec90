/** `npm run test:sim -- --seed S --runs N`: the simulator alone. */

import { parseArgs } from 'node:util';
import { startVitest } from 'vitest/node';

const { values } = parseArgs({
  options: { seed: { type: 'string' }, runs: { type: 'string', default: '10000' } },
});
const seed =
  values.seed === undefined ? Math.floor(Math.random() * 0x7fffffff) : Number(values.seed);
const runs = Number(values.runs);
if (!Number.isSafeInteger(seed) || !Number.isSafeInteger(runs) || runs < 1) {
  throw new RangeError('--seed takes a whole number, --runs a whole number above 0');
}

const vitest = await startVitest('test', ['test/sim/'], {
  config: false,
  globalSetup: ['test/support/global-setup.ts'],
  watch: false,
  testTimeout: 3_600_000,
  provide: { simulation: { seed, runs } },
});
await vitest.close();
