import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { openParquet } from '../../../src/rows/encoders/parquet/encode.ts';
import { jsonNumberOf } from '../../../src/rows/encoders/parquet/json-forms.ts';
import { encodeAll, readWithHyparquet } from '../../support/parquet-readers.ts';
import { columnsOf, rowBlock, type TestRow } from '../../support/row-blocks.ts';

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

const columns = columnsOf({ id: 'int4', day: 'date', at: 'timestamptz', local: 'timestamp' });
const last = 2n ** 63n - 1n;
const good: TestRow = [1, 0, last, -210_866_803_200_000_000n];

describe('values that no Parquet type holds', () => {
  it.each<[string, TestRow, number, RegExp]>([
    ['an infinite date', [2, 'infinity', 0n, 0n], 1, /^infinity/],
    ['a date before all', [2, '-infinity', 0n, 0n], 1, /^-infinity/],
    ['an infinite time', [2, 0, 'infinity', 0n], 2, /^infinity/],
    ['a time before all', [2, 0, 0n, '-infinity'], 3, /^-infinity/],
    ['a time beyond int64', [2, 0, last + 1n, 0n], 2, /^later than 294247-01-10T04/],
    ['the last time of PostgreSQL', [2, 0, 9_224_318_015_999_999_999n, 0n], 2, /^later/],
  ])('%s is rejected by name, its row left out', async (_, bad, column, reason) => {
    const encoder = openParquet(columns, null);
    const parts = [...(await encoder.write(rowBlock(columns, [good, bad, good, bad])))];
    expect(encoder.rejected).toEqual([
      { row: 1, column, reason: expect.stringMatching(reason) },
      { row: 3, column, reason: expect.stringMatching(reason) },
    ]);
    parts.push(...(await encoder.write(rowBlock(columns, [good]))));
    expect(encoder.rejected).toEqual([]);
    parts.push(...(await encoder.finish()));
    expect(await readWithHyparquet(Buffer.concat(parts), columns)).toEqual([good, good, good]);
  });

  it('are reported once a row, for its first column, by rising row', async () => {
    const encoder = openParquet(columns, null);
    const rows: TestRow[] = [
      [1, 0, 0n, 'infinity'],
      [2, 'infinity', 'infinity', 'infinity'],
      [3, null, null, null],
    ];
    await encoder.write(rowBlock(columns, rows));
    expect(encoder.rejected?.map(({ row, column }) => [row, column])).toEqual([
      [0, 3],
      [1, 1],
    ]);
  });

  it('leave a valid file behind if no row is left', async () => {
    const encoder = openParquet(columns, 'snappy');
    const file = await encodeAll(encoder, [rowBlock(columns, [[1, 'infinity', null, null]])]);
    expect(await readWithHyparquet(file, columns)).toEqual([]);
  });
});
