import { readSync, writeSync } from 'node:fs';
import { createRequire } from 'node:module';
import { performance } from 'node:perf_hooks';
import { createContext, Script } from 'node:vm';
import type { start } from '../realm/main.ts';
import { describeUnsupportedExport } from './find-unsupported.ts';
import { type Parsers, type ReadSource, readSource } from './read-source.ts';
import type { SourceProblem } from './source-problem.ts';

/**
 * The program of the sandbox's process, outside the plugin's realm, to which it hands texts and numbers. `program.ts`
 * makes one text of this and its imports; no file but the parsers' is read here.
 */

export interface Prepare {
  readonly source: string;
  readonly realm: string;
  readonly parsersFrom: string;
  readonly rowMs: number;
  readonly maxAnswerChars: number;
}

export interface Prepared {
  readonly problems: readonly SourceProblem[];
}

export type Request = 'prepare' | 'inspect' | 'open' | 'batch' | 'close';
/** `progress`: rows done so far; `limit`: which one was exceeded, `time` or `output`. */
export type Answer = 'answer' | 'progress' | 'limit';

type Realm = ReturnType<typeof start>;

const progressMs = 50;
const { cpuUsage } = process;
const { now } = performance;
const clock = now.bind(performance);

let realm: Realm | null = null;
/** The plugin, read but not run: nothing of it runs before the parent has confined this process. */
let plugin: Pick<ReadSource, 'script' | 'isModule'> | null = null;
let limits = { rowMs: 0, maxAnswerChars: 0 };
const context = createContext(Object.create(null), {
  microtaskMode: 'afterEvaluate',
  codeGeneration: { strings: false, wasm: false },
});
/** The realm's microtasks run when a script of it ends. */
const endOfTurn = new Script('0');

export function serve(): void {
  const { setImmediate: later } = globalThis;
  const turn = () => {
    const message = receive();
    if (!message) return;
    handle(message.request, message.body);
    // Between messages Node forgets rejected promises.
    later(turn);
  };
  turn();
}

function handle(request: Request, body: Buffer): void {
  if (request === 'batch') runBatch(body);
  else send('answer', answerTo(request, body.toString('utf8')));
}

function answerTo(request: Exclude<Request, 'batch'>, text: string): string {
  switch (request) {
    case 'prepare':
      return JSON.stringify(prepare(JSON.parse(text)));
    case 'inspect':
      return inspect();
    case 'open': {
      const { config, intervalEndMs } = JSON.parse(text);
      loaded().open(JSON.stringify(config), intervalEndMs);
      return finishAlone();
    }
    case 'close':
      loaded().close();
      return finishAlone();
  }
}

/** Reads the source. Nothing of it runs. */
function prepare(given: Prepare): Prepared {
  limits = given;
  const load = createRequire(given.parsersFrom);
  const parsers: Parsers = {
    acorn: load('acorn'),
    astring: load('astring'),
    sucrase: () => load('sucrase'),
  };
  realm = new Script(given.realm, { filename: 'realm.js' }).runInContext(context).start(parseUrl);
  const globalNames = loaded().globalNames().split(' ');
  const { problems, ...read } = readSource(given.source, globalNames, parsers);
  plugin = read;
  stripProcess();
  return { problems };
}

/** The text is printed from a tree, so a line of it is no line of the source. */
function compile(script: string): Script | SourceProblem {
  try {
    return new Script(script, { filename: 'plugin.js' });
  } catch (error) {
    return { line: null, detail: (error as Error).message };
  }
}

function inspect(): string {
  if (!plugin) throw new Error('There is no plugin.');
  const compiled = compile(plugin.script);
  if ('detail' in compiled) return JSON.stringify({ problems: [compiled] });
  loaded().load(compiled.runInContext(context)(loaded().globals()), plugin.isModule);
  const exported = loaded().exportNames();
  endOfTurn.runInContext(context);
  if (exported.startsWith('!')) {
    return JSON.stringify({
      problems: [{ line: null, detail: `It fails at its start: ${exported.slice(1)}` }],
    });
  }
  const { names, isReady }: { names: string[]; isReady: boolean } = JSON.parse(exported);
  const details = names.flatMap((name) => describeUnsupportedExport(name) ?? []);
  if (!isReady) details.push('It does not export a function processEvent(event, meta).');
  return JSON.stringify({ problems: details.map((detail) => ({ line: null, detail })) });
}

/** @param body for each row its key and its text, each with its length before it */
function runBatch(body: Buffer): void {
  const plugin = loaded();
  let reported = clock();
  let cpu = cpuUsage();
  let at = 0;
  const take = () => {
    const start = at + 4;
    at = start + body.readUInt32LE(at);
    return body.toString('utf8', start, at);
  };
  // A row is read when its turn comes: then it is gone before the collector looks.
  for (let index = 0; at < body.length; index += 1) {
    const started = clock();
    const key = take();
    plugin.row(key, take());
    endOfTurn.runInContext(context);
    const chars = plugin.endRow();
    const ended = clock();
    if (ended - started > limits.rowMs && cpuMsSince(cpu) > limits.rowMs + progressMs) {
      send('limit', 'time');
      return;
    }
    if (chars > limits.maxAnswerChars) {
      send('limit', 'output');
      return;
    }
    if (ended - reported > progressMs) {
      reported = ended;
      cpu = cpuUsage();
      send('progress', String(index + 1));
    }
  }
  send('answer', plugin.takeAnswers());
}

function finishAlone(): string {
  endOfTurn.runInContext(context);
  loaded().endRow();
  return loaded().takeAnswers();
}

function cpuMsSince(start: NodeJS.CpuUsage): number {
  const { user, system } = cpuUsage(start);
  return (user + system) / 1_000;
}

function loaded(): Realm {
  if (!realm) throw new Error('There is no plugin.');
  return realm;
}

const requests: Readonly<Record<string, Request>> = {
  p: 'prepare',
  i: 'inspect',
  o: 'open',
  b: 'batch',
  c: 'close',
};

function receive(): { request: Request; body: Buffer } | null {
  const head = read(5);
  if (!head) return null;
  const body = read(head.readUInt32LE(0));
  const request = requests[String.fromCharCode(head.readUInt8(4))];
  return body && request ? { request, body } : null;
}

function read(length: number): Buffer | null {
  const bytes = Buffer.allocUnsafe(length);
  for (let at = 0; at < length; ) {
    const count = readSync(0, bytes, at, length - at, null);
    if (count === 0) return null;
    at += count;
  }
  return bytes;
}

function send(kind: Answer, text: string): void {
  const length = Buffer.byteLength(text);
  const bytes = Buffer.allocUnsafe(length + 5);
  bytes.writeUInt32LE(length, 0);
  bytes.write(kind, 4, 1);
  bytes.write(text, 5);
  for (let at = 0; at < bytes.length; ) at += writeSync(1, bytes, at);
}

/**
 * For the realm: texts in, one text out. @param part to be set to `value` first; empty for none @returns the parts, one
 * per line; null if it is no URL
 */
function parseUrl(href: string, base: string, part: string, value: string): string | null {
  try {
    const url = base === '' ? new URL(href) : new URL(href, base);
    if (isSettable(part)) url[part] = value;
    const { origin, protocol, username, password, host, hostname, port } = url;
    const lines = [url.href, origin, protocol, username, password, host, hostname, port];
    return [...lines, url.pathname, url.search, url.hash].join('\n');
  } catch {
    return null;
  }
}

type Settable = (typeof settable)[number];

const settable = [
  ...(['protocol', 'username', 'password', 'host', 'hostname', 'port'] as const),
  ...(['pathname', 'search', 'hash'] as const),
];

function isSettable(part: string): part is Settable {
  return (settable as readonly string[]).includes(part);
}

/** Globals of the host realm that are part of the language; the sandbox's program needs Buffer and URL. */
const used = new Set([
  ...['Object', 'Function', 'Array', 'Number', 'Boolean', 'String', 'Symbol', 'BigInt', 'RegExp'],
  ...['Promise', 'Map', 'Set', 'WeakMap', 'WeakSet', 'Proxy', 'Reflect', 'JSON', 'Math', 'Date'],
  ...['Error', 'TypeError', 'RangeError', 'SyntaxError', 'undefined', 'NaN', 'Infinity'],
  ...['Uint8Array', 'ArrayBuffer', 'Buffer', 'URL'],
]);

/** From the host realm: files, network, processes and native code. The realm's wall is only the first line of defence. */
function stripProcess(): void {
  const names = [
    ...['binding', '_linkedBinding', 'dlopen', 'getBuiltinModule', 'mainModule', 'kill', '_kill'],
    ...['_debugProcess', '_debugEnd', '_startProfilerIdleNotifier', 'chdir', 'umask', 'abort'],
    ...['stdin', 'stdout', 'stderr', 'openStdin', 'permission', 'report'],
    ...['env', 'argv', 'execArgv'],
    ...['reallyExit', 'exit', 'setuid', 'setgid', 'seteuid', 'setegid', 'setgroups', 'initgroups'],
    ...['loadEnvFile', '_getActiveHandles', '_getActiveRequests', '_rawDebug', 'moduleLoadList'],
  ];
  for (const name of names) Reflect.deleteProperty(process, name);
  for (const name of Object.getOwnPropertyNames(globalThis)) {
    if (!used.has(name)) Reflect.deleteProperty(globalThis, name);
  }
}
