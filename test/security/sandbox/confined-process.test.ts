import { spawn } from 'node:child_process';
import { once } from 'node:events';
import os from 'node:os';
import { beforeAll, describe, expect, test } from 'vitest';
import { confine, nodeFlags } from '../../../src/extensions/own-plugins/plugin-process.ts';
import { defaultLimits } from '../../../src/extensions/own-plugins/limits.ts';

/** What code would reach that got out of the realm and could load all modules of Node. */
const attempts: readonly (readonly [name: string, code: string, answer: string])[] = [
  ['reads a file', `return require('fs').readFileSync('/etc/passwd').length`, 'ERR_ACCESS_DENIED'],
  ['writes a file', `return require('fs').writeFileSync('/tmp/x', 'x')`, 'ERR_ACCESS_DENIED'],
  ['starts a process', `return require('child_process').spawnSync('true')`, 'ERR_ACCESS_DENIED'],
  [
    'starts a thread',
    `return new (require('worker_threads').Worker)('1', { eval: true })`,
    'ERR_ACCESS_DENIED',
  ],
  ['makes code from text', `return new Function('return 1')()`, 'EvalError'],
  ['changes the language', `'use strict'; Array.prototype.push = 1;`, 'TypeError'],
  ['reads the environment', `return Object.keys(process.env).join()`, 'TZ'],
];

/** Node 25 and later refuse the network themselves, before the limit of the process does. */
const noNetwork = process.allowedNodeEnvironmentFlags.has('--allow-net')
  ? 'ERR_ACCESS_DENIED'
  : 'EMFILE';
const connections: typeof attempts = [
  ['connects over TCP', `return require('net').connect(9, '127.0.0.1')`, noNetwork],
  ['connects to a socket file', `return require('net').connect('/var/run/x.sock')`, noNetwork],
  ['listens', `return require('net').createServer().listen(0)`, noNetwork],
];

const isLinux = process.platform === 'linux';
const all = isLinux ? [...attempts, ...connections] : attempts;

/** Runs each of them in one process with the sandbox's flags and limits. */
async function attemptAll(): Promise<{ answers: readonly string[]; isConfined: boolean }> {
  const program = `
    const answers = [];
    const write = (text) => require('fs').writeSync(1, text);
    const say = (index, answer) => {
      answers[index] ??= String(answer);
      if (Object.keys(answers).length === ${all.length}) write(JSON.stringify(answers));
    };
    write('.');
    require('fs').readSync(0, Buffer.alloc(1));
    [${all.map(([, code]) => `() => { ${code} }`).join(',')}].forEach((run, index) => {
      try {
        const made = run();
        if (made && made.on) {
          made.on('error', (error) => say(index, error.code));
          for (const event of ['connect', 'listening']) made.on(event, () => say(index, event));
        } else say(index, made);
      } catch (error) { say(index, error.code || error.name); }
    });`;
  const child = spawn(process.execPath, [...nodeFlags(defaultLimits), '-e', program], {
    env: { TZ: 'UTC' },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  let output = '';
  child.stdout.on('data', (bytes) => {
    output += bytes;
  });
  await once(child.stdout, 'data');
  const isConfined = await confine(child.pid ?? 0, 128);
  child.stdin.end('x');
  await once(child.stdout, 'data');
  child.kill('SIGKILL');
  await once(child, 'close');
  return { answers: JSON.parse(output.slice(1)), isConfined };
}

describe('code outside the realm gets nowhere if it', () => {
  let seen: Awaited<ReturnType<typeof attemptAll>>;
  beforeAll(async () => {
    seen = await attemptAll();
    expect(seen.isConfined).toBe(isLinux);
  });

  test.each(all.map(([name, , answer], index) => [name, answer, index] as const))(
    '%s',
    (_, answer, index) => {
      expect(seen.answers[index]).toBe(answer);
    },
  );
});

test.runIf(isLinux)('a sandbox leaves the processor to its parent', async () => {
  const child = spawn(process.execPath, ['-e', 'process.stdin.resume(); console.log()']);
  await once(child.stdout, 'data'); // While it starts, it may need more than its limit.
  await confine(child.pid ?? 0, 128);
  const priority = os.getPriority(child.pid);
  child.kill('SIGKILL');
  await once(child, 'close');
  expect(priority).toBe(Math.min(os.getPriority() + 15, 19));
});
