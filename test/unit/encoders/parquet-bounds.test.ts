import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ColumnType } from '../../../src/foundation/domain/row-block.ts';
import { viewOf } from '../../../src/foundation/domain/byte-writer.ts';
import { TextBounds } from '../../../src/rows/encoders/parquet/bounds.ts';
import { encodeParquet, readMetadata } from '../../support/parquet-readers.ts';
import { columnsOf, rowBlock, type TestValue } from '../../support/row-blocks.ts';

function boundsOf(texts: readonly string[]) {
  const bounds = new TextBounds();
  for (const text of texts) {
    const bytes = Buffer.from(`..${text}..`);
    bounds.add(bytes, viewOf(bytes), 2, bytes.length - 4);
  }
  return bounds.take();
}

/** Few characters, so that texts share long starts; with the edges of UTF-8's widths. */
const character = fc.constantFrom('a', 'b', '\u007f', 'é', '\ud7ff', '\ue000', '€', '\u{10ffff}');
const text = fc.oneof(
  fc.string({ unit: character, maxLength: 6 }),
  fc
    .tuple(fc.constantFrom('a'.repeat(62), '\u{10ffff}'.repeat(15)), fc.string({ unit: character }))
    .map(([start, rest]) => start + rest),
);

describe('the bounds of texts', () => {
  it('enclose every text, are short and end at whole characters', () => {
    fc.assert(
      fc.property(fc.array(text, { minLength: 1, maxLength: 8 }), (texts) => {
        const sorted = texts.map((each) => Buffer.from(each)).sort(Buffer.compare);
        const least = sorted[0] ?? Buffer.alloc(0);
        const greatest = sorted.at(-1) ?? Buffer.alloc(0);
        const bounds = boundsOf(texts);
        if (bounds === undefined) throw new Error('no bounds');
        expect(Buffer.compare(bounds.min, least)).toBeLessThanOrEqual(0);
        expect(bounds.minIsExact).toBe(Buffer.compare(bounds.min, least) === 0);
        expect(bounds.min.length).toBeLessThanOrEqual(64);
        expect(Buffer.from(Buffer.from(bounds.min).toString())).toEqual(Buffer.from(bounds.min));
        if (bounds.max === undefined) return;
        expect(Buffer.compare(bounds.max, greatest)).toBeGreaterThanOrEqual(0);
        expect(bounds.maxIsExact).toBe(Buffer.compare(bounds.max, greatest) === 0);
        expect(bounds.max.length).toBeLessThanOrEqual(67);
        expect(Buffer.from(Buffer.from(bounds.max).toString())).toEqual(Buffer.from(bounds.max));
      }),
      { numRuns: 500 },
    );
  });

  it('have no maximum if the text repeats only the last character of all', () => {
    expect(boundsOf(['\u{10ffff}'.repeat(20)])?.max).toBeUndefined();
    expect(boundsOf([`a${'\u{10ffff}'.repeat(20)}`])?.max).toEqual(Buffer.from('b'));
  });

  it('are none without texts, and start anew once taken', () => {
    expect(boundsOf([])).toBeUndefined();
  });
});

async function statisticsOf(type: ColumnType, values: readonly TestValue[]) {
  const columns = columnsOf({ value: type });
  const rows = values.map((value) => [value]);
  const file = await encodeParquet(columns, null, [rowBlock(columns, rows)]);
  return readMetadata(file).row_groups[0]?.columns[0]?.meta_data?.statistics;
}

describe('the statistics of a column chunk', () => {
  it.each<[ColumnType, TestValue[], unknown, unknown]>([
    ['int2', [3, null, -32_768, 32_767], -32_768, 32_767],
    ['int4', [-1, 2_147_483_647, -2_147_483_648], -2_147_483_648, 2_147_483_647],
    ['int8', [5n, -(2n ** 63n), 2n ** 63n - 1n], -(2n ** 63n), 2n ** 63n - 1n],
    ['int8', [2n ** 32n, 2n ** 32n - 1n, 2n ** 31n], 2n ** 31n, 2n ** 32n],
    ['int8', [-1n, -(2n ** 32n), -(2n ** 32n) - 1n], -(2n ** 32n) - 1n, -1n],
    ['timestamptz', [1n, -1n, 946_684_800_000_000n], -1n, 946_684_800_000_000n],
    ['date', [0, -10_958, 20_000], -10_958, 20_000],
    ['float8', [1.5, -2.5, Number.POSITIVE_INFINITY], -2.5, Number.POSITIVE_INFINITY],
    ['text', ['b', 'ab', 'ä', null], 'ab', 'ä'],
  ])('of %s are right (%#)', async (type, values, min, max) => {
    expect(await statisticsOf(type, values)).toMatchObject({
      min_value: min,
      max_value: max,
      is_min_value_exact: true,
      is_max_value_exact: true,
      null_count: BigInt(values.filter((value) => value === null).length),
    });
  });

  it('of long texts are cut and say so', async () => {
    expect(await statisticsOf('text', ['a'.repeat(65), 'b'.repeat(65)])).toEqual({
      min_value: 'a'.repeat(64),
      max_value: `${'b'.repeat(63)}c`,
      is_min_value_exact: false,
      is_max_value_exact: false,
      null_count: 0n,
    });
  });

  it('cover both zeros and leave out NaN', async () => {
    const zeros = await statisticsOf('float8', [0]);
    expect([zeros?.min_value, zeros?.max_value]).toEqual([-0, 0]);
    expect(await statisticsOf('float4', [1, Number.NaN])).toEqual({ null_count: 0n });
  });

  it('count nulls if nothing else is known', async () => {
    expect(await statisticsOf('jsonb', ['{}', null, null])).toEqual({ null_count: 2n });
    expect(await statisticsOf('int4', [null, null])).toEqual({ null_count: 2n });
  });
});
