/**
 * As PostgreSQL since version 12: the fewest digits that read back alike, with an exponent below 1e-4 and from 1e15
 * (float4: 1e6) on. Of several such texts PostgreSQL may write another one.
 */

const DOUBLE_FIXED_BELOW = 15;
const FLOAT_FIXED_BELOW = 6;
/** Only one decimal of so many digits reads back as a float4: if it does, its zeros at the end are all that can go. */
const DIGITS_APART = 6;
/** That does not hold for a smaller float4, which has fewer bits. */
const LEAST_NORMAL = 2 ** -126;

export function float8Text(value: number): string {
  const odd = oddText(value);
  if (odd !== null) return odd;
  // Here JavaScript writes the same digits without an exponent, too.
  if (isUsual(Math.abs(value))) return String(value);
  return layOut(value.toExponential(), DOUBLE_FIXED_BELOW);
}

export function float4Text(value: number): string {
  const odd = oddText(value);
  if (odd !== null) return odd;
  const fewest = Math.abs(value) < LEAST_NORMAL ? 0 : DIGITS_APART - 1;
  for (let digits = fewest; digits < 9; digits += 1) {
    const text = value.toExponential(digits);
    if (nearest(Number(text)) === value) return layOut(text, FLOAT_FIXED_BELOW);
  }
  return layOut(value.toExponential(9), FLOAT_FIXED_BELOW);
}

/** The float4 that PostgreSQL has printed so. */
export const readFloat4 = (text: string): number =>
  nearest(Number(text)) ?? Math.fround(Number(text));

/** Rounded to a double, a decimal can be the middle of two, as 7.038531e-26. Null for a decimal in the middle. */
function nearest(decimal: number): number | null {
  const below = Math.fround(decimal * (1 - Number.EPSILON));
  const above = Math.fround(decimal * (1 + Number.EPSILON));
  if (below === above || Number.isNaN(decimal)) return below;
  const [middle = ''] = decimal.toExponential(100).split('e');
  const digits = decimal.toExponential(8).split('e')[0]?.padEnd(middle.length, '0') ?? '';
  if (digits === middle) return null;
  return digits < middle ? below : above;
}

const isUsual = (size: number): boolean => size >= 1e-4 && size < 10 ** DOUBLE_FIXED_BELOW;

function oddText(value: number): string | null {
  if (value === 0) return Object.is(value, -0) ? '-0' : '0';
  return Number.isFinite(value) ? null : String(value);
}

function layOut(exponential: string, fixedBelow: number): string {
  const [, sign = '', first = '', rest = '', exponentText] =
    /^(-?)(\d)(?:\.(\d+))?e([+-]\d+)$/.exec(exponential) ?? [];
  const exponent = Number(exponentText);
  const digits = (first + rest).replace(/0+$/, '');
  if (exponent < -4 || exponent >= fixedBelow) {
    const fraction = digits.length > 1 ? `.${digits.slice(1)}` : '';
    const size = Math.abs(exponent).toString().padStart(2, '0');
    return `${sign}${digits[0]}${fraction}e${exponent < 0 ? '-' : '+'}${size}`;
  }
  if (exponent < 0) return `${sign}0.${'0'.repeat(-exponent - 1)}${digits}`;
  if (digits.length <= exponent + 1) return sign + digits.padEnd(exponent + 1, '0');
  return `${sign}${digits.slice(0, exponent + 1)}.${digits.slice(exponent + 1)}`;
}
