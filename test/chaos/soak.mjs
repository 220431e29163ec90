import { spawnSync } from 'node:child_process';
import { parseArgs } from 'node:util';

// npm run test:soak -- --minutes N
const { values } = parseArgs({ options: { minutes: { type: 'string', default: '10' } } });
const { status } = spawnSync(
  'npx',
  ['vitest', 'run', '--config', 'vitest.chaos.config.ts', 'test/chaos/soak.ts'],
  { stdio: 'inherit', env: { ...process.env, SOAK: '1', SOAK_MINUTES: values.minutes } },
);
process.exit(status ?? 1);
