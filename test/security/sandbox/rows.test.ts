import { beforeAll, describe, expect, test } from 'vitest';
import type { PluginRowError } from '../../../src/extensions/own-plugins/sandbox.ts';
import {
  applyPlugin,
  rowOf,
  shown,
  someEvent,
  withPlugin,
  applyRows,
} from '../../support/sandbox/apply-plugin.ts';

const plain = { uuid: 'u2', event: 'plain', properties: {} };

/** Only events named `paid` meet the plugin's bad side. */
const sometimes = (bad: string) => `export function processEvent(event, meta) {
  if (event.event !== 'paid') return event;
  ${bad}
}`;

const threw = (what: string) => `The plugin threw ${what}.`;
const answerThrew = (name: string) => `The event it returned threw a ${name}.`;
const neverSettles = 'The promise that processEvent returned never settles.';
const returned = (what: string) =>
  `processEvent returned ${what}. Return the event, or null to drop it.`;

/** What a plugin may do with a row, and the reason of its error. */
const faults: readonly (readonly [name: string, code: string, reason: string])[] = [
  ['a throw', `throw new TypeError('of ' + event.properties.email);`, threw('a TypeError')],
  ['a rejection', 'return Promise.reject(new RangeError(event.uuid));', threw('a RangeError')],
  ['a thrown text', `throw 'a@b.c';`, threw('a value')],
  ['a thrown null', 'throw null;', threw('a value')],
  [
    'an error whose name throws',
    'throw Object.defineProperty(new Error(), "name", { get() { throw 1; } });',
    threw('an Error'),
  ],
  [
    'an error whose name is a value of the row',
    'const error = new Error(); error.name = event.properties.email; throw error;',
    threw('a value'),
  ],
  [
    'a thrown proxy',
    'throw new Proxy({}, { get() { throw 1; }, getPrototypeOf() { throw 1; } });',
    threw('an Error'),
  ],
  ['a promise that never settles', 'return new Promise(() => {});', neverSettles],
  ['a thenable that never calls back', 'return { then() {} };', neverSettles],
  ['nothing', 'return;', returned('nothing')],
  ['a number', 'return 5;', returned('number')],
  ['a list', 'return [event];', returned('a list')],
  ['a date', 'return new Date();', returned('no object')],
  [
    'a getter that throws',
    'return { ...event, get properties() { throw new TypeError("x"); } };',
    answerThrew('TypeError'),
  ],
  [
    'a proxy that throws',
    'return new Proxy(event, { ownKeys() { throw new TypeError("x"); } });',
    answerThrew('TypeError'),
  ],
  ['a circle', 'event.properties.self = event; return event;', answerThrew('TypeError')],
  [
    'a toJSON that throws',
    'event.properties.x = { toJSON() { throw new RangeError("x"); } }; return event;',
    answerThrew('RangeError'),
  ],
  [
    'a field of meta that is not there',
    'const key = "storage"; return meta[key].get(1);',
    threw('a TypeError'),
  ],
];

describe('is an error of its row alone', () => {
  let results: readonly unknown[];
  beforeAll(async () => {
    const source = `const faults = [${faults.map(([, code]) => `(event, meta) => { ${code} }`).join(',')}];
      export const processEvent = (event, meta) =>
        event.fault === undefined ? event : faults[event.fault](event, meta);`;
    const rows = faults.flatMap((_, fault) => [plain, { ...someEvent, fault }, plain]);
    results = await applyPlugin(source, ...rows);
  });

  test.each(faults.map(([name, , reason], fault) => [name, reason, 3 * fault] as const))(
    '%s',
    (_, reason, from) => {
      expect(results.slice(from, from + 3)).toEqual([plain, `error: ${reason}`, plain]);
    },
  );

  test('a row that is nested very deeply, if the plugin changes it', async () => {
    const deep = `{"uuid":"u3","event":"deep","properties":${'['.repeat(50_000)}${']'.repeat(50_000)}}`;
    const rows = [plain, deep, plain].map((event, index) => ({
      key: `${index}`,
      row: rowOf(event),
    }));
    const source = 'export const processEvent = (event) => ({ ...event, event: "x" });';
    const results = await withPlugin(source, (sandbox) => applyRows(sandbox, rows));
    const [first, second, third] = results.map((row) =>
      row && 'text' in row ? 'row' : String(row),
    );
    expect([first, third]).toEqual(['row', 'row']);
    expect(second).toContain('RangeError');
  });
});

test('the reason of an error quotes no value; its detail does', async () => {
  const source = sometimes('throw new Error("bad address " + event.properties.email);');
  const [error] = await withPlugin(source, (sandbox) =>
    applyRows(sandbox, [{ key: '1', row: rowOf(someEvent) }]),
  );
  expect((error as PluginRowError).message).toBe('The plugin threw an Error.');
  expect((error as PluginRowError).detail).toBe('Error: bad address a@b.c');
});

test('members named __proto__ and constructor come and go like any other', async () => {
  const text =
    '{"event":"x","properties":{"__proto__":{"polluted":1},"constructor":{"prototype":2},"toString":3}}';
  const source = `export function processEvent(event) {
    const copy = {};
    for (const name of Object.keys(event.properties)) copy[name] = event.properties[name];
    copy.polluted = String({}.polluted);
    return { ...event, properties: copy };
  }`;
  const [after] = await withPlugin(source, (sandbox) =>
    applyRows(sandbox, [{ key: '1', row: rowOf(text) }]),
  );
  expect(JSON.stringify(shown(after))).toBe(
    '{"event":"x","properties":{"__proto__":{"polluted":1},"constructor":{"prototype":2},"toString":3,"polluted":"undefined"}}',
  );
});

test('what a promise does after its row has an answer changes nothing', async () => {
  const source = `export function processEvent(event) {
    let turns = 0;
    const later = () => {
      event.properties.late = Math.random();
      if ((turns += 1) < 100) Promise.resolve().then(later);
    };
    Promise.resolve().then(later);
    if (event.event === 'paid') event.properties.random = Math.random();
    return event;
  }`;
  const [, alone] = await applyPlugin(source, plain, someEvent);
  const [, again] = await applyPlugin(
    'export function processEvent(event) { if (event.event === "paid") event.properties.random = Math.random(); return event; }',
    plain,
    someEvent,
  );
  expect(alone).toEqual(again);
});

test('a flood of lines is cut', async () => {
  const logs: number[] = [];
  const source = `export function processEvent(event) {
    for (let n = 0; n < 20000; n += 1) console.log('x'.repeat(5000), { n });
    return event;
  }`;
  const onLog = (lines: readonly { text: string }[], omitted: number) => {
    logs.push(lines.length, Math.max(...lines.map(({ text }) => text.length)), omitted);
  };
  const results = await applyPlugin({ source, onLog, limits: { rowMs: 30_000 } }, someEvent);
  expect(results).toEqual([someEvent]);
  expect(logs).toEqual([200, 1_000, 19_800]);
});
