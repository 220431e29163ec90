/** Its host hands over and gets back texts and numbers only: no object of the host to start from. */
import { atob, btoa } from './base64.ts';
import { type Change, copy, diff } from './diff.ts';
import { freezeLanguage, takeGlobals, tameLanguage } from './harden.ts';
import { makeLog } from './plugin-log.ts';
import { type Reseed, tameTimeAndChance } from './time-and-chance.ts';
import { addUrls, type ParseUrl } from './urls.ts';

/** A plugin as a function: each call is a fresh instance of its module. */
type Instantiate = (module: { exports: unknown }, exports: unknown, named: object) => void;
type Hook = (...given: unknown[]) => unknown;
type Meta = { readonly config: object; readonly global: object };

/** Fields of `meta` that other hosts of plugins have. */
const unsupportedFields = ['storage', 'cache', 'geoip', 'jobs', 'metrics', 'attachments', 'utils'];

const { freeze } = Object;
const { parse, stringify } = JSON;
const nativePromise = Promise;

interface Plugin {
  readonly instantiate: Instantiate;
  readonly isModule: boolean;
  /** It has only texts, so a copy of it shares nothing. */
  readonly config: Readonly<Record<string, string>>;
}

/** The host calls these. */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: only this closure can reach its state
export function start(parseUrl: ParseUrl) {
  const log = makeLog();
  const globals = takeGlobals();
  const reseed: Reseed = tameTimeAndChance(globals);
  addUrls(globals, parseUrl);
  tameLanguage(globals);
  globals.atob = atob;
  globals.btoa = btoa;
  globals.console = log.console;
  globals.queueMicrotask = (task: () => void) => void nativePromise.resolve().then(task);
  globals.globalThis = { ...globals };
  freezeLanguage(globals);

  let plugin: Plugin | null = null;
  let nowMs = 0;
  let answers: string[] = [];
  let answerChars = 0;
  let isPending = false;

  const instantiate = (): Record<string, unknown> => {
    if (!plugin) throw new TypeError('There is no plugin.');
    const module = { exports: {} as unknown };
    const named = {};
    plugin.instantiate(module, module.exports, named);
    const { exports } = module;
    const exported = plugin.isModule ? named : exports;
    return (typeof exported === 'object' && exported !== null ? exported : {}) as Record<
      string,
      unknown
    >;
  };

  const runHook = (name: string, event: unknown, done: (value: unknown) => void, fail: Hook) => {
    // Each row has its instance and its setup; the log has them once.
    log.isOpen = name === 'setupPlugin';
    try {
      const exports = instantiate();
      const meta = makeMeta({ ...plugin?.config });
      const { setupPlugin } = exports;
      const run = () => {
        freeze(meta.global);
        log.isOpen = true;
        if (name === 'setupPlugin') return undefined;
        const hook = exports[name];
        if (typeof hook === 'function')
          return event === null ? hook(meta) : hook(copy(event), meta);
        if (name === 'teardownPlugin') return undefined;
        throw new TypeError(`The plugin does not export ${name}.`);
      };
      const ready = typeof setupPlugin === 'function' ? setupPlugin(meta) : undefined;
      const result = isThenable(ready) ? nativePromise.resolve(ready).then(run) : run();
      if (isThenable(result)) nativePromise.resolve(result).then(done).catch(fail);
      else done(result);
    } catch (error) {
      fail(error);
    }
  };

  const answer = (text: string): undefined => {
    if (!isPending) return;
    isPending = false;
    answers[answers.length] = text;
    answerChars += text.length + 1;
  };

  return freeze({
    globalNames: () => Object.keys(globals).join(' '),
    globals: () => globals,

    load(instantiatePlugin: Instantiate, isModule: boolean): void {
      plugin = { instantiate: instantiatePlugin, isModule, config: {} };
    },

    /** @returns the names that the plugin exports, as JSON, or `!` and the error */
    exportNames(): string {
      try {
        reseed('', 0);
        log.isOpen = false;
        const exports = instantiate();
        const names = Object.keys(exports).filter((name) => exports[name] !== undefined);
        const isReady = typeof exports.processEvent === 'function';
        return stringify({ names, isReady });
      } catch (error) {
        return `!${describe(error)}`;
      }
    },

    /** Keeps the config and runs one setup, whose result `takeAnswers` gives. */
    open(configText: string, intervalEndMs: number): void {
      if (plugin) plugin = { ...plugin, config: parse(configText) };
      nowMs = intervalEndMs;
      runAlone('setupPlugin');
    },

    close(): void {
      runAlone('teardownPlugin');
    },

    /** It has ended when the microtasks have. */
    row(key: string, text: string): void {
      isPending = true;
      reseed(key, nowMs);
      // The plugin gets a copy, so this is the row as it was given.
      const before = parse(text);
      const done = (result: unknown) => answer(describeResult(before, result));
      runHook('processEvent', before, done, (error) => answer(describeError(error)));
    },

    endRow(): number {
      answer(stringify({ e: ['never settled', ''] }));
      return answerChars;
    },

    /** A line for each row since the last call, and one for the log. No text of JSON has a line break. */
    takeAnswers(): string {
      answers[answers.length] = stringify(log.take());
      const text = answers.join('\n');
      answers = [];
      answerChars = 0;
      return text;
    },
  });

  function runAlone(hook: string): void {
    answers = [];
    isPending = true;
    reseed('', nowMs);
    const done = () => answer('0');
    runHook(hook, null, done, (error) => answer(describeError(error)));
  }
}

/** A constructor makes it: an object that gets its prototype in a literal takes several times as long. */
function NewMeta(this: Record<string, unknown>, config: object) {
  this.config = config;
  this.global = {};
}

function makeMeta(config: object): Meta {
  return new (NewMeta as unknown as new (config: object) => Meta)(config);
}

NewMeta.prototype = {};
for (const name of unsupportedFields) {
  const get = (): never => {
    throw new TypeError(`meta.${name} is not supported.`);
  };
  Object.defineProperty(NewMeta.prototype, name, { get });
}
freeze(NewMeta.prototype);

/** `0`: unchanged, `null`: dropped, an object: what changed, or the error. */
function describeResult(before: unknown, result: unknown): string {
  if (result === null) return 'null';
  if (typeof result !== 'object' || Array.isArray(result)) {
    const kind = Array.isArray(result)
      ? 'a list'
      : result === undefined
        ? 'nothing'
        : typeof result;
    return stringify({ e: ['returned', kind] });
  }
  try {
    const change: Change | undefined = diff(before, result);
    if (!change) return '0';
    if ('v' in change) return stringify({ e: ['returned', 'no object'] });
    return stringify(change);
  } catch (error) {
    return stringify({ e: ['unreadable', describe(error)] });
  }
}

function describeError(error: unknown): string {
  return stringify({ e: ['threw', describe(error)] });
}

/** The kind of an error, a colon, its text. Both are the plugin's word. */
function describe(error: unknown): string {
  try {
    if (!(error instanceof Error)) return `${typeof error}: ${String(error)}`.slice(0, 500);
    return `${error.name}: ${error.message}`.slice(0, 500);
  } catch {
    return 'Error: ';
  }
}

function isThenable(value: unknown): boolean {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return false;
  return typeof (value as { then?: unknown }).then === 'function';
}
