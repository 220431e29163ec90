import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import type { SandboxLimits } from '../../../src/extensions/own-plugins/limits.ts';
import { ownPlugins, StepLog } from '../../../src/extensions/own-plugins/own-plugins.ts';
import { Chain } from '../../../src/rows/transforms/chain.ts';
import {
  defineOwnStep,
  type OpenStepsOptions,
  type StepDefinition,
  withOpenSteps,
} from '../../../src/rows/transforms/own-steps.ts';
import { firstByDay } from '../../support/nightly.ts';
import { intervalEndMs, rowOf, someEvent } from '../../support/sandbox/apply-plugin.ts';
import { applyBlock, stepOf } from '../../support/transforms/rows.ts';
import { until } from '../../support/until.ts';

const own = (
  source: string,
  config: Readonly<Record<string, string>> = {},
  id = 7,
  limits: Partial<SandboxLimits> = {},
) => {
  const secrets = Object.values(config);
  return defineOwnStep(ownPlugins(limits), { id, name: 'Mine', source, config, secrets });
};
const mark = 'export function processEvent(e) { e.event += "!"; return e; }';
const endless = 'export function processEvent(e) { for (;;); }';

/** What a chain of these makes of an event. */
function apply(
  definitions: readonly StepDefinition[],
  options: Partial<OpenStepsOptions> = {},
  event: Readonly<Record<string, unknown>> = someEvent,
) {
  const { signal } = new AbortController();
  return withOpenSteps(definitions, { intervalEndMs, signal, ...options }, async (steps) => {
    const columns = { names: Object.keys(event), protected: ['uuid'] };
    const chain = new Chain(steps, columns, ['uuid']);
    const [outcome] = await applyBlock(chain, [rowOf(event)]);
    return { outcome, chain };
  });
}

/** The sandboxes that this process has started and that run. */
function sandboxes(): string[] {
  const children = readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8').trim();
  return children.split(' ').filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('--frozen-intrinsics');
    } catch {
      return false;
    }
  });
}

describe('a chain with own plugins', () => {
  test('gives each the row of the step before it, and ends its sandboxes', async () => {
    const upper = stepOf((row) => row.with([['event', '"paid?"' as never]]), { id: 2 });
    const { outcome } = await apply([own(mark, {}, 1), upper, own(mark, {}, 3)]);
    expect(outcome?.kind === 'kept' && outcome.row.get('event')).toBe('"paid?!"');
    expect(sandboxes()).toEqual([]);
  });

  test.each(
    firstByDay(2, [
      ['a loop', endless, 'transformation.plugin_failed', 'it took more than 300 ms for a row'],
      [
        'a setup that throws a secret',
        `${mark} export function setupPlugin({ config }) { throw new Error(config.key); }`,
        'transformation.invalid',
        'its setupPlugin failed: Error: ********',
      ],
      ['a wrong source', 'export const a = 1;', 'transformation.invalid', 'processEvent'],
    ]),
  )('names the step that ends it by %s', async (_what, source = '', code, text) => {
    const run = apply([own(mark, {}, 3), own(source, { key: 'canary' }, 7, { rowMs: 300 })]);
    const detail = expect.stringMatching(/^step 7 \(Mine\): /);
    await expect(run).rejects.toMatchObject({ code, step: 7, detail });
    await expect(run).rejects.toThrow(text);
    expect(sandboxes()).toEqual([]);
  });

  test('ends at once, with the reason, if it is aborted while a plugin runs', async () => {
    const stopping = new AbortController();
    const run = apply([own(endless, {}, 7, { rowMs: 60_000 })], { signal: stopping.signal });
    const failure = expect(run).rejects.toThrow('cancelled');
    await until(() => sandboxes().length > 0, { message: 'the sandbox has begun' });
    stopping.abort(new Error('cancelled'));
    await failure;
    expect(sandboxes()).toEqual([]);
  });

  test('ends its sandboxes if what uses them throws', async () => {
    const { signal } = new AbortController();
    const fail = async () => {
      expect(sandboxes()).toHaveLength(1);
      throw new Error('the destination is full');
    };
    await expect(withOpenSteps([own(mark)], { intervalEndMs, signal }, fail)).rejects.toThrow(
      'the destination is full',
    );
    expect(sandboxes()).toEqual([]);
  });

  test('is retried if something else ends a sandbox', async () => {
    const run = apply([own(endless, {}, 7, { rowMs: 60_000 })]);
    const failure = expect(run).rejects.toMatchObject({ code: 'transformation.sandbox_ended' });
    await until(() => sandboxes().length > 0, { message: 'the sandbox has begun' });
    process.kill(Number(sandboxes()[0]), 'SIGKILL');
    await failure;
  });

  test('shows no column name that a plugin made up of something else', async () => {
    const source = `export function processEvent(e) { e['\\0' + 'x'.repeat(1e5)] = 1; return e; }`;
    const { chain } = await apply([own(source)]);
    expect(chain.steps[0]?.errors[0]?.reason).toBe('There is no column of this name to write to.');
  });
});

describe('the log of a step', () => {
  const facts = { id: 7, name: 'Mine', onError: 'keep', maxErrorShare: 1 } as const;
  const logOf = (secrets: readonly string[], texts: readonly string[], omitted = 0) => {
    const lines: string[] = [];
    const log = new StepLog(facts, secrets, (level, message) => lines.push(`${level} ${message}`));
    log.add(
      texts.map((text) => ({ level: 'info', text })),
      omitted,
    );
    log.end();
    return lines;
  };

  test.each([
    ['as it is', 'key: s3cr"t!', 'key: ********'],
    ['as JSON', '{"key":"s3cr\\"t!"}', '{"key":"********"}'],
    ['cut off at its end', 'key: s3cr"', 'key: ********'],
    ['twice', 's3cr"t!s3cr"t!', '****************'],
  ])('hides a secret %s', (_how, text, shown) => {
    expect(logOf(['s3cr"t!'], [text])).toEqual([`INFO Step 7 (Mine) writes: ${shown}`]);
  });

  test('hides a secret that contains another one', () => {
    expect(logOf(['abcd', 'abcdefgh'], ['abcdefgh'])).toEqual([
      'INFO Step 7 (Mine) writes: ********',
    ]);
  });

  test('has 200 lines, and says how many were left out', () => {
    const lines = logOf([], Array(250).fill('x'), 5);
    expect(lines).toHaveLength(201);
    expect(lines.at(-1)).toBe('INFO Step 7 (Mine): 55 lines of its plugin were left out.');
  });
});
