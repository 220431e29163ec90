import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { defineConfig } from 'vitest/config';
import common, { atNight } from './vitest.config.ts';

const { projects: _, ...everyday } = common.test ?? {};

/** Modules by which a test has more cases at night, or a model more attempts. */
const more =
  /support\/(nightly|compressions|page-checks|reader-stages|transforms\/purchases)\.ts'|env\.MODEL/;

const folder = path.join(import.meta.dirname, 'test');
const withMoreCases = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.test.ts') && !name.includes('node_modules'))
  .filter((name) => more.test(readFileSync(path.join(folder, name), 'utf8')))
  .map((name) => `test/${name}`);

/** The nightly lane, `npm run test:nightly`: the files that have more cases than `npm test` runs, or none there, with all of them. */
export default defineConfig({
  test: {
    ...everyday,
    globalSetup: ['test/support/global-setup.ts'],
    include: [...atNight, ...withMoreCases, 'test/clients/*.ts'],
    env: { NIGHTLY_TESTS: 'nightly', MODEL: 'deep' },
    testTimeout: 20 * 60_000,
  },
});
