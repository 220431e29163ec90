import { spawn } from 'node:child_process';
import { once } from 'node:events';
import os from 'node:os';
import { describe, expect, test } from 'vitest';
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

/** Runs the code in a process with the sandbox's flags and limits. */
async function attempt(code: string): Promise<{ answer: string; isConfined: boolean }> {
  const program = `
    const run = () => { ${code} };
    const say = (answer) => { require('fs').writeSync(1, String(answer)); };
    require('fs').writeSync(1, '.');
    require('fs').readSync(0, Buffer.alloc(1));
    try {
      const made = run();
      if (made && made.on) made.on('error', (error) => say(error.code)).on('connect', () => say('connected')).on('listening', () => say('listens'));
      else say(made);
    } catch (error) { say(error.code || error.name); }`;
  const child = spawn(process.execPath, [...nodeFlags(defaultLimits), '-e', program], {
    env: { TZ: 'UTC' },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  let answer = '';
  child.stdout.on('data', (bytes) => {
    answer += bytes;
  });
  await once(child.stdout, 'data');
  const isConfined = await confine(child.pid ?? 0, 128);
  child.stdin.end('x');
  await once(child.stdout, 'data');
  child.kill('SIGKILL');
  await once(child, 'close');
  return { answer: answer.slice(1), isConfined };
}

describe('code outside the realm gets nowhere if it', () => {
  test.each(attempts)('%s', async (_, code, answer) => {
    expect((await attempt(code)).answer).toBe(answer);
  });

  test.runIf(process.platform === 'linux').each(connections)('%s', async (_, code, answer) => {
    expect(await attempt(code)).toEqual({ answer, isConfined: true });
  });
});

test.runIf(process.platform === 'linux')(
  'a sandbox leaves the processor to its parent',
  async () => {
    const child = spawn(process.execPath, ['-e', 'process.stdin.resume(); console.log()']);
    await once(child.stdout, 'data'); // While it starts, it may need more than its limit.
    await confine(child.pid ?? 0, 128);
    const priority = os.getPriority(child.pid);
    child.kill('SIGKILL');
    await once(child, 'close');
    expect(priority).toBe(Math.min(os.getPriority() + 15, 19));
  },
);
