import { defineConfig } from 'vitest/config';
import common from './vitest.config.ts';

const { projects: _, ...everyday } = common.test ?? {};

/** The nightly lane, `npm run test:nightly`: the files that have more cases than `npm test` runs, or none there, with all of them. */
export default defineConfig({
  test: {
    ...everyday,
    globalSetup: ['test/support/global-setup.ts'],
    include: [
      'test/clients/*.ts',
      'test/e2e/api-on-processes.test.ts',
      'test/e2e/erase-and-offboard.test.ts',
      'test/e2e/form-page.test.ts',
      'test/e2e/iceberg-table.test.ts',
      'test/e2e/kill-worker.test.ts',
      'test/e2e/lifecycle.test.ts',
      'test/e2e/notifications-page.test.ts',
      'test/e2e/operators-page.test.ts',
      'test/e2e/own-plugins.test.ts',
      'test/e2e/transformations.test.ts',
      'test/e2e/worker-memory.test.ts',
      'test/e2e/transformations-page.test.ts',
      'test/e2e/faults/attack.test.ts',
      'test/e2e/faults/broken-starts.test.ts',
      'test/e2e/faults/clocks.test.ts',
      'test/e2e/faults/crashes.test.ts',
      'test/e2e/faults/generations.test.ts',
      'test/e2e/faults/migration.test.ts',
      'test/e2e/faults/promoted-copy.test.ts',
      'test/e2e/faults/redis.test.ts',
      'test/e2e/faults/redis-failover.test.ts',
      'test/e2e/faults/requests.test.ts',
      'test/e2e/faults/restored-backup.test.ts',
      'test/e2e/faults/settling.test.ts',
      'test/e2e/faults/start.test.ts',
      'test/e2e/faults/strange-stores.test.ts',
      'test/e2e/faults/workers.test.ts',
      'test/integration/pipeline/partitions.test.ts',
      'test/integration/store/bloat.ts',
      'test/integration/store/growth.test.ts',
      'test/security/query-on-server.test.ts',
      'test/model/*.test.ts',
      'test/sim/healing.test.ts',
      'test/sim/scheduler.test.ts',
    ],
    env: { SLUICE_TESTS: 'nightly', MODEL: 'deep' },
    testTimeout: 20 * 60_000,
  },
});
