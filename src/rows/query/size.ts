import type { Expression } from './expression.ts';

/** Maximum bytes of any PostgreSQL value. */
export const maxValueBytes = 2 ** 30;

export interface Part {
  /** The size grows by this many bytes per byte of the column's value. */
  readonly times: number;
  readonly leaves: ReadonlySet<Expression>;
  readonly max: number;
}

/** An upper limit in bytes, of text and stored form: a constant and a multiple of each column in it. */
export interface Size {
  /** `fixed`: of fixed width; `number`: also a numeric of any length; `array`: may be an array. */
  readonly kind: 'fixed' | 'number' | 'array' | 'other';
  readonly bytes: number;
  /** By the column's name; a cast to numeric counts as a column of its own. */
  readonly parts: ReadonlyMap<string | Expression, Part>;
}

const none: Size['parts'] = new Map();

/** Any value of fixed width, as text; an interval is the longest. */
export const fixed: Size = { kind: 'fixed', bytes: 64, parts: none };

export function constant(bytes: number, kind: Size['kind'] = 'other'): Size {
  return { kind, bytes, parts: none };
}

export function leaf(
  key: string | Expression,
  node: Expression,
  kind: Size['kind'] = 'other',
  max = maxValueBytes,
): Size {
  return { kind, bytes: 0, parts: new Map([[key, { times: 1, leaves: new Set([node]), max }]]) };
}

export const isFixed = ({ kind }: Size): boolean => kind === 'fixed';

export function times(size: Size, factor: number): Size {
  const parts = new Map([...size.parts].map(([key, part]) => [key, scale(part, factor)] as const));
  return { kind: 'other', bytes: Math.ceil(size.bytes * factor), parts };
}

const scale = (part: Part, factor: number): Part => ({ ...part, times: part.times * factor });

export function plus(sizes: readonly Size[], extra = 0): Size {
  const bytes = sizes.reduce((sum, size) => sum + size.bytes, extra);
  return { kind: 'other', bytes, parts: join(sizes, (left, right) => left + right) };
}

const widest = ['array', 'other', 'number', 'fixed'] as const;

export function either(sizes: readonly Size[]): Size {
  const bytes = Math.max(0, ...sizes.map((size) => size.bytes));
  const kinds = sizes.map(({ kind }) => kind);
  const kind = widest.find((one) => kinds.includes(one)) ?? 'fixed';
  return { kind, bytes, parts: join(sizes, Math.max) };
}

function join(
  sizes: readonly Size[],
  combine: (left: number, right: number) => number,
): Size['parts'] {
  const [first, ...others] = sizes.filter(({ parts }) => parts.size > 0);
  if (others.length === 0) return first?.parts ?? none;
  const parts = new Map<string | Expression, Part>();
  for (const [key, part] of sizes.flatMap((size) => [...size.parts])) {
    const earlier = parts.get(key);
    parts.set(
      key,
      earlier
        ? {
            times: combine(earlier.times, part.times),
            leaves: new Set([...earlier.leaves, ...part.leaves]),
            max: Math.max(earlier.max, part.max),
          }
        : part,
    );
  }
  return parts;
}

/** The value, cut to this many bytes if that is less than a large value. */
export function atMost(size: Size, bytes: number): Size {
  if (size.parts.size === 0) return { ...size, bytes: Math.min(size.bytes, bytes) };
  return bytes <= 2 ** 20 ? constant(bytes) : size;
}

export function sizeAt(size: Size, columnBytes: number): number {
  let bytes = size.bytes;
  for (const part of size.parts.values()) bytes += part.times * Math.min(columnBytes, part.max);
  return bytes;
}

/** For which `measure`, which never falls, is within `limit`; or -1. */
export function largestWithin(limit: number, measure: (columnBytes: number) => number): number {
  if (measure(0) > limit) return -1;
  let fits = 0;
  let beyond = maxValueBytes + 1;
  while (beyond - fits > 1) {
    const middle = Math.floor((fits + beyond) / 2);
    if (measure(middle) <= limit) fits = middle;
    else beyond = middle;
  }
  return fits;
}

/** No numeric has more digits: 131,072 before the point and 16,383 after it. */
export const maxNumericBytes = 150_000;

/** With its numbers written out: PostgreSQL may read it as JSON or an array, and `1e99` becomes a hundred digits. */
export function literalBytes(value: string): number {
  let bytes = Buffer.byteLength(value);
  for (const [, exponent = ''] of value.matchAll(/[\d._]e[+-]?([\d_]+)/gi)) {
    bytes += Math.min(Number(exponent.replaceAll('_', '')), maxNumericBytes);
  }
  return bytes;
}

const decimal = /^\s*[+-]?[\d._]+(?:e[+-]?[\d_]+)?\s*$/i;
const radix = /^\s*[+-]?0[xob][\da-f_]+\s*$/i;

export function numberBytes(value: string): number {
  const text = value.trim();
  return decimal.test(text) || radix.test(text) ? literalBytes(text) : 0;
}
