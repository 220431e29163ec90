import { defineConfig } from 'vitest/config';
import { LongFilesFirst } from './test/support/long-files-first.ts';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // One embedded Postgres serves the whole run; each file clones the migrated template database.
    globalSetup: ['test/support/global-setup.ts'],
    pool: 'forks',
    maxWorkers: 3,
    sequence: { sequencer: LongFilesFirst },
    testTimeout: 180_000,
    hookTimeout: 240_000,
    reporters: ['default', './test/support/count-reporter.ts'],
    coverage: { provider: 'v8', include: ['src/**'] },
  },
});
