import { writeFileSync } from 'node:fs';
import { relative } from 'node:path';
import type { SerializedError } from 'vitest';
import type { Reporter, TestModule, TestRunEndReason, TestSuite } from 'vitest/node';

interface Counts {
  passed: number;
  failed: number;
  skipped: number;
}

/** What the file that `COUNTS_FILE` names holds: by test file, and the errors outside of every file. */
export interface CountsFile {
  readonly files: Readonly<Record<string, Counts & { readonly failedTests: readonly string[] }>>;
  readonly outside: number;
}

/**
 * Prints the PostgreSQL of the run, and `N passed, N failed` (and `, N skipped` if there are any), alone on the very last line of
 * the run: after the other reporters, the coverage table and the global teardown. A file that does not
 * load, a hook that fails and an error outside of every test each count as one failed.
 * If the environment has `COUNTS_FILE`, the counts of each file go there too, as JSON (`CountsFile`).
 */
// biome-ignore lint/style/noDefaultExport: Vitest loads a reporter by its default export.
export default class CountReporter implements Reporter {
  /** A run that ends before it began (its setup failed) has no counts, and has failed. */
  private counts: Counts = { passed: 0, failed: 1, skipped: 0 };

  onInit(): void {
    process.once('exit', () => {
      // On exit only a synchronous write arrives; to files, pipes and terminals this one is.
      const { sluiceTestServer: server } = globalThis as { sluiceTestServer?: string };
      if (server !== undefined) process.stdout.write(`The tests used ${server}.\n`);
      process.stdout.write(`${formatCounts(this.counts)}\n`);
    });
  }

  onTestRunEnd(
    modules: readonly TestModule[],
    unhandledErrors: readonly SerializedError[],
    reason: TestRunEndReason,
  ): void {
    this.counts = { passed: 0, failed: unhandledErrors.length, skipped: 0 };
    for (const module of modules) {
      const { passed, failed, skipped } = countModule(module);
      this.counts.passed += passed;
      this.counts.failed += failed;
      this.counts.skipped += skipped;
    }
    const file = process.env.COUNTS_FILE;
    if (file !== undefined) writeFileSync(file, describeFiles(modules, unhandledErrors.length));
    // Whatever else made the run fail (no test found, say) must not read like a success.
    if (reason === 'failed' && this.counts.failed === 0) this.counts.failed = 1;
  }
}

function countModule(module: TestModule): Counts {
  const counts = { passed: 0, failed: module.errors().length > 0 ? 1 : 0, skipped: 0 };
  for (const suite of module.children.allSuites()) counts.failed += countSuiteErrors(suite);
  for (const test of module.children.allTests()) {
    const { state } = test.result();
    if (state === 'failed' || state === 'passed') counts[state] += 1;
    else counts.skipped += 1;
  }
  if (counts.failed === 0 && module.state() === 'failed') counts.failed = 1;
  return counts;
}

function describeFiles(modules: readonly TestModule[], outside: number): string {
  const files: Record<string, CountsFile['files'][string]> = {};
  for (const module of modules) {
    const failedTests = [...module.children.allTests('failed')].map((test) => test.fullName);
    const file = relative(module.project.config.root, module.moduleId);
    files[file] = { ...countModule(module), failedTests };
  }
  return JSON.stringify({ files, outside } satisfies CountsFile);
}

/** A hook that fails in a suite skips its tests; the suite itself then counts for them. */
function countSuiteErrors(suite: TestSuite): number {
  return suite.errors().length > 0 ? 1 : 0;
}

function formatCounts(counts: Counts): string {
  const line = `${counts.passed} passed, ${counts.failed} failed`;
  return counts.skipped > 0 ? `${line}, ${counts.skipped} skipped` : line;
}
