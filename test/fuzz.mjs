import { spawnSync } from 'node:child_process';
import { parseArgs } from 'node:util';

// `npm run test:fuzz -- --runs 20000 [--seed 7]`
const { values } = parseArgs({
  options: { runs: { type: 'string', default: '20000' }, seed: { type: 'string' } },
});
const { status } = spawnSync('npx', ['vitest', 'run', 'test/integration/api/fuzz.test.ts'], {
  stdio: 'inherit',
  env: {
    ...process.env,
    FUZZ_RUNS: values.runs,
    ...(values.seed === undefined ? {} : { FUZZ_SEED: values.seed }),
  },
});
process.exit(status ?? 1);
