import type { Expression } from './expression.ts';
import { isKnownZone } from './time-text.ts';

/**
 * All functions, operators and types that a query may use. Each entry was reviewed by hand: its result depends on the
 * arguments alone (a test checks every entry against pg_proc of a live server). `growth-rules.ts` limits
 * its size and cost; an entry without a rule there is refused.
 */
export interface AllowedFunction {
  readonly arguments: readonly [least: number, most: number];
  /**
   * `stable` if PostgreSQL's answer also depends on the session (TimeZone, DateStyle). The source fixes
   * both, so the result is still the same on every attempt.
   */
  readonly volatility: 'immutable' | 'stable';
  /** The bare name is grammar to the parser, so it is always printed with its schema. */
  readonly reserved: boolean;
  /** Describes the fault of these arguments, or returns null. */
  readonly refuse: ((args: readonly Expression[]) => string | null) | null;
}

type Options = Partial<Omit<AllowedFunction, 'arguments'>>;

function allow(least: number, most: number, options: Options = {}): AllowedFunction {
  return {
    arguments: [least, most],
    volatility: 'immutable',
    reserved: false,
    refuse: null,
    ...options,
  };
}

/** Maximum padding, and maximum replacement of one match. */
const maxPadding = 1000;
const maxReplacement = 100;

const isWholeNumber = (argument: Expression | undefined): boolean =>
  argument?.kind === 'number' && /^-?\d+$/.test(argument.text);

/** If the second argument is text, PostgreSQL reads it as a regular expression. */
function refuseSubstring([, ...positions]: readonly Expression[]): string | null {
  const isPosition = (argument: Expression) =>
    isWholeNumber(argument) || (argument.kind === 'cast' && argument.type.name === 'int4');
  return positions.every(isPosition) ? null : 'takes whole numbers as positions; use substr';
}

function refusePadding([, length]: readonly Expression[]): string | null {
  return length?.kind === 'number' && isWholeNumber(length) && Number(length.text) <= maxPadding
    ? null
    : `takes a whole number up to ${maxPadding} as length`;
}

function refuseReplacement([, , replacement]: readonly Expression[]): string | null {
  return replacement?.kind === 'string' && replacement.value.length <= maxReplacement
    ? null
    : `takes a literal of at most ${maxReplacement} characters as replacement`;
}

/** A zone of a row could be any text, and each that PostgreSQL knows stays in its memory. */
const refuseZone =
  (place: number) =>
  (args: readonly Expression[]): string | null => {
    const zone = args[place];
    if (zone === undefined) return null;
    const isOffset =
      zone.kind === 'cast' && zone.type.name === 'interval' && zone.operand.kind === 'string';
    if (isOffset || (zone.kind === 'string' && isKnownZone(zone.value))) return null;
    return "takes the name of a time zone as a literal, such as 'Europe/Berlin'";
  };

const stable = { volatility: 'stable' } as const;
const reserved = { reserved: true } as const;

export const functions: ReadonlyMap<string, AllowedFunction> = new Map([
  // text
  ['ascii', allow(1, 1)],
  ['btrim', allow(1, 2)],
  ['char_length', allow(1, 1)],
  ['character_length', allow(1, 1)],
  ['chr', allow(1, 1)],
  ['concat', allow(1, 50, stable)],
  ['concat_ws', allow(2, 50, stable)],
  ['initcap', allow(1, 1)],
  ['left', allow(2, 2)],
  ['length', allow(1, 1)],
  ['like_escape', allow(2, 2)],
  ['lower', allow(1, 1)],
  ['lpad', allow(2, 3, { refuse: refusePadding })],
  ['ltrim', allow(1, 2)],
  ['md5', allow(1, 1)],
  ['octet_length', allow(1, 1)],
  ['overlay', allow(3, 4, reserved)],
  ['position', allow(2, 2, reserved)],
  ['replace', allow(3, 3, { refuse: refuseReplacement })],
  ['reverse', allow(1, 1)],
  ['right', allow(2, 2)],
  ['rpad', allow(2, 3, { refuse: refusePadding })],
  ['rtrim', allow(1, 2)],
  ['split_part', allow(3, 3)],
  ['starts_with', allow(2, 2)],
  ['strpos', allow(2, 2)],
  ['substr', allow(2, 3)],
  ['substring', allow(2, 3, { ...reserved, refuse: refuseSubstring })],
  ['translate', allow(3, 3)],
  ['upper', allow(1, 1)],
  // hashes, for identifiers that must not leave as they are
  ['convert_to', allow(2, 2, stable)],
  ['encode', allow(2, 2)],
  ['sha256', allow(1, 1)],
  ['sha512', allow(1, 1)],
  // numbers
  ['abs', allow(1, 1)],
  ['ceil', allow(1, 1)],
  ['ceiling', allow(1, 1)],
  ['div', allow(2, 2)],
  ['floor', allow(1, 1)],
  ['mod', allow(2, 2)],
  ['round', allow(1, 2)],
  ['sign', allow(1, 1)],
  ['trunc', allow(1, 2)],
  // times
  ['date_bin', allow(3, 3)],
  ['date_part', allow(2, 2, stable)],
  ['date_trunc', allow(2, 3, { ...stable, refuse: refuseZone(2) })],
  ['extract', allow(2, 2, { ...stable, ...reserved })],
  ['isfinite', allow(1, 1)],
  ['make_date', allow(3, 3)],
  ['timezone', allow(2, 2, { ...stable, refuse: refuseZone(0) })],
  ['to_char', allow(2, 2, stable)],
  ['to_timestamp', allow(1, 1)],
  // JSON and arrays
  ['array_length', allow(2, 2)],
  ['array_to_string', allow(2, 3, stable)],
  ['cardinality', allow(1, 1)],
  ['json_typeof', allow(1, 1)],
  ['jsonb_array_length', allow(1, 1)],
  ['jsonb_typeof', allow(1, 1)],
  ['string_to_array', allow(2, 3)],
]);

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

/**
 * Not allowed: `json` and `jsonb` (a few bytes of text become a hundred thousand digits), `char(n)` (pads
 * without limit), and all types that look up names (`regclass` and the like).
 */
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

/** Forms of the grammar that look like functions. */
export const forms: ReadonlySet<string> = new Set(['COALESCE', 'GREATEST', 'LEAST', 'NULLIF']);
