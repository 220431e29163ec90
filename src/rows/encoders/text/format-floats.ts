/**
 * Floats as PostgreSQL prints them since version 12 (`extra_float_digits` 1): the fewest digits that
 * read back as the same value, with an exponent below 1e-4 and from 1e15 (float4: 1e6) on.
 * https://github.com/postgres/postgres/blob/master/src/common/d2s.c
 */

const DOUBLE_FIXED_BELOW = 15;
const FLOAT_FIXED_BELOW = 6;
/** Only one decimal of so many digits reads back as a float4: if it does, its zeros at the end are all that can go. */
const DIGITS_APART = 6;
/** That does not hold for a smaller float4, which has fewer bits. */
const LEAST_NORMAL = 2 ** -126;
/** From here on the midpoint of two neighbours can itself be a short decimal, like 1e23. */
const MIDDLES_MATTER = 2 ** 53;

/** The text of a float8, or `NaN`, `Infinity`, `-Infinity`. */
export function float8Text(value: number): string {
  const odd = oddText(value);
  if (odd !== null) return odd;
  // Here JavaScript writes the same digits without an exponent, too.
  if (isUsual(Math.abs(value))) return String(value);
  const shortest = Math.abs(value) > MIDDLES_MATTER ? shortestInside(value) : value.toExponential();
  return layOut(shortest, DOUBLE_FIXED_BELOW);
}

/** The text of a float4, given as the double of the same value. */
export function float4Text(value: number): string {
  const odd = oddText(value);
  if (odd !== null) return odd;
  const fewest = Math.abs(value) < LEAST_NORMAL ? 0 : DIGITS_APART - 1;
  for (let digits = fewest; digits < 9; digits += 1) {
    const text = value.toExponential(digits);
    if (!insideFloat(Number(text), value)) continue;
    return layOut(isMiddle(value, digits) ? toEven(text) : text, FLOAT_FIXED_BELOW);
  }
  return layOut(value.toExponential(9), FLOAT_FIXED_BELOW);
}

const isUsual = (size: number): boolean => size >= 1e-4 && size < 10 ** DOUBLE_FIXED_BELOW;

function oddText(value: number): string | null {
  if (value === 0) return Object.is(value, -0) ? '-0' : '0';
  return Number.isFinite(value) ? null : String(value);
}

/** Converts `-d.ddde±x` to PostgreSQL's layout. */
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

/**
 * The shortest decimal strictly between the midpoints to the neighbouring doubles. JavaScript's shortest
 * form may be a midpoint itself, which is read back by the round-to-even rule; PostgreSQL does not rely on
 * that rule.
 */
function shortestInside(value: number): string {
  const size = Math.abs(value);
  const exact = BigInt(size);
  const ulp = 2n ** BigInt(exact.toString(2).length - 53);
  const isPowerOfTwo = (exact & (exact - 1n)) === 0n;
  // Everything times four, so that the midpoints are whole.
  const low = 4n * exact - (isPowerOfTwo ? ulp : 2n * ulp);
  const high = 4n * exact + 2n * ulp;
  for (let digits = 0; digits < 17; digits += 1) {
    const text = value.toExponential(digits);
    const [mantissa = '', exponent] = text.replace(/^-/, '').split('e');
    const unit = 4n * 10n ** BigInt(Number(exponent) - digits);
    const scaled = BigInt(mantissa.replace('.', '')) * unit;
    if (scaled <= low || scaled >= high) continue;
    return 2n * (scaled - 4n * exact) === unit ? toEven(text) : text;
  }
  return value.toExponential();
}

/** Says whether the exact value is exactly between two decimals of `digits` digits after the first. */
function isMiddle(value: number, digits: number): boolean {
  const ends = (exponential: string) => {
    const [mantissa = ''] = exponential.split('e');
    const significant = mantissa.replace(/[-.]/g, '').replace(/0+$/, '');
    return significant.length === digits + 2 && significant.endsWith('5');
  };
  // The short form of such a value is exact. The long form is slow, and excludes the others.
  return ends(value.toExponential()) && ends(value.toExponential(100));
}

/**
 * The even one of two equally near decimals, as in PostgreSQL. `toExponential` gives the larger one; if
 * that is odd, the other one ends in the digit below.
 */
function toEven(larger: string): string {
  const [mantissa = '', exponent] = larger.split('e');
  const last = Number(mantissa.at(-1));
  return last % 2 === 0 ? larger : `${mantissa.slice(0, -1)}${last - 1}e${exponent}`;
}

/** Says whether a decimal, read as a double, is strictly between the midpoints to the neighbouring floats. */
function insideFloat(decimal: number, value: number): boolean {
  if (Math.fround(decimal) !== value) return false;
  floatBits[0] = value;
  const bits = floatInt[0] as number;
  floatInt[0] = bits + 1;
  const up = floatBits[0] as number;
  floatInt[0] = bits - 1;
  const down = floatBits[0] as number;
  return decimal !== (value + up) / 2 && decimal !== (value + down) / 2;
}

const floatBits = new Float32Array(1);
const floatInt = new Int32Array(floatBits.buffer);
