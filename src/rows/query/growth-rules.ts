import type { Expression } from './expression.ts';
import { numberBytes } from './literal-size.ts';
import { atMost, constant, fixed, isFixed, plus, type Size, times } from './size.ts';

/** Work that grows with the product of two sizes, in one call that PostgreSQL cannot interrupt. */
export interface Product {
  readonly left: Size;
  readonly right: Size;
  /**
   * `needle`: the right side is searched for in the left one. `numbers`: multiplication or division of
   * numeric, digit by digit. `elements`: each element of one side is compared with each of the other.
   */
  readonly of: 'needle' | 'numbers' | 'elements';
}

/** Computes the size of the result of a call or an operator from the sizes of its arguments. */
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

const toUtf8 = /^utf-?8$/i;

/** For each allowed function: how large its result and how costly its call can be. */
export const functionGrowth: ReadonlyMap<string, GrowthRule> = new Map<string, GrowthRule>([
  ['ascii', toFixed],
  ['btrim', search(first)],
  ['char_length', toFixed],
  ['character_length', toFixed],
  ['chr', toBytes(8)],
  ['concat', toSum],
  ['concat_ws', joinWith],
  // A character may become three times as long in the other case.
  ['initcap', toTimes(3)],
  ['left', cut(1)],
  ['length', toFixed],
  ['like_escape', toTimes(2)],
  ['lower', toTimes(3)],
  ['lpad', pad],
  ['ltrim', search(first)],
  ['md5', toBytes(32)],
  ['octet_length', toFixed],
  // A negative length repeats the text before the position.
  ['overlay', ([size = empty, by = empty]) => grown(plus([times(size, 2), by]))],
  ['position', search(() => fixed)],
  ['replace', replace],
  ['reverse', toTimes(1)],
  ['right', cut(1)],
  ['rpad', pad],
  ['rtrim', search(first)],
  ['split_part', search(first)],
  ['starts_with', toFixed],
  ['strpos', search(() => fixed)],
  ['substr', cut(2)],
  ['substring', cut(2)],
  // A character of one byte may become one of four.
  ['translate', search(([size = empty]) => times(size, 4))],
  ['upper', toTimes(3)],
  // As text, a byte has two digits. No encoding makes a character more than four times as long.
  [
    'convert_to',
    ([size = empty], [, encoding]) =>
      grown(
        plus([times(size, encoding?.kind === 'string' && toUtf8.test(encoding.value) ? 2 : 8)], 2),
      ),
  ],
  ['encode', toTimes(2)],
  ['sha256', toBytes(66)],
  ['sha512', toBytes(130)],
  ['abs', sameNumber],
  ['ceil', sameNumber],
  ['ceiling', sameNumber],
  ['div', divide],
  ['floor', sameNumber],
  ['mod', divide],
  ['round', rounded],
  ['sign', sameNumber],
  ['trunc', rounded],
  ['date_bin', toFixed],
  ['date_part', toFixed],
  ['date_trunc', toFixed],
  ['extract', toFixed],
  ['isfinite', toFixed],
  ['make_date', toFixed],
  ['timezone', toFixed],
  ['to_char', format],
  ['to_timestamp', toFixed],
  ['array_length', toFixed],
  ['array_to_string', joinElements],
  ['cardinality', toFixed],
  ['json_typeof', toFixed],
  ['jsonb_array_length', toFixed],
  ['jsonb_typeof', toFixed],
  ['string_to_array', split],
]);

/** ILIKE compares in lower case, which may be three times as long. */
const matchIgnoringCase: GrowthRule = ([left = empty, right = empty]) =>
  grown(fixed, {
    products: [{ left: times(left, 3), right: times(right, 3), of: 'needle' }],
    needles: [1],
  });
const match = search(() => fixed);

/** One rule for every operator between two operands. */
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

/**
 * One value is compared with each element of an array. Equality compares lengths first; order copies both.
 */
export const quantifiedGrowth = (operator: string): GrowthRule =>
  operator === '=' || operator === '<>' ? toFixed : elements;

/** Calls and operators that read a literal as a number. */
const arithmetic: ReadonlySet<string> = new Set(
  '+ - * / % abs ceil ceiling div floor mod round sign trunc to_char'.split(' '),
);

/** Says whether an argument is read as a number of more than `most` digits. */
export function hasLongNumber(name: string, args: readonly Expression[], most: number): boolean {
  if (!arithmetic.has(name)) return false;
  return args.some((part) => part.kind === 'string' && numberBytes(part.value) > most);
}
