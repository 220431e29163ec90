import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { inspectPlugin } from '../../../src/extensions/own-plugins/own-plugins.ts';
import { openSandbox, type Sandbox } from '../../../src/extensions/own-plugins/sandbox.ts';
import { casesOf } from '../../support/nightly.ts';
import {
  applyPlugin,
  intervalEndMs,
  rowOf,
  shown,
  someEvent,
  applyRows,
} from '../../support/sandbox/apply-plugin.ts';

/** What a plugin tries, and what it gets. */
const attempts: readonly (readonly [name: string, expression: string, seen: unknown])[] = [
  [
    'the constructor of a constructor',
    `event.constructor.constructor('return process')()`,
    'EvalError',
  ],
  ['the constructor of async functions', `(async () => {}).constructor('return 1')`, 'EvalError'],
  ['the constructor of generators', `(function* () {}).constructor('yield 1')`, 'EvalError'],
  [
    'the constructor of async generators',
    `(async function* () {}).constructor('yield 1')`,
    'EvalError',
  ],
  [
    'the constructor through Reflect',
    `Reflect.construct(Object.getPrototypeOf(async () => {}).constructor, ['return 1'])`,
    'EvalError',
  ],
  ['a class that extends Function', `new (class extends Function {})('return this')`, 'EvalError'],
  ['the constructor of console.log', `console.log.constructor('return process')()`, 'EvalError'],
  ['eval', `eval('1')`, 'ReferenceError'],
  ['indirect eval', `(0, globalThis.eval)('1')`, 'TypeError'],
  ['process.binding', `process.binding('fs')`, 'ReferenceError'],
  ['the global object of a function', `(function () { return typeof this; })()`, 'undefined'],
  [
    'the global object of a callback',
    `[1].map(function () { return typeof this; })[0]`,
    'undefined',
  ],
  [
    'what reaches outside',
    `[typeof fetch, typeof module.require, typeof setTimeout, typeof setInterval, typeof Buffer, typeof WebAssembly, typeof XMLHttpRequest, typeof performance].join()`,
    Array(8).fill('undefined').join(),
  ],
  [
    'shared memory',
    `[typeof SharedArrayBuffer, typeof Atomics, typeof ArrayBuffer, typeof Uint8Array].join()`,
    Array(4).fill('undefined').join(),
  ],
  [
    'what shows the garbage collector',
    `[typeof WeakRef, typeof FinalizationRegistry].join()`,
    'undefined,undefined',
  ],
  ['a new global', `(globalThis.leak = 1)`, 'TypeError'],
  ['a variable that was not declared', `(leak = 1)`, 'ReferenceError'],
  ['another Array', `(Array = null)`, 'TypeError'],
  ['the prototype of lists', `(Array.prototype.leak = 1)`, 'TypeError'],
  ['the prototype of objects', `(Object.prototype.leak = 1)`, 'TypeError'],
  ['a method of all objects', `(Object.prototype.toString = () => 'x')`, 'TypeError'],
  ['__proto__', `typeof ({}).__proto__`, 'undefined'],
  [
    'another prototype for all objects',
    `Object.setPrototypeOf(Object.prototype, { leak: 1 })`,
    'TypeError',
  ],
  ['promises that report', `(Promise.prototype.then = () => 1)`, 'TypeError'],
  ['iterators that report', `(Object.getPrototypeOf([].values()).next = () => 1)`, 'TypeError'],
  [
    'the prototype of generators',
    `(Object.getPrototypeOf(Object.getPrototypeOf((function* () {})())).leak = 1)`,
    'TypeError',
  ],
  ['Error.prepareStackTrace', `(Error.prepareStackTrace = (error, calls) => calls)`, 'TypeError'],
  [
    'Error.captureStackTrace',
    `(() => { const into = {}; Error.captureStackTrace(into); return typeof into.stack; })()`,
    'undefined',
  ],
  ['the stack of an error', `typeof new Error('x').stack`, 'undefined'],
  [
    'an error of a stack that is full',
    `(() => { const f = () => f(); try { f(); } catch (error) { return error.constructor === RangeError; } })()`,
    true,
  ],
  [
    'errors of the URL parser on a stack that is full',
    `(() => {
    const seen = new Set();
    const dig = () => {
      try { new URL('https://a.b/c'); } catch (error) { seen.add(error instanceof Error); }
      dig();
    };
    try { dig(); } catch (error) { seen.add(error instanceof Error); }
    return [...seen].join();
  })()`,
    'true',
  ],
  ['the arguments of its caller', `(function f() { return f.caller; })()`, 'TypeError'],
  ['what a regular expression remembers', `(/(a)/.exec('a'), typeof RegExp.$1)`, 'undefined'],
];

describe('a plugin has no way out by', () => {
  let sandbox: Sandbox;
  beforeAll(async () => {
    const source = `const attempts = [${attempts.map(([, expression]) => `async (event, meta) => (${expression})`).join(',')}];
      export async function processEvent(event, meta) {
        let seen;
        try { seen = await attempts[event.attempt](event, meta); }
        catch (error) { seen = error.name + ': ' + error.message; }
        return { ...event, properties: { seen: seen === undefined ? 'undefined' : seen } };
      }`;
    sandbox = await openSandbox({ source, config: {}, intervalEndMs });
  });
  afterAll(() => sandbox.close());

  test.each(attempts.map(([name, , seen], attempt) => [name, seen, attempt] as const))(
    '%s',
    async (_, seen, attempt) => {
      const [after] = await applyRows(sandbox, [
        { key: '1', row: rowOf({ ...someEvent, attempt }) },
      ]);
      const { properties } = shown(after) as { properties: { seen: unknown } };
      expect(kindOf(properties.seen)).toBe(seen);
    },
  );
});

/** The name of an error; its text is the engine's, and changes. */
function kindOf(seen: unknown): unknown {
  return typeof seen === 'string' ? seen.replace(/^(\w+Error): .*$/s, '$1') : seen;
}

test('all that a plugin can reach of the language is frozen', async () => {
  const source = `export function processEvent(event, meta) {
    const open = [];
    const seen = new Set();
    const visit = (value, path) => {
      if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return;
      if (seen.has(value)) return;
      seen.add(value);
      if (!Object.isFrozen(value)) open.push(path);
      visit(Object.getPrototypeOf(value), path + '.[[prototype]]');
      for (const key of Reflect.ownKeys(value)) {
        const { get, set, value: held } = Object.getOwnPropertyDescriptor(value, key);
        for (const [name, part] of Object.entries({ get, set, held })) visit(part, path + '.' + String(key) + ':' + name);
      }
    };
    const segments = new Intl.Segmenter().segment('a');
    const roots = {
      globalThis, function: Object.getPrototypeOf(() => {}), meta: Object.getPrototypeOf(meta),
      generator: Object.getPrototypeOf((function* () {})()), asyncGenerator: Object.getPrototypeOf((async function* () {})()), url: new URL('https://a.b'),
      asyncFunction: async () => {}, asyncGeneratorFunction: async function* () {}, generatorFunction: function* () {},
      params: new URLSearchParams(), list: [].values(), map: new Map().entries(), set: new Set().values(),
      string: ''[Symbol.iterator](), matches: 'a'.matchAll(/a/g), segments, segment: segments[Symbol.iterator](),
      arguments: (function () { return Object.getOwnPropertyDescriptor(arguments, 'callee').get; })(),
      format: new Intl.NumberFormat(), promise: (async () => {})(), symbol: Object(Symbol('a')), big: Object(1n),
      helper: [].values().map?.(() => 1), wrapped: globalThis.Iterator?.from({ next() {} }), error: new TypeError('x'),
    };
    for (const [name, root] of Object.entries(roots)) {
      if (root !== undefined) visit(name === 'globalThis' || name === 'arguments' ? root : Object.getPrototypeOf(root), name);
    }
    return { ...event, properties: { open, seen: seen.size } };
  }`;
  const [after] = await applyPlugin(source, someEvent);
  const { properties } = after as { properties: { open: string[]; seen: number } };
  expect(properties.open).toEqual([]);
  expect(properties.seen).toBeGreaterThan(500);
});

test('parsers are not held up or ended by a hostile text', async () => {
  for (const source of ['('.repeat(200_000), '[{a:'.repeat(50_000), `${'a<'.repeat(20_000)}b`]) {
    expect(await inspectPlugin(source)).toHaveLength(1);
  }
});

describe('a plugin is refused that hides from the parser', () => {
  test.each([
    [
      'import()',
      `export const processEvent = (event) => import('node:fs');`,
      'import("node:fs") is not supported',
    ],
    [
      'import.meta',
      `export const processEvent = (event) => import.meta.url;`,
      'import.meta is not supported',
    ],
    [
      'braces that close its function',
      `exports.processEvent = (event) => event; }(); module.x = function () {`,
      '',
    ],
  ])('%s', async (_, source, detail) => {
    const problems = await inspectPlugin(source);
    expect(problems).not.toEqual([]);
    expect(problems.map((problem) => problem.detail).join()).toContain(detail);
  });
});

/** Sources that two parsers read differently, and what the tree says that was checked. */
describe('the engine runs what was checked, not what it could read', () => {
  const sources = casesOf<readonly [name: string, source: string]>(
    [
      [
        'a name `of` before a regular expression',
        `let hit = 'checked'; let a = 1, of = 2, g = 1;\nexport function processEvent(event) {\na\n\nof\n/ (hit = typeof import("x")) /g\nevent.got = String(hit); return event; }`,
      ],
      [
        'a comment of HTML',
        'export function processEvent(event) { let y = 0; y <!--y + `\nimport("fs")//`\nevent.got = "checked"; return event }',
      ],
      [
        'an arrow of HTML',
        'export function processEvent(event) { let x = 1, y = 0; while (x\n--> y) event.got = "checked"; return event; }',
      ],
    ],
    [
      [
        'await of a function',
        `let hit = 'checked'; let g = 1;\nexport async function processEvent(event) {\nawait function () {}\n/ (hit = typeof import("x")) /g\nevent.got = hit; return event; }`,
      ],
      [
        'await of a class',
        `let hit = 'checked'; let g = 1;\nexport async function processEvent(event) {\nawait class {}\n/ (hit = typeof import("x")) /g\nevent.got = hit; return event; }`,
      ],
      [
        'a property `do` behind ?.',
        `let hit = 'checked'; let g = 1, o = { do: 1 };\nexport function processEvent(event) {\no?.do\n/ (hit = typeof import("x")) /g\nevent.got = hit; return event; }`,
      ],
      [
        'braces behind a comment of HTML',
        'let y = 0; y <!--y + `\n}();}; ({})/*`;/**/ module.exports = { processEvent(event) { event.got = "checked"; return event; } };',
      ],
    ],
  );
  test.each(sources)('%s', async (_, source) => {
    // Refused, or run as it was checked: the property `got` shows that nothing else ran.
    const problems = await inspectPlugin(source);
    if (problems.length > 0) return;
    expect(await applyPlugin(source, someEvent)).toEqual([{ ...someEvent, got: 'checked' }]);
  });

  test('a text, a name or a pattern may have the word import', async () => {
    const source = `const important = 'import("x") \\\\import'; class A { #imported = 1; read() { return this.#imported; } }
      const held = { import: 2, 'import x': 3 };
      export function processEvent(event) {
        const found = /^utm_import[a-z]*$/i.exec('utm_IMPORTED');
        event.got = [important, \`an \${held.import} import\`, held['import x'], new A().read(), found[0], held.import];
        return event;
      }`;
    const got = ['import("x") \\import', 'an 2 import', 3, 1, 'utm_IMPORTED', 2];
    expect(await inspectPlugin(source)).toEqual([]);
    expect(await applyPlugin(source, someEvent)).toEqual([{ ...someEvent, got }]);
  });

  test('a place where the word cannot be escaped is refused', async () => {
    const source = 'export const processEvent = (event) => (/\\import/.test("x"), event);';
    const [problem] = await inspectPlugin(source);
    expect(problem?.detail).toContain('The word import is not supported here.');
  });
});
