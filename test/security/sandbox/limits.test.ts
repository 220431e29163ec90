import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { SandboxError } from '../../../src/extensions/own-plugins/limits.ts';
import type { SandboxOptions } from '../../../src/extensions/own-plugins/sandbox.ts';
import {
  applyPlugin,
  rowOf,
  shown,
  someEvent,
  withPlugin,
  applyRows,
} from '../../support/sandbox/apply-plugin.ts';

const impatient = { rowMs: 200, batchMs: 5_000 };
const patient = { rowMs: 30_000, batchMs: 30_000 };

/** The fault that ends the run. */
async function faultOf(body: string, limits: SandboxOptions['limits'] = impatient) {
  const source = `export function processEvent(event, meta) { ${body} }`;
  const error = await applyPlugin({ source, limits }, someEvent).catch((caught: unknown) => caught);
  expect(error).toBeInstanceOf(SandboxError);
  return (error as SandboxError).fault;
}

describe('the run ends, by no fault of ours, for a plugin that', () => {
  test.each([
    ['loops', 'while (true) {}', 'time'],
    [
      'loops in microtasks',
      'const again = () => Promise.resolve().then(again); return again();',
      'time',
    ],
    [
      'matches a regular expression without end',
      `return /^(a+)+$/.test('a'.repeat(50) + '!') ? null : event;`,
      'time',
    ],
    ['waits in the getter of its answer', 'return { get properties() { for (;;); } };', 'time'],
    ['sorts without end', `return [2, 1].sort(() => { for (;;); });`, 'time'],
    ['leaks', `const held = []; for (;;) held.push('x'.repeat(100000).split(''));`, 'memory'],
    [
      'makes huge lists',
      'const held = []; for (;;) held.push(new Array(1e6).fill(0.5));',
      'memory',
    ],
    [
      'answers with very much',
      `event.properties.text = 'x'.repeat(40 * 1024 ** 2); return event;`,
      'output',
    ],
  ])('%s', async (_, body, fault) => {
    expect(await faultOf(body, fault === 'time' ? impatient : patient)).toBe(fault);
  });

  test('takes too long for all rows of a batch together', async () => {
    const source =
      'export function processEvent(event) { for (let n = 0; n < 5e5; n += 1); return event; }';
    const rows = Array.from({ length: 50_000 }, () => someEvent);
    const run = applyPlugin({ source, limits: { rowMs: 1_000, batchMs: 500 } }, ...rows);
    await expect(run).rejects.toMatchObject({ fault: 'time' });
  });

  test('loops while its module or its setup runs', async () => {
    const limits = { openMs: 400 };
    const options = { config: {}, limits };
    for (const source of [
      'for (;;);',
      'export const setupPlugin = () => { for (;;); }; export const processEvent = (event) => event;',
    ]) {
      const run = applyPlugin({ ...options, source }, someEvent);
      await expect(run).rejects.toMatchObject({ fault: 'time' });
    }
  });
});

test('a string of 2 GB is an error of its row', async () => {
  const source = `export function processEvent(event) {
    if (event.event === 'huge') event.properties.text = 'x'.repeat(2 ** 31);
    return event;
  }`;
  const results = await applyPlugin(source, { ...someEvent, event: 'huge' }, someEvent);
  expect(results).toEqual(['error: The plugin threw a RangeError.', someEvent]);
});

test('a plugin that ends its sandbox harms no sandbox beside it', async () => {
  const hostile = ['for (;;);', `const held = []; for (;;) held.push('x'.repeat(1e5).split(''));`];
  await withPlugin('export const processEvent = (event) => event;', async (sandbox) => {
    const answers = async () => {
      const [after] = await applyRows(sandbox, [{ key: '1', row: rowOf(someEvent) }]);
      expect(shown(after)).toEqual(someEvent);
    };
    let ended = false;
    const doomed = Promise.all(hostile.map((body) => faultOf(body, { rowMs: 1_000 }))).finally(
      () => {
        ended = true;
      },
    );
    while (!ended) await answers();
    await doomed;
    await answers();
  });
});

test('no later batch gets an answer once a limit was exceeded', async () => {
  const source = 'export function processEvent(event) { for (;;); }';
  await withPlugin({ source, limits: impatient }, async (sandbox) => {
    const rows = [{ key: '1', row: rowOf(someEvent) }];
    await expect(applyRows(sandbox, rows)).rejects.toMatchObject({ fault: 'time' });
    await expect(applyRows(sandbox, rows)).rejects.toMatchObject({ fault: 'time' });
  });
});

const onLinux = process.platform === 'linux';

test.runIf(onLinux)(
  'the kernel lets the process open nothing, start nothing, and know nothing',
  async () => {
    await withPlugin('export const processEvent = (event) => event;', async (sandbox) => {
      expect(sandbox.isConfined).toBe(true);
      const [pid] = children();
      const limits = readFileSync(`/proc/${pid}/limits`, 'utf8');
      expect(limits).toMatch(/^Max open files +0 +0 /m);
      expect(limits).toMatch(/^Max processes +0 +0 /m);
      expect(limits).toMatch(/^Max core file size +0 +0 /m);
      expect(limits).toMatch(/^Max cpu time +\d+ /m);
      expect(readFileSync(`/proc/${pid}/oom_score_adj`, 'utf8').trim()).toBe('1000');
      expect(limits).toMatch(/^Max data size +\d+ +\d+ /m);
      expect(readFileSync(`/proc/${pid}/environ`, 'utf8')).toBe('TZ=UTC\0');
    });
    expect(children()).toEqual([]);
  },
);

/** Processes of the sandboxes that this test has open. */
function children(): number[] {
  const text = execFileSync('cat', [`/proc/${process.pid}/task/${process.pid}/children`], {
    encoding: 'utf8',
  });
  return text
    .split(' ')
    .map(Number)
    .filter(
      (pid) => pid > 0 && readCommand(pid).includes('--disallow-code-generation-from-strings'),
    );
}

function readCommand(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return '';
  }
}
