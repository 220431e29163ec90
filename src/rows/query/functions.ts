import type { Expression } from './expression.ts';
import { atMost, constant, fixed, isFixed, numberBytes, plus, type Size, times } from './size.ts';
import { isKnownZone } from './time-text.ts';

export interface Product {
  readonly left: Size;
  readonly right: Size;
  /** `needle`: the right side is searched for in the left. `numbers`: digit by digit. `elements`: each with each. */
  readonly of: 'needle' | 'numbers' | 'elements';
}

export interface Growth {
  readonly size: Size;
  readonly products: readonly Product[];
  /** Indices of arguments that must be columns or literals of at most 1 KiB. */
  readonly needles: readonly number[];
}

export type GrowthRule = (sizes: readonly Size[], args: readonly Expression[]) => Growth;

const empty = constant(0);

const grown = (size: Size, more: Partial<Growth> = {}): Growth => ({
  size,
  products: [],
  needles: [],
  ...more,
});

const toFixed: GrowthRule = () => grown(fixed);
const toBytes =
  (bytes: number): GrowthRule =>
  () =>
    grown(constant(bytes));
const toTimes =
  (factor: number): GrowthRule =>
  ([size = empty]) =>
    grown(times(size, factor));
const toSum: GrowthRule = (sizes) => grown(plus(sizes, 16));

/** The first argument is searched for the second, or for each character of it. */
const search =
  (result: (sizes: readonly Size[], args: readonly Expression[]) => Size): GrowthRule =>
  (sizes, args) => {
    const [left = empty, right = empty] = sizes;
    const size = result(sizes, args);
    if (sizes.length < 2) return grown(size);
    return grown(size, { products: [{ left, right, of: 'needle' }], needles: [1] });
  };
const first = ([size = empty]: readonly Size[]): Size => ({ ...size, kind: 'other' });

const wholeNumber = (argument: Expression | undefined): number | null =>
  argument?.kind === 'number' && /^-?\d+$/.test(argument.text) ? Number(argument.text) : null;

/** Cut to as many characters as the argument at `place` says, of at most four bytes each. */
const cut =
  (place: number): GrowthRule =>
  ([size = empty], args) => {
    const characters = wholeNumber(args[place]);
    if (characters === null || characters < 0) return grown({ ...size, kind: 'other' });
    return grown({ ...atMost(size, characters * 4), kind: 'other' });
  };

const pad: GrowthRule = (_, args) => grown(constant(Math.max(0, wholeNumber(args[1]) ?? 0) * 4));

/** Each match has at least one byte and is replaced. */
const replace = search(([size = empty, , by = empty], [, from]) => {
  const matched = from?.kind === 'string' ? Math.max(1, Buffer.byteLength(from.value)) : 1;
  return times(size, Math.max(1, by.bytes / matched));
});

const asArray = (size: Size): Size => ({ ...size, kind: 'array' });

/** An element of one character needs four bytes of header and four of text. */
const split = search(([size = empty], args) => {
  const [, separator] = args;
  const isText = separator?.kind === 'string' && separator.value !== '';
  return asArray(plus([times(size, isText && args.length === 2 ? 4 : 9)], 64));
});

/** An element has at least one byte and may be followed by the separator or by the text for null. */
const joinElements: GrowthRule = ([size = empty, ...between], args) => {
  const longest = between.reduce(
    (sum, text) => sum + (text.parts.size > 0 ? 1_024 : text.bytes),
    1,
  );
  return grown(times(size, longest), { needles: args.map((_, place) => place).slice(1) });
};

const joinWith: GrowthRule = ([separator = empty, ...values]) =>
  grown(plus([...values, times(separator, Math.max(0, values.length - 1))], 16));

/** A character of the pattern makes at most twelve bytes (PostgreSQL's own limit). */
const format: GrowthRule = ([value = empty, pattern = empty]) => {
  const size = plus([times(pattern, 12)], 64);
  if (isFixed(value)) return grown(size, { needles: [1] });
  return grown(size, { products: [{ left: value, right: value, of: 'numbers' }], needles: [1] });
};

const sameNumber: GrowthRule = ([size = empty]) =>
  grown(isFixed(size) ? fixed : numeric(plus([size], 8)));

/** `round(x, 9)` has nine digits after the point, and no number has more than 16,383. */
const rounded: GrowthRule = (sizes, args) => {
  const [size = empty, digits] = sizes;
  if (!digits) return sameNumber(sizes, args);
  const places = Math.min(Math.abs(wholeNumber(args[1]) ?? 17_000), 17_000);
  return grown(numeric(plus([size], places + 8)));
};

const numeric = (size: Size): Size => ({ ...size, kind: 'number' });

/** Digits of a quotient after the point, in addition to those of its operands. */
const quotientDigits = 1_100;

const multiply: GrowthRule = ([left = empty, right = empty]) => {
  if (isFixed(left) && isFixed(right)) return grown(fixed);
  return grown(numeric(plus([left, right], 8)), { products: [{ left, right, of: 'numbers' }] });
};

const divide: GrowthRule = ([left = empty, right = empty]) => {
  if (isFixed(left) && isFixed(right)) return grown(fixed);
  const quotient = plus([left, right], quotientDigits);
  const products: Product[] = [{ left: quotient, right, of: 'numbers' }];
  return grown(numeric(quotient), { products });
};

const add: GrowthRule = ([left = empty, right = empty]) => {
  if (isFixed(left) && isFixed(right)) return grown(fixed);
  const isNumber = left.kind !== 'other' && right.kind !== 'other';
  return grown(isNumber ? numeric(plus([left, right], 8)) : plus([left, right], 8));
};

/** Also removes keys from JSON; each is searched for among all. */
const subtract: GrowthRule = (sizes, args) => {
  const { size } = add(sizes, args);
  const [left = empty, right = empty] = sizes;
  if (left.kind !== 'other' || right.kind !== 'other') return grown(size);
  return grown(size, { products: [{ left, right, of: 'elements' }] });
};

/** In the text of an array, every character of an appended value may be escaped. */
const append: GrowthRule = (sizes) => {
  if (!sizes.some(({ kind }) => kind === 'array')) return grown(plus(sizes, 16));
  return grown(asArray(times(plus(sizes, 16), 2)));
};

const elements: GrowthRule = ([left = empty, right = empty]) =>
  grown(fixed, { products: [{ left, right, of: 'elements' }] });

const match = search(() => fixed);

/** A character of one byte may become one of four. */
const translate = search(([size = empty]) => times(size, 4));

/** A negative length repeats the text before the position. */
const overlay: GrowthRule = ([size = empty, by = empty]) => grown(plus([times(size, 2), by]));

/** As text, a byte has two digits. No encoding makes a character more than four times as long. */
const toEncoding: GrowthRule = ([size = empty], [, encoding]) => {
  const isUtf8 = encoding?.kind === 'string' && /^utf-?8$/i.test(encoding.value);
  return grown(plus([times(size, isUtf8 ? 2 : 8)], 2));
};

/** Each was reviewed by hand: its result depends on the arguments alone (a test checks all against pg_proc). */
export interface AllowedFunction {
  readonly arguments: readonly [least: number, most: number];
  readonly growth: GrowthRule;
  /** `stable` if the answer also depends on TimeZone and DateStyle, which the source fixes. */
  readonly volatility: 'immutable' | 'stable';
  /** The bare name is grammar to the parser, so it is always printed with its schema. */
  readonly reserved: boolean;
  readonly refuse: ((args: readonly Expression[]) => string | null) | null;
}

type Options = Partial<Omit<AllowedFunction, 'arguments' | 'growth'>>;

function allow(
  least: number,
  most: number,
  growth: GrowthRule,
  options: Options = {},
): AllowedFunction {
  const usual = { volatility: 'immutable', reserved: false, refuse: null } as const;
  return { arguments: [least, most], growth, ...usual, ...options };
}

/** Maximum padding, and maximum replacement of one match. */
const maxPadding = 1000;
const maxReplacement = 100;

/** If the second argument is text, PostgreSQL reads it as a regular expression. */
function refuseSubstring([, ...positions]: readonly Expression[]): string | null {
  const isPosition = (argument: Expression) =>
    wholeNumber(argument) !== null || (argument.kind === 'cast' && argument.type.name === 'int4');
  return positions.every(isPosition) ? null : 'takes whole numbers as positions; use substr';
}

function refusePadding([, length]: readonly Expression[]): string | null {
  return (wholeNumber(length) ?? Number.POSITIVE_INFINITY) <= maxPadding
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
  ['ascii', allow(1, 1, toFixed)],
  ['btrim', allow(1, 2, search(first))],
  ['char_length', allow(1, 1, toFixed)],
  ['character_length', allow(1, 1, toFixed)],
  ['chr', allow(1, 1, toBytes(8))],
  ['concat', allow(1, 50, toSum, stable)],
  ['concat_ws', allow(2, 50, joinWith, stable)],
  // A character may become three times as long in the other case.
  ['initcap', allow(1, 1, toTimes(3))],
  ['left', allow(2, 2, cut(1))],
  ['length', allow(1, 1, toFixed)],
  ['like_escape', allow(2, 2, toTimes(2))],
  ['lower', allow(1, 1, toTimes(3))],
  ['lpad', allow(2, 3, pad, { refuse: refusePadding })],
  ['ltrim', allow(1, 2, search(first))],
  ['md5', allow(1, 1, toBytes(32))],
  ['octet_length', allow(1, 1, toFixed)],
  ['overlay', allow(3, 4, overlay, reserved)],
  ['position', allow(2, 2, match, reserved)],
  ['replace', allow(3, 3, replace, { refuse: refuseReplacement })],
  ['reverse', allow(1, 1, toTimes(1))],
  ['right', allow(2, 2, cut(1))],
  ['rpad', allow(2, 3, pad, { refuse: refusePadding })],
  ['rtrim', allow(1, 2, search(first))],
  ['split_part', allow(3, 3, search(first))],
  ['starts_with', allow(2, 2, toFixed)],
  ['strpos', allow(2, 2, match)],
  ['substr', allow(2, 3, cut(2))],
  ['substring', allow(2, 3, cut(2), { ...reserved, refuse: refuseSubstring })],
  ['translate', allow(3, 3, translate)],
  ['upper', allow(1, 1, toTimes(3))],
  // hashes, for identifiers that must not leave as they are
  ['convert_to', allow(2, 2, toEncoding, stable)],
  ['encode', allow(2, 2, toTimes(2))],
  ['sha256', allow(1, 1, toBytes(66))],
  ['sha512', allow(1, 1, toBytes(130))],
  // numbers
  ['abs', allow(1, 1, sameNumber)],
  ['ceil', allow(1, 1, sameNumber)],
  ['ceiling', allow(1, 1, sameNumber)],
  ['div', allow(2, 2, divide)],
  ['floor', allow(1, 1, sameNumber)],
  ['mod', allow(2, 2, divide)],
  ['round', allow(1, 2, rounded)],
  ['sign', allow(1, 1, sameNumber)],
  ['trunc', allow(1, 2, rounded)],
  // times
  ['date_bin', allow(3, 3, toFixed)],
  ['date_part', allow(2, 2, toFixed, stable)],
  ['date_trunc', allow(2, 3, toFixed, { ...stable, refuse: refuseZone(2) })],
  ['extract', allow(2, 2, toFixed, { ...stable, ...reserved })],
  ['isfinite', allow(1, 1, toFixed)],
  ['make_date', allow(3, 3, toFixed)],
  ['timezone', allow(2, 2, toFixed, { ...stable, refuse: refuseZone(0) })],
  ['to_char', allow(2, 2, format, stable)],
  ['to_timestamp', allow(1, 1, toFixed)],
  // JSON and arrays
  ['array_length', allow(2, 2, toFixed)],
  ['array_to_string', allow(2, 3, joinElements, stable)],
  ['cardinality', allow(1, 1, toFixed)],
  ['json_typeof', allow(1, 1, toFixed)],
  ['jsonb_array_length', allow(1, 1, toFixed)],
  ['jsonb_typeof', allow(1, 1, toFixed)],
  ['string_to_array', allow(2, 3, split)],
]);

/** ILIKE compares in lower case, which may be three times as long. */
const matchIgnoringCase: GrowthRule = ([left = empty, right = empty]) =>
  grown(fixed, {
    products: [{ left: times(left, 3), right: times(right, 3), of: 'needle' }],
    needles: [1],
  });

export const operatorGrowth: ReadonlyMap<string, GrowthRule> = new Map<string, GrowthRule>([
  ['=', toFixed],
  ['<>', toFixed],
  ['<', toFixed],
  ['<=', toFixed],
  ['>', toFixed],
  ['>=', toFixed],
  ['IS DISTINCT FROM', toFixed],
  ['IS NOT DISTINCT FROM', toFixed],
  ['+', add],
  ['-', subtract],
  ['*', multiply],
  ['/', divide],
  ['%', divide],
  ['||', append],
  ['->', (sizes) => grown(first(sizes))],
  ['->>', (sizes) => grown(first(sizes))],
  ['#>', (sizes) => grown(first(sizes))],
  ['#>>', (sizes) => grown(first(sizes))],
  ['@>', elements],
  ['<@', elements],
  ['&&', elements],
  ['?', toFixed],
  ['?|', elements],
  ['?&', elements],
  ['LIKE', match],
  ['NOT LIKE', match],
  ['ILIKE', matchIgnoringCase],
  ['NOT ILIKE', matchIgnoringCase],
]);

/** Equality compares lengths first; order copies both. */
export const quantifiedGrowth = (operator: string): GrowthRule =>
  operator === '=' || operator === '<>' ? toFixed : elements;

const arithmetic: ReadonlySet<string> = new Set(
  '+ - * / % abs ceil ceiling div floor mod round sign trunc to_char'.split(' '),
);

export function hasLongNumber(name: string, args: readonly Expression[], most: number): boolean {
  if (!arithmetic.has(name)) return false;
  return args.some((part) => part.kind === 'string' && numberBytes(part.value) > most);
}
