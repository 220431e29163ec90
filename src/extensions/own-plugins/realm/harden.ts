/**
 * Before the plugin: takes away what reaches outside, what is not deterministic and what could carry state from row to
 * row; freezes all else.
 */

/** Plugins keep these of the language. Binary arrays are not among it: their memory is outside the heap. */
const keptNames = [
  ...['Object', 'Array', 'Number', 'Boolean', 'String', 'Symbol', 'BigInt', 'RegExp', 'Promise'],
  ...['Map', 'Set', 'WeakMap', 'WeakSet', 'Proxy', 'Reflect', 'JSON', 'Intl', 'Iterator'],
  ...['Error', 'AggregateError', 'EvalError', 'RangeError', 'ReferenceError', 'SyntaxError'],
  ...['TypeError', 'URIError', 'parseFloat', 'parseInt', 'isFinite', 'isNaN', 'escape', 'unescape'],
  ...['decodeURI', 'decodeURIComponent', 'encodeURI', 'encodeURIComponent'],
];

/** Not for plugins, which get their own of the same names; what runs here needs them. */
const ownNames = ['undefined', 'NaN', 'Infinity', 'Math', 'Date', 'globalThis'];

const regExpStatics = new Set<PropertyKey>(['length', 'name', 'prototype', 'escape']);

export function define(target: object, name: PropertyKey, value: unknown): void {
  const fixed = { value, writable: false, enumerable: false, configurable: true };
  Object.defineProperty(target, name, fixed);
}

export function takeGlobals(): Record<string, unknown> {
  const world = globalThis as unknown as Record<string, unknown>;
  const keptGlobals: Record<string, unknown> = {};
  for (const name of keptNames) if (world[name] !== undefined) keptGlobals[name] = world[name];
  for (const name of Object.getOwnPropertyNames(world)) {
    if (!(name in keptGlobals) && !ownNames.includes(name)) delete world[name];
  }
  return keptGlobals;
}

/** Removes code from text, stack traces and what a regular expression remembers of the last match. */
export function tameLanguage(globals: Record<string, unknown>): void {
  const NativeRegExp = RegExp;
  for (const name of Object.getOwnPropertyNames(NativeRegExp)) {
    if (!regExpStatics.has(name)) Reflect.deleteProperty(NativeRegExp, name);
  }
  // Without a limit no trace is recorded, so the code of Node that formats traces never runs.
  Reflect.deleteProperty(Error, 'stackTraceLimit');
  define(Error, 'captureStackTrace', function captureStackTrace() {});
  Reflect.deleteProperty(Object.prototype, '__proto__');
  globals.Function = refuseConstructor('Function', () => {});
  refuseConstructor('AsyncFunction', async () => {});
  refuseConstructor('GeneratorFunction', function* () {});
  refuseConstructor('AsyncGeneratorFunction', async function* () {});
}

/** @param example a function of the kind that the constructor makes */
function refuseConstructor(name: string, example: object): object {
  const prototype: object = Object.getPrototypeOf(example);
  // An arrow function would be no constructor.
  function refuse(): never {
    throw new EvalError('A plugin cannot make code from text.');
  }
  define(refuse, 'name', name);
  Object.defineProperty(refuse, 'prototype', { value: prototype, writable: false });
  define(prototype, 'constructor', refuse);
  return refuse;
}

/** Freezes all that can be reached from these values, and what only syntax reaches. */
export function freezeLanguage(globals: Record<string, unknown>): void {
  for (const prototype of overridden()) allowOverrides(prototype);
  const seen = new Set<object>();
  const queue: unknown[] = [globals, ...hiddenObjects()];
  while (queue.length > 0) {
    const value = queue.pop();
    if ((typeof value !== 'object' && typeof value !== 'function') || value === null) continue;
    if (seen.has(value)) continue;
    seen.add(value);
    queue.push(Object.getPrototypeOf(value));
    for (const key of Reflect.ownKeys(value)) {
      const property = Object.getOwnPropertyDescriptor(value, key);
      queue.push(property?.value, property?.get, property?.set);
    }
    Object.freeze(value);
  }
}

/** Objects whose prototypes have no name: iterators, generators, asynchronous functions. */
function hiddenObjects(): unknown[] {
  const generator = (function* (): Generator<unknown> {})();
  const asyncGenerator = (async function* (): AsyncGenerator<unknown> {})();
  const segments = new Intl.Segmenter().segment('a');
  const list: unknown[] = [];
  // A newer Node than the oldest that we support has these methods.
  const values = list.values() as unknown as { map?: (change: () => null) => unknown };
  const iterators = globalThis as unknown as { Iterator?: { from(value: unknown): unknown } };
  return [
    generator,
    asyncGenerator,
    segments,
    segments[Symbol.iterator](),
    list.values(),
    values.map?.(() => null),
    iterators.Iterator?.from({ next() {} }),
    new Map().entries(),
    new Set().values(),
    'a'[Symbol.iterator](),
    'a'.matchAll(/a/g),
    function* () {},
    async function* () {},
    async () => {},
  ];
}

/** Prototypes that published code overrides by assignment: `this.name = …` in an error, `toString`. */
function overridden(): object[] {
  const errors = [Error, AggregateError, EvalError, RangeError, ReferenceError, SyntaxError];
  return [
    Object.prototype,
    Object.getPrototypeOf(() => {}),
    ...[...errors, TypeError, URIError].map(({ prototype }) => prototype),
  ];
}

/** A frozen property of a prototype cannot be assigned to an object. An accessor can. */
function allowOverrides(prototype: object): void {
  for (const name of Object.getOwnPropertyNames(prototype)) {
    const property = Object.getOwnPropertyDescriptor(prototype, name);
    if (!property?.configurable || !('value' in property)) continue;
    const { value } = property;
    Object.defineProperty(prototype, name, {
      configurable: true,
      enumerable: false,
      get: () => value,
      set(this: unknown, given: unknown) {
        if (this === prototype) throw new TypeError(`${name} is read-only.`);
        Object.defineProperty(this, name, {
          value: given,
          writable: true,
          enumerable: true,
          configurable: true,
        });
      },
    });
  }
}
