import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { projectRoot } from '../support/processes.ts';

/** Runs a script that passes failpoints in a process that the actions are preloaded into. */
function run(FAILPOINTS: string, script: string) {
  const { status, signal, stdout, stderr } = spawnSync(
    process.execPath,
    [
      '--import',
      `${projectRoot}/test/support/failpoints/actions.mjs`,
      '--input-type=module',
      '--eval',
      `import { failpoint } from '${projectRoot}/dist/foundation/failpoints/failpoint.js';${script}`,
    ],
    { encoding: 'utf8', env: { ...process.env, FAILPOINTS } },
  );
  return { status, signal, stdout, stderr };
}

const nameError = `const name = (error) => console.log(error.message);`;

test('an error occurs at its step, on the n-th time as set', () => {
  const { stdout } = run(
    'claim=error(source.unavailable)@2;before_open=delay(1)',
    `${nameError}
    for (const step of ['claim', 'claim', 'claim', 'before_open', 'mid_part']) {
      await failpoint(step)?.catch(name);
      console.log(step);
    }`,
  );
  expect(stdout.split('\n').map((line) => line.split(' ')[0])).toEqual([
    'claim',
    expect.stringContaining('source.unavailable'),
    'claim',
    'claim',
    'before_open',
    'mid_part',
    '',
  ]);
});

test('a hold lasts until SIGWINCH', () => {
  const { stdout } = run(
    'claim=hold',
    `const alive = setInterval(() => {}, 1_000);
    const holding = failpoint('claim').then(() => console.log('released'));
    setImmediate(() => { console.log('held'); process.kill(process.pid, 'SIGWINCH'); });
    await holding;
    clearInterval(alive);`,
  );
  expect(stdout).toBe('held\nreleased\n');
});

test('kill ends the process at once', () => {
  expect(run('claim=kill', `await failpoint('claim');`)).toMatchObject({ signal: 'SIGKILL' });
});

test.each(['nowhere=kill', 'claim=explode', 'claim=error(no.such_code)', 'claim'])(
  '%s is refused',
  (spec) => {
    const { status, stderr } = run(spec, '');
    expect(status).not.toBe(0);
    expect(stderr).toContain(`FAILPOINTS: ${spec} is not understood`);
  },
);
