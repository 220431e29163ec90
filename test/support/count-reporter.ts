import type { SerializedError } from 'vitest';
import type { Reporter, TestModule, TestRunEndReason, TestSuite } from 'vitest/node';

interface Counts {
  passed: number;
  failed: number;
  skipped: number;
}

/**
 * Prints `N passed, N failed` (and `, N skipped` if there are any), alone on the very last line of
 * the run: after the other reporters, the coverage table and the global teardown. A file that does not
 * load, a hook that fails and an error outside of every test each count as one failed.
 */
// biome-ignore lint/style/noDefaultExport: Vitest loads a reporter by its default export.
export default class CountReporter implements Reporter {
  /** A run that ends before it began (its setup failed) has no counts, and has failed. */
  private counts: Counts = { passed: 0, failed: 1, skipped: 0 };

  onInit(): void {
    process.once('exit', () => {
      // On exit only a synchronous write arrives; to files, pipes and terminals this one is.
      process.stdout.write(`${formatCounts(this.counts)}\n`);
    });
  }

  onTestRunEnd(
    modules: readonly TestModule[],
    unhandledErrors: readonly SerializedError[],
    reason: TestRunEndReason,
  ): void {
    this.counts = countTests(modules, unhandledErrors.length);
    // Whatever else made the run fail (no test found, say) must not read like a success.
    if (reason === 'failed' && this.counts.failed === 0) this.counts.failed = 1;
  }
}

function countTests(modules: readonly TestModule[], outsideErrors: number): Counts {
  const counts = { passed: 0, failed: outsideErrors, skipped: 0 };
  for (const module of modules) {
    let failedHere = module.errors().length > 0 ? 1 : 0;
    for (const suite of module.children.allSuites()) failedHere += countSuiteErrors(suite);
    for (const test of module.children.allTests()) {
      const state = test.result().state;
      if (state === 'failed') failedHere += 1;
      else if (state === 'passed') counts.passed += 1;
      else counts.skipped += 1;
    }
    if (failedHere === 0 && module.state() === 'failed') failedHere = 1;
    counts.failed += failedHere;
  }
  return counts;
}

/** A hook that fails in a suite skips its tests; the suite itself then counts for them. */
function countSuiteErrors(suite: TestSuite): number {
  return suite.errors().length > 0 ? 1 : 0;
}

function formatCounts(counts: Counts): string {
  const line = `${counts.passed} passed, ${counts.failed} failed`;
  return counts.skipped > 0 ? `${line}, ${counts.skipped} skipped` : line;
}
