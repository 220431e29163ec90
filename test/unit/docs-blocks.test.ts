import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';

const root = path.resolve(import.meta.dirname, '../..');
const pages = [
  'README.md',
  'CONTRIBUTING.md',
  'client/README.md',
  'deploy/README.md',
  ...readdirSync(path.join(root, 'docs'))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
];

/** A block without a language is a drawing. */
const languages = /^ *```(sh|console|sql|js|ts|json|yaml|python)$/gm;

/**
 * What runs the blocks of each page, in their order. A command that fails, or a variable that is never set, is a sentence that
 * is not true: a new block needs its test here, or the reason why none can run it.
 */
const runBy: Readonly<Record<string, readonly string[]>> = {
  'README.md': ['reason: .ci/run is this block'],
  'CONTRIBUTING.md': ['reason: .ci/run is this block'],
  'client/README.md': ['test/integration/client-package.test.ts'],
  'deploy/README.md': [
    'reason: needs Docker; test/unit/deploy/deployment.test.ts checks the files',
  ],
  'docs/aws.md': Array<string>(2).fill('test/unit/destinations/aws-policy.test.ts'),
  'docs/backups.md': Array<string>(5).fill('test/e2e/faults/restored-backup.test.ts'),
  'docs/changing-tables.md': [
    'test/integration/reader/changing-tables.test.ts',
    'reason: a form; test/e2e/changes.test.ts reads such manifests',
  ],
  'docs/cli.md': Array<string>(10).fill('test/integration/cli/docs.test.ts'),
  'docs/consumers.md': [
    ...Array<string>(3).fill('test/integration/reader/changing-tables.test.ts'),
    'reason: needs the extension httpfs, which DuckDB downloads',
    ...Array<string>(11).fill('test/conformance/consumers-guide.test.ts'),
    ...Array<string>(4).fill(
      'reason: Snowflake, BigQuery, Athena and Redshift are services of others',
    ),
    'reason: needs a cluster of Spark; the page says that it is not tested',
    ...Array<string>(4).fill('test/conformance/consumers-guide.test.ts'),
  ],
  'docs/first-table.md': Array<string>(4).fill(
    'reason: needs a database and a bucket of your own; docs/operate.md and docs/cli.md have the same commands, which are run',
  ),
  'docs/late-rows.md': ['reason: docs/cli.md has the same commands, which are run'],
  'docs/models.md': ['test/unit/config/models-file.test.ts', 'test/e2e/pages.test.ts'],
  'docs/notifications.md': [
    'test/e2e/pages.test.ts',
    ...Array<string>(2).fill('test/integration/api/notification-targets.test.ts'),
  ],
  'docs/offboarding.md': Array<string>(2).fill('test/e2e/pages.test.ts'),
  'docs/operate.md': [
    'reason: .ci/run is this block',
    ...Array<string>(14).fill('test/e2e/operate-page.test.ts'),
  ],
  'docs/quickstart.md': Array<string>(3).fill('test/e2e/quickstart.test.ts'),
  'docs/receipts.md': [
    ...Array<string>(3).fill('reason: forms, without their values'),
    'reason: the names are examples; test/unit/receipts/hostile-buckets.test.ts runs both programs',
  ],
  'docs/security.md': ['test/e2e/pages.test.ts'],
  'docs/settling.md': ['test/e2e/pages.test.ts'],
  'docs/snapshots.md': ['reason: test/e2e/snapshots.test.ts makes such exports by the API'],
  'docs/transformations.md': ['test/e2e/pages.test.ts'],
  'docs/upgrade.md': Array<string>(3).fill('test/e2e/faults/restored-backup.test.ts'),
};

test('every block of README and docs is run by a test, or says why none can', () => {
  for (const page of pages) {
    const blocks = [...readFileSync(path.join(root, page), 'utf8').matchAll(languages)];
    const runners = runBy[page] ?? [];
    expect([page, blocks.length]).toEqual([page, runners.length]);
    for (const runner of runners.filter((one) => !one.startsWith('reason: '))) {
      // A test that runs the blocks of a page reads the page.
      const reads = readFileSync(path.join(root, runner), 'utf8').includes(path.basename(page));
      expect([page, runner, reads]).toEqual([page, runner, true]);
    }
  }
});

test('the first screen and the page for assistants stay short', () => {
  const readme = readFileSync(path.join(root, 'README.md'), 'utf8');
  expect(Buffer.byteLength(readme)).toBeLessThanOrEqual(9_000);
  expect(readme).toContain('docs/images/recording.svg');
  const skill = readFileSync(path.join(root, 'SKILL.md'), 'utf8');
  expect(skill.split('\n').length).toBeLessThanOrEqual(120);
});
