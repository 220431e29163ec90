import { describe, expect, test } from 'vitest';
import {
  applyPlugin,
  intervalEndMs,
  rowOf,
  see,
  seeing,
  shown,
  someEvent,
  withPlugin,
  applyRows,
} from '../../support/sandbox/apply-plugin.ts';

const counting = {
  'a variable of the module': `let n = 0; export const processEvent = (event) => ({ ...event, n: (n += 1) });`,
  'a member of meta.global': `export const setupPlugin = ({ global }) => { global.held = { n: 0 }; };
    export const processEvent = (event, { global }) => ({ ...event, n: (global.held.n += 1) });`,
  'a closure in meta.global': `export const setupPlugin = ({ global }) => { let n = 0; global.next = () => (n += 1); };
    export const processEvent = (event, { global }) => ({ ...event, n: global.next() });`,
  'a value of the config': `export const processEvent = (event, { config }) => ({ ...event, n: (config.n = (config.n ?? 0) + 1) });`,
  'a static member of a class': `class Held { static n = 0; } export const processEvent = (event) => ({ ...event, n: (Held.n += 1) });`,
  'a property of a function': `export function processEvent(event) { processEvent.n = (processEvent.n ?? 0) + 1; return { ...event, n: processEvent.n }; }`,
  'the position of a regular expression': `const a = /a/g; export const processEvent = (event) => { a.test('aaaa'); return { ...event, n: a.lastIndex }; };`,
  'a map by a symbol of all realms': `const held = new Map(); export const processEvent = (event) => { const key = Symbol.for('n'); held.set(key, (held.get(key) ?? 0) + 1); return { ...event, n: held.get(key) }; };`,
  'a template': `const held = new WeakMap(); const tag = (strings) => { held.set(strings, (held.get(strings) ?? 0) + 1); return held.get(strings); };
    export const processEvent = (event) => ({ ...event, n: tag\`x\` });`,
  'what the setup writes to the log': `export const setupPlugin = ({ global }) => { global.n = 0; console.log({ get n() { return (global.n += 1); } }); };
    export const processEvent = (event, { global }) => ({ ...event, n: global.n });`,
  'a private member of a shared object': `class Base { constructor(held) { return held; } }
    class Held extends Base { #n = 0; static next(held) { if (!(#n in held)) new Held(held); return (held.#n += 1); } }
    export const processEvent = (event) => ({ ...event, n: Held.next(Array.prototype) });`,
  'module.exports': `exports.n = 0; exports.processEvent = (event) => ({ ...event, n: (exports.n += 1) });`,
};

describe('no state goes from row to row in', () => {
  test.each(Object.entries(counting))('%s', async (_, source) => {
    const results = await applyPlugin(source, ...Array(3).fill(someEvent));
    expect(results).toEqual(Array(3).fill({ ...someEvent, n: 1 }));
  });
});

test('nor in how much others have written to the log', async () => {
  const source = `let n = 0; const shown = { toJSON() { n += 1; return n; } };
    export const processEvent = (event) => { for (let line = 0; line < 150; line += 1) console.log(shown); return { ...event, n }; };`;
  const results = await applyPlugin(source, ...Array(3).fill(someEvent));
  expect(results).toEqual(Array(3).fill({ ...someEvent, n: 150 }));
});

test('meta.global is frozen after setupPlugin', async () => {
  const source = 'export const processEvent = (event, { global }) => ((global.n = 1), event);';
  expect(await applyPlugin(source, someEvent)).toEqual(['error: The plugin threw a TypeError.']);
});

describe('chance and time', () => {
  const source = `export function processEvent(event) {
    event.properties = { random: [Math.random(), Math.random()], now: Date.now(), date: new Date() };
    return event;
  }`;
  const one = { key: 'one', row: rowOf(someEvent) };
  const two = { key: 'two', row: rowOf(someEvent) };
  const drawn = (end = intervalEndMs, order = [one, two]) =>
    withPlugin({ source, intervalEndMs: end }, async (sandbox) =>
      (await applyRows(sandbox, order)).map((row) => JSON.stringify(shown(row))),
    );

  test('depend on the row and the interval, not on the order of rows or the batch', async () => {
    const [first, second] = await drawn();
    expect(first).not.toBe(second);
    expect(await drawn(intervalEndMs, [two, one, two])).toEqual([second, first, second]);
  });

  test('differ from interval to interval', async () => {
    const [first] = await drawn();
    const [other] = await drawn(intervalEndMs + 3_600_000);
    expect(other).not.toBe(first);
    expect(first).toContain('"date":"2024-05-01T10:00:00.000Z"');
  });

  test.each([
    ['Date()', `Date().slice(0, 24)`, 'Wed May 01 2024 10:00:00'],
    [
      'a date of a date',
      'new (new Date(5).constructor)().toISOString()',
      '2024-05-01T10:00:00.000Z',
    ],
    ['a format of now', `new Intl.DateTimeFormat('en-US').format()`, '5/1/2024'],
    [
      'parts of now',
      `new Intl.DateTimeFormat('en-US').formatToParts().map(({ value }) => value).join('')`,
      '5/1/2024',
    ],
    [
      'a date of its own',
      `new Date('2020-02-03T04:05:06Z').toISOString()`,
      '2020-02-03T04:05:06.000Z',
    ],
    ['a date by parts', 'new Date(2020, 1, 3).getTime()', 1580688000000],
    [
      'a class of dates',
      '(class extends Date {}) && new (class Day extends Date { day() { return this.getUTCDate(); } })().day()',
      1,
    ],
    ['instanceof', 'new Date() instanceof Date', true],
  ])("are the interval's in %s", async (_, expression, seen) => {
    expect(await see(expression)).toBe(seen);
  });

  test('random numbers spread from 0 to 1', async () => {
    const [after] = await applyPlugin(
      seeing('Array.from({ length: 2000 }, () => Math.random())'),
      someEvent,
    );
    const { seen } = (after as { properties: { seen: number[] } }).properties;
    expect(Math.min(...seen)).toBeGreaterThanOrEqual(0);
    expect(Math.max(...seen)).toBeLessThan(1);
    const mean = seen.reduce((sum, value) => sum + value, 0) / seen.length;
    expect(Math.abs(mean - 0.5)).toBeLessThan(0.05);
  });
});
