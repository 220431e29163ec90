import { defineConfig } from 'vitest/config';

/** The nightly lane: what takes minutes. `npm run test:chaos` */
export default defineConfig({
  test: {
    include: ['test/chaos/*.ts'],
    exclude: ['test/chaos/soak.ts'],
    globalSetup: ['test/support/global-setup.ts'],
    pool: 'forks',
    maxWorkers: 1,
    testTimeout: 20 * 60_000,
    hookTimeout: 300_000,
    reporters: ['default', './test/support/count-reporter.ts'],
  },
});
