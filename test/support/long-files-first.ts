import { relative } from 'node:path';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/**
 * The files that take longest, the longest first. If one of them began last, one core would work on it
 * while the other has nothing left to do. The cache of earlier runs knows this too, but a clean checkout
 * has none.
 */
const longest = [
  'test/e2e/snapshots.test.ts',
  'test/e2e/faults/workers.test.ts',
  'test/e2e/receipts.test.ts',
  'test/e2e/faults/s3.test.ts',
  'test/e2e/lifecycle.test.ts',
  'test/integration/worker/worker.test.ts',
  'test/e2e/faults/start.test.ts',
  'test/e2e/form-page.test.ts',
  'test/e2e/changes.test.ts',
  'test/integration/reader/postgres.test.ts',
  'test/sim/scheduler.test.ts',
  'test/model/commit.test.ts',
];

/** In this order; the files of one that shares its modules stay together: only then does one process run many of them. */
const projects = ['processes', 'service', 'database', 'pure'];

/** Starts the tests with processes first, the longest of them at once, and the short ones last. */
export class LongFilesFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId, project }: TestSpecification) => {
      const at = longest.indexOf(relative(project.config.root, moduleId));
      const within = at < 0 ? longest.length : at;
      return projects.indexOf(project.name) * (longest.length + 1) + within;
    };
    return (await super.sort(files)).toSorted((a, b) => rank(a) - rank(b));
  }
}
