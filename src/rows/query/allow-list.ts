/** No regular expressions, no powers (`9 ^ 9 ^ 9`), no JSON paths, no text search. */
export const comparisons: ReadonlySet<string> = new Set(['=', '<>', '<', '<=', '>', '>=']);

export const binaryOperators: ReadonlySet<string> = new Set(
  '= <> < <= > >= + - * / % || -> ->> #> #>> @> <@ && ? ?| ?&'.split(' '),
);

export const unaryOperators: ReadonlySet<string> = new Set(['-', '+']);

/** LIKE and its kin; the parser names them by their operators. */
export const likeOperators: ReadonlyMap<string, string> = new Map([
  ['~~', 'LIKE'],
  ['!~~', 'NOT LIKE'],
  ['~~*', 'ILIKE'],
  ['!~~*', 'NOT ILIKE'],
]);

export interface AllowedType {
  /** The largest value of each modifier: `[1000, 1000]` of `numeric(precision, scale)`. */
  readonly modifiers: readonly number[];
  /** Reads words such as `now`, whose meaning changes with time. */
  readonly temporal: boolean;
}

const type = (modifiers: readonly number[] = [], temporal = false): AllowedType => ({
  modifiers,
  temporal,
});

/** Not allowed: `json`, `jsonb` (a few bytes become a hundred thousand digits), `char(n)`, types that look up names. */
export const castTypes: ReadonlyMap<string, AllowedType> = new Map([
  ['bool', type()],
  ['date', type([], true)],
  ['float4', type()],
  ['float8', type()],
  ['int2', type()],
  ['int4', type()],
  ['int8', type()],
  ['interval', type()],
  ['numeric', type([1000, 1000])],
  ['text', type()],
  ['time', type([6], true)],
  ['timestamp', type([6], true)],
  ['timestamptz', type([6], true)],
  ['uuid', type()],
  ['varchar', type([10_485_760])],
]);

export const forms: ReadonlySet<string> = new Set(['COALESCE', 'GREATEST', 'LEAST', 'NULLIF']);
