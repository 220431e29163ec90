import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { Column } from '../../../src/foundation/domain/row-block.ts';
import { openParquet } from '../../../src/rows/encoders/parquet/encode.ts';
import { rowBlock, type TestRow } from '../../support/row-blocks.ts';

/** The file of one column of numerics, and the rows that are not in it. */
async function encode(
  type: 'numeric' | 'as_json',
  sourceType: string,
  texts: readonly (string | null)[],
  chosen: { precision: number; scale: number } | null = null,
) {
  const columns: readonly Column[] = [{ name: 'v', type, sourceType }];
  const rows = texts.map((text): TestRow => [text]);
  const decimalColumns = chosen && [{ name: 'v', ...chosen }];
  const encoder = openParquet(columns, null, undefined, { decimalColumns });
  const parts = [...(await encoder.write(rowBlock(columns, rows)))];
  const { rejected } = encoder;
  parts.push(...(await encoder.finish()));
  return { file: Buffer.concat(parts).toString('latin1'), rejected };
}

const limits = fc
  .tuple(fc.integer({ min: 1, max: 20 }), fc.nat(20))
  .filter(([precision, scale]) => scale <= precision)
  .map(([precision, scale]) => ({ precision, scale }));

/** More digits than a type has, too, and values at the ends of digits to the base 10,000. */
const number = fc
  .tuple(
    fc.boolean(),
    fc.oneof(fc.nat(), fc.constantFrom(0, 1, 9, 9_999, 10_000, 99_990_000, 100_000_000)),
    fc.nat(3),
    fc.oneof(fc.constant(''), fc.stringMatching(/^\d{1,9}$/), fc.constantFrom('0', '00', '5000')),
  )
  .map(([isNegative, whole, more, fraction]) => {
    const digits = `${whole}${'0007'.repeat(more)}`;
    return `${isNegative ? '-' : ''}${digits}${fraction && `.${fraction}`}`;
  });
const value = fc.oneof(
  { weight: 8, arbitrary: number },
  { weight: 1, arbitrary: fc.constantFrom(null, '"NaN"', '"Infinity"', '"-Infinity"') },
);

it('a numeric in its own form gives the same file, and the same rejected rows, as its JSON', async () => {
  const cases = fc.record({
    limits,
    chosen: fc.option(limits, { freq: 3 }),
    values: fc.array(value, { maxLength: 40 }),
  });
  await fc.assert(
    fc.asyncProperty(cases, async ({ limits: { precision, scale }, chosen, values }) => {
      const sourceType = `numeric(${precision},${scale})`;
      const own = await encode('numeric', sourceType, values, chosen);
      expect(own).toEqual(await encode('as_json', sourceType, values, chosen));
    }),
    { numRuns: 300 },
  );
});

it('values that fit are in the file', async () => {
  const fitting = ['0.00', '-0.01', '12345.67', '-99999999.99', '0.10', '10000.00', '1.00', null];
  const { file, rejected } = await encode('numeric', 'numeric(10,2)', fitting);
  expect(rejected).toEqual([]);
  const values = [0, -1, 1_234_567, -9_999_999_999, 10, 1_000_000, 100];
  const plain = Buffer.alloc(values.length * 8);
  for (const [at, each] of values.entries()) plain.writeBigInt64LE(BigInt(each), at * 8);
  expect(file).toContain(plain.toString('latin1'));
});
