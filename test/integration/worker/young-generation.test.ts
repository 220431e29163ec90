import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { projectRoot } from '../../support/processes.ts';

const run = promisify(execFile);

/** Prints the MiB of the young generation as a worker starts, with all it loads, and before a run of many rows. */
const program = `
  import v8 from 'node:v8';
  import { growForSmallRuns, growYoungGeneration, tuneGarbageCollection } from './dist/service/admission/process-memory.js';
  const sizes = [];
  const look = () => {
    const young = v8.getHeapSpaceStatistics().find((space) => space.space_name === 'new_space');
    sizes.push(young.space_size / 2 ** 20);
  };
  tuneGarbageCollection();
  look();
  await import('./dist/rows/query/parser.js');
  // Takes back what V8 can do without, as it does after idle times.
  v8.getHeapSnapshot().destroy();
  look();
  growYoungGeneration();
  look();
  // What survives does not make it grow further.
  const kept = Array.from({ length: 300_000 }, (_, n) => ({ n }));
  look();
  growForSmallRuns();
  look();
  growYoungGeneration();
  look();
  console.log(JSON.stringify({ sizes, kept: kept.length }));
`;

test('the young generation has four megabytes for each half again before a run of many rows', async () => {
  const { stdout } = await run(process.execPath, ['--input-type=module', '--eval', program], {
    cwd: projectRoot,
  });
  const [atStart, loaded, grown, used, ...forSmallRuns] = JSON.parse(stdout).sizes;
  expect(atStart).toBe(8);
  expect(loaded).toBeLessThan(8);
  expect([grown, used]).toEqual([8, 8]);
  // Twice as much, which a run of many rows after them does not change.
  expect(forSmallRuns).toEqual([16, 16]);
});
