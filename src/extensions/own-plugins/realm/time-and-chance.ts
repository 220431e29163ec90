import { define } from './harden.ts';

/** For each row: what its random numbers come from, with what its clock shows. */
export type Reseed = (key: string, nowMs: number) => void;

/** Both depend on the row's key and interval only. */
export function tameTimeAndChance(globals: Record<string, unknown>): Reseed {
  let nowMs = 0;
  let key = '';
  let state: number[] | null = null;
  const random = function random(): number {
    state ??= hash(`${nowMs}:${key}`);
    return next(state);
  };
  globals.Math = mathWith(random);
  globals.Date = dateAt(() => nowMs);
  tameFormat(() => nowMs);
  return (rowKey, rowNowMs) => {
    key = rowKey;
    nowMs = rowNowMs;
    state = null;
  };
}

function mathWith(random: () => number): object {
  const copy = {};
  Object.defineProperties(copy, Object.getOwnPropertyDescriptors(Math));
  define(copy, 'random', random);
  return copy;
}

function dateAt(now: () => number): object {
  const Native = Date;
  const RowDate = function (this: unknown, ...given: unknown[]): unknown {
    const args = given.length === 0 ? [now()] : given;
    if (!new.target) return Reflect.construct(Native, [now()]).toString();
    return Reflect.construct(Native, args, new.target);
  };
  Object.defineProperty(RowDate, 'prototype', { value: Native.prototype, writable: false });
  define(RowDate, 'name', 'Date');
  define(RowDate, 'now', () => now());
  define(RowDate, 'parse', Native.parse);
  define(RowDate, 'UTC', Native.UTC);
  define(RowDate, 'length', 7);
  define(Native.prototype, 'constructor', RowDate);
  return RowDate;
}

/** Without an argument these show the time of the machine. */
function tameFormat(now: () => number): void {
  const { prototype } = Intl.DateTimeFormat;
  const getter = Object.getOwnPropertyDescriptor(prototype, 'format')?.get;
  const toParts = prototype.formatToParts;
  Object.defineProperty(prototype, 'format', {
    configurable: true,
    get(this: Intl.DateTimeFormat) {
      const format: (date: unknown) => string = Reflect.apply(getter ?? now, this, []);
      return (date?: unknown) => format(date === undefined ? now() : date);
    },
  });
  define(prototype, 'formatToParts', function (this: Intl.DateTimeFormat, date?: unknown) {
    return Reflect.apply(toParts, this, [date === undefined ? now() : date]);
  });
}

function hash(text: string): number[] {
  let [a, b, c, d] = [1779033703, 3144134277, 1013904242, 2773480762];
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    a = b ^ Math.imul(a ^ code, 597399067);
    b = c ^ Math.imul(b ^ code, 2869860233);
    c = d ^ Math.imul(c ^ code, 951274213);
    d = a ^ Math.imul(d ^ code, 2716044179);
  }
  a = Math.imul(c ^ (a >>> 18), 597399067);
  b = Math.imul(d ^ (b >>> 22), 2869860233);
  c = Math.imul(a ^ (c >>> 17), 951274213);
  d = Math.imul(b ^ (d >>> 19), 2716044179);
  return [a ^ b ^ c ^ d, b ^ a, c ^ a, d ^ a];
}

function next(state: number[]): number {
  const [a = 0, b = 0, c = 0, d = 0] = state;
  const sum = (a + b + d) | 0;
  state[3] = (d + 1) | 0;
  state[0] = b ^ (b >>> 9);
  state[1] = (c + (c << 3)) | 0;
  state[2] = (((c << 21) | (c >>> 11)) + sum) | 0;
  return (sum >>> 0) / 4294967296;
}
