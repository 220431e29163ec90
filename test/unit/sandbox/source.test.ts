import { describe, expect, test } from 'vitest';
import { inspectPlugin } from '../../../src/extensions/own-plugins/own-plugins.ts';
import { firstByDay } from '../../support/nightly.ts';
import {
  applyPlugin,
  rowOf,
  see,
  someEvent,
  withPlugin,
  applyRows,
} from '../../support/sandbox/apply-plugin.ts';

const marked = { ...someEvent, event: 'seen' };

describe('a plugin may be written', () => {
  test.each(
    firstByDay<readonly [string, string]>(3, [
      [
        'as a module with a list of exports',
        `async function change(event) { event.event = 'seen'; return event; }\nexport { change as processEvent };`,
      ],
      [
        'as compilers write it',
        `"use strict";\nObject.defineProperty(exports, "__esModule", { value: true });\nexports.processEvent = void 0;\nasync function processEvent(event, _) { event.event = 'seen'; return event; }\nexports.processEvent = processEvent;`,
      ],
      [
        'in TypeScript',
        `import { PluginEvent, Meta } from '@posthog/plugin-scaffold';\nimport type { Other } from 'other';\ntype Config = Meta<{ config: { word: string } }>;\nenum Word { Seen = 'seen' }\nexport async function processEvent(event: PluginEvent, _meta: Config): Promise<PluginEvent | null> {\n  event.event = Word.Seen as string;\n  return event!;\n}`,
      ],
      [
        'as a module',
        `export function processEvent(event) { event.event = 'seen'; return event; }`,
      ],
      [
        'as a module with constants',
        `const word = 'seen';\nexport const processEvent = async (event) => ({ ...event, event: word });`,
      ],
      [
        'with exports',
        `exports.processEvent = (event) => { event.event = 'seen'; return event; };`,
      ],
      [
        'with module.exports',
        `module.exports = { processEvent(event) { event.event = 'seen'; return event; }, isFor: () => true };`,
      ],
      [
        'with the names of its host',
        `const exports_ = 1; const $exports = 2; function Array() {}\nexport const processEvent = (event) => ({ ...event, event: 'seen' });`,
      ],
      [
        'with a class of errors',
        `class Lost extends Error { constructor(text) { super(text); this.name = 'Lost'; this.message = text; } toString() { return 'x'; } }\nexport const processEvent = (event) => ({ ...event, event: new Lost('a').name === 'Lost' ? 'seen' : '' });`,
      ],
    ]),
  )('%s', async (_, source) => {
    expect(await inspectPlugin(source)).toEqual([]);
    expect(await applyPlugin(source, someEvent)).toEqual([marked]);
  });
});

describe('the hooks', () => {
  test('get the config, what the setup kept, and write to the log once', async () => {
    const lines: string[] = [];
    const source = `
      console.log('loaded');
      export async function setupPlugin({ config, global }) {
        await null;
        global.word = config.word + '!';
        console.warn('set up', config);
      }
      export function processEvent(event, meta) {
        console.log('row', event.uuid);
        return { ...event, event: meta.global.word };
      }
      export function teardownPlugin({ global }) { console.info('end', global.word); }`;
    const onLog = (found: readonly { level: string; text: string }[]) => {
      lines.push(...found.map(({ level, text }) => `${level} ${text}`));
    };
    const results = await applyPlugin(
      { source, config: { word: 'hi' }, onLog },
      someEvent,
      someEvent,
    );
    expect(results).toEqual(Array(2).fill({ ...someEvent, event: 'hi!' }));
    expect(lines).toEqual([
      'info loaded',
      'warn set up {"word":"hi"}',
      'info row u1',
      'info row u1',
      'info end hi!',
    ]);
  });

  test('may drop a row', async () => {
    const source = `export const processEvent = async (event) => (event.event === 'paid' ? null : event);`;
    expect(await applyPlugin(source, someEvent, marked)).toEqual([null, marked]);
  });

  test('end the run if the setup fails, with its text', async () => {
    const source = `export async function setupPlugin({ config }) { if (!config.key) throw new Error('Set a key.'); }
      export const processEvent = (event) => event;`;
    await expect(applyPlugin(source, someEvent)).rejects.toMatchObject({
      fault: 'setup',
      message: 'its setupPlugin failed: Error: Set a key.',
    });
  });
});

test('what a plugin does not change keeps its text', async () => {
  const text =
    '{"id": 9007199254740993, "price": 1.10, "big": 1e400, "properties": {"n": 12345678901234567890, "list": [1.0, 2.0, {"deep": 3.00}], "word": "\\u00e9"}}';
  /** What is done to one row each, and the text after it. */
  const changes = [
    ['nothing', '', text],
    ['a new member', 'event.properties.x = 1;', text.replace('"\\u00e9"}', '"\\u00e9", "x": 1}')],
    [
      'a member that goes',
      'delete event.properties.n;',
      text.replace('"n": 12345678901234567890, ', ''),
    ],
    [
      'a member without a value',
      'event.properties.n = undefined;',
      text.replace('"n": 12345678901234567890, ', ''),
    ],
    ['an element', 'event.properties.list[0] = 7;', text.replace('[1.0', '[7')],
    [
      'an element deep below',
      'event.properties.list[2].deep = 4;',
      text.replace('3.00', '4').replace('{"deep"', '{"deep"'),
    ],
    ['a new element', 'event.properties.list.push("x");', text.replace('3.00}]', '3.00}, "x"]')],
    [
      'a shorter list',
      'event.properties.list.length = 1;',
      text.replace('[1.0, 2.0, {"deep": 3.00}]', '[1.0]'),
    ],
    [
      'a copy',
      'event = JSON.parse(JSON.stringify({ ...event, big: Infinity })); event.big = Infinity;',
      text,
    ],
    ['a date', 'event.price = new Date(0);', text.replace('1.10', '"1970-01-01T00:00:00.000Z"')],
    [
      'an object that says itself how it is written',
      'const held = event.properties; event.properties = { toJSON: () => held };',
      text,
    ],
    ['a number in an object', 'event.price = Object(1.5);', text.replace('1.10', '1.5')],
    ['an event of a class', 'event = Object.assign(new (class Paid {})(), event);', text],
    [
      'another kind',
      'event.properties.list = { a: 1 };',
      text.replace('[1.0, 2.0, {"deep": 3.00}]', '{"a":1}'),
    ],
  ] as const;
  const functions = changes.map(([, change]) => `(event) => { ${change} return event; }`);
  const source = `const changes = [${functions}];
    export const processEvent = (event) => changes[event.at](event);`;
  const withPlace = (json: string, at: number) => `{"at": ${at}, ${json.slice(1)}`;
  const given = changes.map((_, at) => ({ key: String(at), row: rowOf(withPlace(text, at)) }));
  const results = await withPlugin(source, (sandbox) => applyRows(sandbox, given));
  expect(results[0]).toBe(given[0]?.row);
  const textOf = (result: (typeof results)[number]) =>
    result && 'text' in result ? result.text.replaceAll(' ', '') : result;
  expect(results.map((result, at) => [changes[at]?.[0], textOf(result)])).toEqual(
    changes.map(([what, , after], at) => [what, withPlace(after, at).replaceAll(' ', '')]),
  );
});

/** Expressions, and what they are in a plugin. */
const globals = [
  [
    'parts of a URL',
    `(() => { const url = new URL('/a?b=1#c', 'https://u:p@h.example:8080/x'); return [url.href, url.origin, url.host, url.port, url.pathname, url.search, url.hash, url.username].join(' '); })()`,
    'https://u:p@h.example:8080/a?b=1#c https://h.example:8080 h.example:8080 8080 /a ?b=1 #c u',
  ],
  [
    'a changed URL',
    `(() => { const url = new URL('https://h.example/?a=1&b=2'); url.searchParams.delete('a'); url.searchParams.append('ä', 'x y'); url.hash = 'z'; return String(url); })()`,
    'https://h.example/?b=2&%C3%A4=x+y#z',
  ],
  [
    'no URL',
    `(() => { try { new URL('nothing'); } catch (error) { return error instanceof TypeError; } })()`,
    true,
  ],
  [
    'parameters',
    `[...new URLSearchParams('?a=1&b=%20x+y&a=2')].join(';') + new URLSearchParams({ q: '1' }).get('q')`,
    'a,1;b, x y;a,21',
  ],
  ['base64', `btoa('hällo') + atob('aORsbG8=') + atob(btoa('')) + btoa('a')`, 'aORsbG8=hälloYQ=='],
  ['a microtask', `new Promise((resolve) => queueMicrotask(() => resolve(5)))`, 5],
] as const;

test('plugins have URLs, base64 and microtasks', async () => {
  const expressions = globals.map(([, expression]) => expression);
  const seen = (await see(`Promise.all([${expressions}])`)) as readonly unknown[];
  expect(seen.map((value, at) => [globals[at]?.[0], value])).toEqual(
    globals.map(([name, , value]) => [name, value]),
  );
});

describe('a plugin is refused at its installation', () => {
  const good = 'export function processEvent(event) { return event; }\n';
  const noExport = (name: string) =>
    `The export ${name} is not supported. Export processEvent, setupPlugin and teardownPlugin.`;
  const noField = (name: string) =>
    `meta.${name} is not supported. Plugins have meta.config and meta.global.`;
  test.each([
    [
      'a mistake in JavaScript',
      'export function processEvent(event) {\n  return event event;\n}',
      'Line 2: ',
    ],
    [
      'a mistake in TypeScript',
      'type A = string;\nexport function processEvent(event: A) {\n  const x: = 5;\n}',
      'Line 3: ',
    ],
    ['what strict code refuses', `${good}with (Math) {}`, 'Line 2: '],
    [
      'an import',
      `import { createHash } from 'crypto';\n${good}console.log(createHash)`,
      'Line 1: The import of "crypto" is not supported. A plugin is one file and imports nothing.',
    ],
    [
      'require',
      `${good}const fs = require('fs');`,
      'Line 2: require("fs") is not supported. A plugin is one file and imports nothing.',
    ],
    [
      'a default export',
      `export default { processEvent() {} };`,
      'Line 1: export default is not supported. Export processEvent by its name.',
    ],
    ['another export', `${good}export async function onEvent() {}`, noExport('onEvent')],
    [
      'no processEvent',
      'export const setupPlugin = () => {};',
      'It does not export a function processEvent(event, meta).',
    ],
    [
      'an import of a global',
      `import { URL, URLSearchParams } from 'url';\n${good}`,
      'Line 1: The import of "url" is not supported. A plugin is one file and imports nothing. Remove this line: URL and URLSearchParams are globals here.',
    ],
    ['a start that fails', `${good}throw new Error('no');`, 'It fails at its start: Error: no'],
    [
      'a field of meta',
      `export function processEvent(event, meta) {\n  meta.storage.set('a', 1);\n  return event;\n}`,
      noField('storage'),
    ],
    [
      'a variable that is a field of meta',
      `exports.setupPlugin = function (meta) { const { geoip } = meta; };\nexports.processEvent = (event) => event;`,
      `Line 1: ${noField('geoip')}`,
    ],
    [
      'a very long text',
      `${good}//${'x'.repeat(1_000_000)}`,
      'It is longer than 1000000 characters.',
    ],
  ])('for %s', async (_, source, detail) => {
    const problems = await inspectPlugin(source);
    expect(problems[0]).toMatchObject({ code: 'invalid_input', attr: 'source' });
    expect(problems[0]?.detail).toContain(detail);
  });

  test('and runs nowhere', async () => {
    const running = applyPlugin(`${good}with (Math) {}`, someEvent);
    await expect(running).rejects.toMatchObject({ fault: 'invalid' });
  });
});
