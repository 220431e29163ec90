import { defineConfig } from 'vitest/config';

/** The nightly lane against foreign stores, which `npm run test:stores` starts. */
export default defineConfig({
  test: {
    include: ['test/stores/suite/*.ts'],
    globalSetup: ['test/support/global-setup.ts'],
    pool: 'forks',
    maxWorkers: 1,
    testTimeout: 480_000,
    hookTimeout: 240_000,
    reporters: ['default', './test/support/count-reporter.ts'],
  },
});
