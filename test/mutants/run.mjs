/**
 * `npm run test:mutants`, or `-- <part of a name>`: breaks a copy of this folder in each of the ways of
 * mutants.mjs and runs the test that must fail. Prints `N killed, N lived`; exits 1 if one lived.
 */

import { execFileSync, spawn } from 'node:child_process';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { mutants } from './mutants.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url));
const wanted = process.argv[2] ?? '';
const chosen = mutants.filter(({ name }) => name.includes(wanted));

/** What Git knows here and what is new, as it is now; the working tree is never changed. */
function copyProject() {
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-mutants-'));
  const listed = execFileSync('git', ['ls-files', '-co', '--exclude-standard', '-z'], {
    cwd: root,
  });
  for (const name of listed.toString().split('\0').filter(Boolean)) {
    mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
    cpSync(path.join(root, name), path.join(folder, name), { force: true });
  }
  symlinkSync(path.join(root, 'node_modules'), path.join(folder, 'node_modules'));
  return folder;
}

/** The counts that the reporter prints last; null if the tests did not come to an end. */
function runTests(folder, tests) {
  return new Promise((resolve) => {
    const vitest = path.join(folder, 'node_modules/vitest/vitest.mjs');
    const child = spawn(process.execPath, [vitest, 'run', ...tests, '--maxWorkers', '2'], {
      cwd: folder,
      // With all cases of the night.
      env: { ...process.env, NIGHTLY_TESTS: 'nightly' },
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    let output = '';
    child.stdout.setEncoding('utf8').on('data', (text) => {
      output += text;
    });
    child.once('close', () => {
      const counts = /^(\d+) passed, (\d+) failed/m.exec(output);
      resolve(counts ? { passed: Number(counts[1]), failed: Number(counts[2]), output } : null);
    });
  });
}

function applyMutant(folder, { name, file, find, replace }) {
  const place = path.join(folder, file);
  const text = readFileSync(place, 'utf8');
  const parts = text.split(find);
  if (parts.length !== 2)
    throw new Error(`${name}: ${file} has its text ${parts.length - 1} times`);
  writeFileSync(place, parts.join(replace));
  return () => writeFileSync(place, text);
}

const folder = copyProject();
try {
  for (const mutant of chosen) applyMutant(folder, mutant)();
  const tests = [...new Set(chosen.map(({ test }) => test))];
  const sound = await runTests(folder, tests);
  if (sound === null || sound.failed > 0 || sound.passed === 0) {
    throw new Error(`The tests fail without a mutant:\n${sound?.output ?? 'they did not end'}`);
  }
  let lived = 0;
  for (const mutant of chosen) {
    const revert = applyMutant(folder, mutant);
    const counts = await runTests(folder, [mutant.test]);
    revert();
    // A file that does not even load shows nothing.
    const killed = counts !== null && counts.failed > 0 && counts.passed > 0;
    if (!killed) lived += 1;
    process.stdout.write(`${killed ? 'killed' : 'LIVED '}  ${mutant.name}\n`);
  }
  process.stdout.write(`${chosen.length - lived} killed, ${lived} lived\n`);
  if (lived > 0) process.exitCode = 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
