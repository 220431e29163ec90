/** No numeric has more digits: 131,072 before the point and 16,383 after it. */
export const maxNumericBytes = 150_000;

/**
 * The bytes of a literal with its numbers written out. PostgreSQL may read it as JSON or as an array of
 * numbers, and `1e99` becomes a hundred digits.
 */
export function literalBytes(value: string): number {
  let bytes = Buffer.byteLength(value);
  for (const [, exponent = ''] of value.matchAll(/[\d._]e[+-]?([\d_]+)/gi)) {
    bytes += Math.min(Number(exponent.replaceAll('_', '')), maxNumericBytes);
  }
  return bytes;
}

const decimal = /^\s*[+-]?[\d._]+(?:e[+-]?[\d_]+)?\s*$/i;
const radix = /^\s*[+-]?0[xob][\da-f_]+\s*$/i;

/** The digits of a literal as a number, written out; 0 if it is not a number. */
export function numberBytes(value: string): number {
  const text = value.trim();
  return decimal.test(text) || radix.test(text) ? literalBytes(text) : 0;
}
