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
 * The nightly lane alone: they take long, and rarely fail. By day too:
 *
 * - `workers.test.ts` kills workers at the steps of a run, and `worker/worker.test.ts` has a copy that is held.
 * - The strict S3 server of the tests is a strange store. `store/healing.test.ts` has what heals after an outage.
 * - `conformance` has every kind of table, and the values of each format. Other readers of Parquet: DuckDB and Polars.
 * - `unit/config/postgres-address.test.ts` has addresses of sources, and `unit/sources/sqlstates.test.ts` what poolers answer.
 * - Each installation of `e2e` has the models of a stranger's database. `postgres-settle.test.ts` has what is waited for.
 * - `worker/{worker,wait-for-source}.test.ts` have connections to our database that are cut, and `cli/doctor.test.ts` the doctor.
 * - `store/{uploads,own-schema,prepared}.test.ts` have places, schemas, a server with few connections, and a pooler.
 * - `pipeline/erase-rows.test.ts` and `store/{erasures,offboarding}.test.ts` have what `pages.test.ts` does by the commands of the documentation.
 * - `form-page` has the page in a browser, and `test/unit/console` its rules.
 * - `store/plans.test.ts` has the plans of statements.
 * - `pipeline/{changes,key-names,renamed-keys,file-set}.test.ts` have bases, another source, keys, rejected rows and folders, and
 *   `worker/look-back.test.ts` the look-back. `api/row-preview.test.ts` has previews, and
 *   `security/{previews,preview-connections,query-bounds}.test.ts` their limits.
 * - `.ci/run` starts a quickstart, which starts the embedded server. `docs-blocks.test.ts` knows which test runs a block of the documentation,
 *   and `cli/{every-verb,records,apply}.test.ts` run the commands of `docs/cli.md`.
 * - `unit/receipts` has both checkers on wrong buckets.
 * - `integration/postgres-standby.test.ts` has standbys, and `api/refused-requests.test.ts` bodies with several faults.
 * - `reader/postgres.test.ts` has the reader with kills, `e2e/verify.test.ts` the proof, and `integration/postgres-{source,settle}.test.ts` sources that fail and rows that come late.
 * - `test/security/{sandbox,slow-readers,hostile-answers,tenant-weights}` have hostile plugins, readers and stores, and large answers, `test/unit/sandbox` what plugins may do, and `pipeline/iceberg-table.test.ts` what tables hold. A clean checkout builds without the types of the API.
 */
export const atNight = [
  'test/e2e/{console-page,erase-and-offboard,iceberg-table,notifications-page,operators-page}.test.ts',
  'test/e2e/{own-models,own-plugins,operate-page,page-in-trouble,pages,quickstart,run-statements,statements-page,transformations-page}.test.ts',
  'test/e2e/{verify-answers,worker-memory}.test.ts',
  'test/integration/{client-package,count-reporter,durable-s3,embedded-postgres}.test.ts',
  'test/integration/store/growth.test.ts',
  'test/integration/{reader/duckdb,sources/{promoted-standby,silent-server}}.test.ts',
  'test/unit/receipts/hostile-buckets.test.ts',
  'test/unit/sandbox/{community-plugins,determinism}.test.ts',
  'test/integration/pipeline/{new-bases,partitions,rejected-rows,restored-source}.test.ts',
  'test/integration/{api/{second-wave,transformation-lab},cli/docs,worker/look-back-failures}.test.ts',
  'test/conformance/{consumers-guide,parquet-readers}.test.ts',
  'test/conformance/source-{addresses,errors,maintenance,policies,poolers,standby}.test.ts',
  'test/security/{answer-weights,hostile-store-runs,query-on-server,sandbox/limits,trials,unread-answers}.test.ts',
  'test/sim/healing.test.ts',
  'test/e2e/faults/{clocks,crashes,embedded-start}.test.ts',
  'test/e2e/faults/{generations,migration,outages,own-settings,pooler,postgres,promoted-copy,redis}.test.ts',
  'test/e2e/faults/{restored-backup,restored-elements,settling,standby}.test.ts',
];
/** A mutant may need a test of the night. */
const notByDay = process.env.NIGHTLY_TESTS === 'nightly' ? [] : atNight;

/**
 * Many short files, most with a database; not those that measure times or memory, or change their process. They
 * share their modules too.
 */
const withDatabase = [
  'test/integration/{api,store}/!(fuzz|growth).test.ts',
  'test/integration/{notifications,pipeline,sources}/*.test.ts',
  'test/integration/{check-model,file-destination,late-rows,query-allow-list}.test.ts',
  'test/integration/postgres-{settle,source-columns}.test.ts',
  'test/conformance/!(parquet-readers).test.ts',
  'test/integration/{s3-*,reader/!(duckdb)}.test.ts',
  'test/integration/postgres-source.test.ts',
  'test/security/{csv-formulas,deployment,destination-test,file-folders,hostile-{answers,manifests,names,sweeps}}.test.ts',
  'test/security/{operator-routes,preview*,query-bounds,stored-secrets,tenant-*,trials,unsaved-exports}.test.ts',
];

/**
 * Tests that start our programs or a worker. They share their modules too: to load them takes as long as many a
 * test. Not those that change or measure their own process, or that import tests of others.
 */
const withProcesses = [
  'test/e2e/**/*.test.ts',
  'test/integration/{embedded-postgres,generated-docs,postgres-standby}.test.ts',
  'test/integration/cli/!(docs).test.ts',
  'test/integration/{queue,worker}/*.test.ts',
  'test/security/{links,metrics-port,slow-readers,source-role,unread-answers}.test.ts',
];

/** One embedded Postgres serves the whole run; each file clones the migrated template database. */
const globalSetup = ['test/support/global-setup.ts'];

export default defineConfig({
  test: {
    projects: [
      {
        extends: true,
        // No build, no database: one file starts at once. They share their modules, which load once.
        test: { name: 'pure', include: pure, exclude: notByDay, isolate: false },
      },
      {
        extends: true,
        test: {
          name: 'service',
          include: ['test/**/*.test.ts'],
          exclude: [...pure, ...withDatabase, ...withProcesses, ...notByDay],
          globalSetup,
        },
      },
      {
        extends: true,
        test: {
          name: 'processes',
          include: withProcesses,
          exclude: notByDay,
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
          exclude: notByDay,
          isolate: false,
          globalSetup,
          setupFiles: ['test/support/end-of-file.ts'],
        },
      },
    ],
    pool: 'forks',
    // As each of our programs begins: it repairs what Node 20 does to joined signals.
    setupFiles: ['./src/main/load-program.ts'],
    // Tests with processes mostly wait: one of them uses less than half a core.
    maxWorkers: 3,
    sequence: { sequencer: LongFilesFirst },
    testTimeout: 180_000,
    hookTimeout: 240_000,
    reporters: ['default', './test/support/count-reporter.ts'],
    // The projects share what they have transformed.
    experimental: { fsModuleCache: true },
    coverage: { provider: 'v8', include: ['src/**'] },
  },
});
