import fc from 'fast-check';
import { expect, it } from 'vitest';
import { jsonNumberOf } from '../../../src/rows/encoders/parquet/json-forms.ts';

const limits = fc
  .tuple(fc.integer({ min: 1, max: 18 }), fc.nat(18))
  .filter(([precision, scale]) => scale <= precision);

/** A field between other bytes, which could be taken for its own. */
const between = (text: string) => ({
  bytes: Buffer.from(`.5${text}.5`),
  from: 2,
  end: 2 + text.length,
});

it('a DECIMAL has the digits of its text, however many come after the point', () => {
  const cases = fc
    .tuple(limits, fc.boolean(), fc.nat(), fc.nat())
    .map(([[precision, scale], isNegative, seed, zeros]) => {
      const digits = String(seed)
        .repeat(2)
        .slice(0, precision)
        .padStart(scale + 1, '0');
      const point = digits.length - scale;
      const fraction = `${digits.slice(point)}00`.slice(0, zeros % (scale + 3));
      const text = `${isNegative ? '-' : ''}${digits.slice(0, point)}${fraction && `.${fraction}`}`;
      const unscaled = digits.slice(0, point) + fraction.slice(0, scale).padEnd(scale, '0');
      return { precision, scale, text, value: BigInt(unscaled) * (isNegative ? -1n : 1n) };
    });
  fc.assert(
    fc.property(cases, ({ precision, scale, text, value }) => {
      const number = jsonNumberOf(`numeric(${precision},${scale})`);
      const { bytes, from, end } = between(text);
      expect(number?.check(bytes, from, end), text).toBeUndefined();
      const read = number?.read(bytes, from, end) ?? Number.NaN;
      expect(Object.is(read, -0)).toBe(false);
      expect(BigInt(read), text).toBe(value);
    }),
  );
});

it.each(['1x.34', '12.3x', '--1.25', '1.2.25', '.25x', '1-2.25', '"1.25"'])(
  'a DECIMAL takes no %s',
  (text) => {
    const { bytes, from, end } = between(text);
    const reason = jsonNumberOf('numeric(9,2)')?.check(bytes, from, end);
    expect(reason).toMatch(/^(not written|more digits)/);
  },
);

it.each([
  ['123.45', undefined],
  ['-123.45', undefined],
  ['1234.56', 'too large for DECIMAL(5,2)'],
  ['-1234.56', 'too large for DECIMAL(5,2)'],
  ['0001.25', undefined],
  ['1.255', 'more digits after the point than DECIMAL(5,2) has'],
])('%s is judged by the limits of its type', (text, reason) => {
  const { bytes, from, end } = between(text);
  expect(jsonNumberOf('numeric(5,2)')?.check(bytes, from, end)).toBe(reason);
});
