#!/usr/bin/env node
/**
 * Test files that failed beside others are run once more, alone: a machine that is too busy is not a defect.
 * What passes only then is named, so that its cause can be found. Counts: test/support/count-reporter.ts.
 *
 *   again.mjs files FIRST            the files to run again, a line each; none if too many failed
 *   again.mjs summary FIRST SECOND   what passed alone, then the counts of both runs together
 */
import { readFileSync } from 'node:fs';

/** If more files failed than this, the cause is not the load. */
const mostFiles = 5;

const [action, ...paths] = process.argv.slice(2);
const [first, second] = paths.map((path) => JSON.parse(readFileSync(path, 'utf8')));

const failed = Object.keys(first.files).filter((file) => first.files[file].failed > 0);
if (action === 'files') {
  if (first.outside === 0 && failed.length <= mostFiles) for (const file of failed) print(file);
} else {
  const total = { passed: 0, failed: second.outside, skipped: 0 };
  const files = { ...first.files };
  for (const file of failed) {
    // A file that the second run did not reach has failed.
    files[file] = second.files[file] ?? first.files[file];
    const names = first.files[file].failedTests;
    if (files[file].failed > 0) continue;
    print(`failed beside other tests, passed alone: ${file}`);
    for (const name of names) print(`  ${name}`);
  }
  for (const counts of Object.values(files)) {
    for (const kind of Object.keys(total)) total[kind] += counts[kind];
  }
  const skipped = total.skipped > 0 ? `, ${total.skipped} skipped` : '';
  print(`${total.passed} passed, ${total.failed} failed${skipped}`);
}

function print(line) {
  process.stdout.write(`${line}\n`);
}
