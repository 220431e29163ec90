import { defineConfig } from 'vitest/config';
import { LongFilesFirst } from './test/support/long-files-first.ts';

/** Tests of code without I/O, and of the sources' text. */
const pure = [
  'test/*.test.ts',
  'test/unit/**/*.test.ts',
  'test/property/**/*.test.ts',
  'test/model/**/*.test.ts',
  'test/security/sandbox/*.test.ts',
];

/**
 * The nightly lane alone: minutes each, and they rarely fail. By day too, `workers.test.ts` kills workers at the steps of a run,
 * `restored-database.test.ts` has what a copy of the database may do, the strict S3 server of the tests is a strange store,
 * `test/sim/healing.test.ts` has what heals, `test/integration/pipeline/iceberg-table.test.ts` what tables hold, and a clean checkout builds without the types of the API.
 */
const atNight = [
  'test/e2e/{healing,iceberg-table,kill-worker,production-page}.test.ts',
  'test/integration/api-types.test.ts',
  'test/e2e/faults/{attack,broken-starts,clocks,crashes,generations,migration,promoted-copy}.test.ts',
  'test/e2e/faults/{redis,restored-backup,settling,strange-stores}.test.ts',
];

/**
 * Many short files, most with a database; not those that measure times or memory, or change their process. They
 * share their modules too.
 */
const withDatabase = [
  'test/integration/{api,store}/!(*-speed|fuzz|growth).test.ts',
  'test/integration/{notifications,pipeline,sources}/*.test.ts',
  'test/integration/{check-model,failpoints,file-destination,late-rows,query-allow-list}.test.ts',
  'test/integration/postgres-{settle,source-columns}.test.ts',
  'test/conformance/!(parquet-readers|parquet-polars).test.ts',
  'test/security/{csv-formulas,deployment,destination-test,file-folders,hostile-{answers,manifests,names,sweeps}}.test.ts',
  'test/security/{operator-routes,preview*,query-bounds,stored-secrets,tenant-*,trials,unsaved-exports}.test.ts',
];

/**
 * Tests that start our programs or a worker. They share their modules too: to load them takes as long as many a
 * test. Not those that change or measure their own process, or that import tests of others.
 */
const withProcesses = [
  'test/e2e/**/!(api-on-processes).test.ts',
  'test/integration/{cli,client-package,embedded-postgres,generated-docs,postgres-standby,traces}.test.ts',
  'test/integration/cli/!(docs).test.ts',
  'test/integration/{queue,worker}/*.test.ts',
  'test/security/{hostile-plugins,hostile-store-runs,links,metrics-port,slow-readers,source-role,unread-answers}.test.ts',
];

/** One embedded Postgres serves the whole run; each file clones the migrated template database. */
const globalSetup = ['test/support/global-setup.ts'];

export default defineConfig({
  test: {
    projects: [
      {
        extends: true,
        // No build, no database: one file starts at once. They share their modules, which load once.
        test: { name: 'pure', include: pure, isolate: false },
      },
      {
        extends: true,
        test: {
          name: 'service',
          include: ['test/**/*.test.ts'],
          exclude: [...pure, ...withDatabase, ...withProcesses, ...atNight],
          globalSetup,
        },
      },
      {
        extends: true,
        test: {
          name: 'processes',
          include: withProcesses,
          exclude: atNight,
          isolate: false,
          globalSetup,
          setupFiles: ['test/support/end-of-file.ts'],
        },
      },
      {
        extends: true,
        test: {
          name: 'database',
          include: withDatabase,
          isolate: false,
          globalSetup,
          setupFiles: ['test/support/end-of-file.ts'],
        },
      },
    ],
    pool: 'forks',
    // Tests with processes mostly wait: one of them uses less than half a core.
    maxWorkers: 4,
    sequence: { sequencer: LongFilesFirst },
    testTimeout: 180_000,
    hookTimeout: 240_000,
    reporters: ['default', './test/support/count-reporter.ts'],
    coverage: { provider: 'v8', include: ['src/**'] },
  },
});
