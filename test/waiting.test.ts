import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';

const folder = import.meta.dirname;

/** Why a file may do what the rule forbids. */
const allowed: Readonly<Record<string, string>> = {
  'support/until.ts': 'it is what tests wait with',
  'support/failpoints/actions.mjs': 'it delays the process under test: that is its work',
  'support/database.ts': 'PostgreSQL says "in use" for a moment, and has no event for its end',
  'support/processes.ts': 'output may still come after the end of a process',
  'support/tcp-proxy.ts': 'it delays data: that is its work',
  'support/s3-server/exchange.ts': 'it delays answers: that is its work',
  'support/redis.ts': 'the time limit of a socket',
  'integration/s3-links.test.ts': 'the moment at which a link ends',
  'integration/api/file-links.test.ts': 'the moment at which a link ends',
  'integration/queue/queue.test.ts': 'a rate: how often, in the time that passed',
  'integration/api/admin.test.ts': 'how fast thousands of exports are listed, beside a list of ten',
  'integration/queue/redis-rights.test.ts': 'a rate: how often, in the time that passed',
  'security/operator-routes.test.ts': 'a day before today, as the API is asked for it',
  'security/hostile-answers.test.ts': 'the pace of a slow store: that is its work',
  'security/trials.test.ts': 'how long another tenant waits, as a share of the whole',
  'security/sandbox/escapes.test.ts': 'the text of a plugin that looks for timers',
  'unit/transforms/chain.test.ts': 'steps count their time: that is what it tests',
  'unit/worker/shared-work.test.ts': 'a rest as long as the work before it: that is what it tests',
  'unit/domain/grouped.test.ts': 'the names of the timers that it replaces',
  'integration/count-reporter.test.ts': 'the text of a test that it runs',
};

/** What takes minutes measures times, and works at its own pace. */
const longRuns = ['attack/', 'chaos/', 'big/', 'stores/', 'mutants/'];

const sleeps = /\bsetTimeout\b|\bscheduler\.wait\b|\bAtomics\.wait\b/;
const clock = String.raw`(?:performance|Date)\.now\(\)`;
const timeIsMeasured = new RegExp(`${clock}\\s*-|-\\s*${clock}`);

function findWaits(text: string): readonly string[] {
  return text
    .split('\n')
    .map((line) => line.replace(/^\s*(\/\/|\*|\/\*).*/, ''))
    .flatMap((line, index) =>
      sleeps.test(line) || timeIsMeasured.test(line) ? [`${index + 1}: ${line.trim()}`] : [],
    );
}

const files = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  .map((name) => name.split(path.sep).join('/'))
  .filter((name) => !name.includes('node_modules/'))
  .filter((name) => /\.(ts|mjs)$/.test(name) && name !== path.basename(import.meta.filename))
  .filter((name) => !longRuns.some((start) => name.startsWith(start)));

const breaches = new Map(
  files
    .map((name) => [name, findWaits(readFileSync(path.join(folder, name), 'utf8'))] as const)
    .filter(([, found]) => found.length > 0),
);

/** The files that a file imports, below this folder. */
const importsOf = (name: string): readonly string[] =>
  [
    ...readFileSync(path.join(folder, name), 'utf8').matchAll(
      /\b(?:from|import)\b\W{0,3}'(\.[^']+)'/g,
    ),
  ].map(([, imported = '']) => path.posix.join(path.posix.dirname(name), imported));

/** Files with tests that a configuration of vitest names. */
const named = ['clients/generated-clients.ts', 'screenshots/screenshots.ts'];

describe('tests', () => {
  test('are in a file that is run, or that another one imports', () => {
    const imported = new Set([...named, ...files.flatMap(importsOf)]);
    const unused = files.filter(
      (name) =>
        !name.endsWith('.test.ts') &&
        !imported.has(name) &&
        /^\s*(?:test|it)(?:\.each)?\(/m.test(readFileSync(path.join(folder, name), 'utf8')),
    );
    expect(unused).toEqual([]);
    expect(imported).toContain('e2e/operators-page/causes.ts');
  });

  test('do not sleep, and do not measure how long a thing takes', () => {
    const found = [...breaches].filter(([name]) => !(name in allowed));
    expect(found, 'wait for what you mean with until()').toEqual([]);
  });

  test('have no exception from that which none of them needs', () => {
    expect(Object.keys(allowed).filter((name) => !breaches.has(name))).toEqual([]);
  });
});

describe('the rule sees', () => {
  test.each([
    "import { setTimeout as sleep } from 'node:timers/promises';",
    'await new Promise((resolve) => setTimeout(resolve, 5));',
    'expect(performance.now() - startedAt).toBeLessThan(50);',
    'await until(() => Date.now() - startedAt > 900);',
    'const left = deadline - performance.now();',
  ])('%s', (text) => {
    expect(findWaits(text)).toHaveLength(1);
    expect(findWaits(`  // ${text}`)).toEqual([]);
  });
});
