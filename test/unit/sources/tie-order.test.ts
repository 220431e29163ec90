import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  RowBlockBuilder,
  type SourceBlock,
} from '../../../src/rows/sources/postgres/row-blocks.ts';
import type { TieKeyType } from '../../../src/rows/sources/postgres/tie-order.ts';
import { columnsOf, int16, int32 } from '../../support/row-blocks.ts';

const header = Buffer.from('PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0', 'latin1');
const trailer = Buffer.from([0xff, 0xff]);

interface Row {
  readonly n: number;
  readonly moment: bigint;
  readonly keys: readonly (bigint | null)[];
}

const keyBytes: Readonly<Record<TieKeyType, number>> = { int2: 2, int4: 4, int8: 8, uuid: 16 };

function encodeKey(type: TieKeyType, key: bigint | null): Buffer[] {
  if (key === null) return [int32(-1)];
  const bits = keyBytes[type] * 8;
  const hex = BigInt.asUintN(bits, key)
    .toString(16)
    .padStart(bits / 4, '0');
  return [int32(keyBytes[type]), Buffer.from(hex, 'hex')];
}

/** As `ORDER BY moment, key…` does; rows that are equal keep their order. */
function compareRows(types: readonly TieKeyType[], one: Row, other: Row): number {
  if (one.moment !== other.moment) return one.moment < other.moment ? -1 : 1;
  for (const [index, type] of types.entries()) {
    const [left, right] = [one, other].map(({ keys }) => keys[index] ?? null);
    if (left === right) continue;
    if (left === null || left === undefined) return 1;
    if (right === null || right === undefined) return -1;
    const [a, b] = [left, right].map((key) => (type === 'uuid' ? BigInt.asUintN(128, key) : key));
    return (a as bigint) < (b as bigint) ? -1 : 1;
  }
  return 0;
}

/** The numbers of the rows as they leave, and at which of them the builder gave up. */
function sortRows(rows: readonly Row[], types: readonly TieKeyType[], blockBytes: number) {
  const columns = columnsOf({ n: 'int4' });
  const keys = types.map((type, index) => ({ field: 2 + index, type }));
  const limits = { hidden: 1 + types.length, ties: { moment: 1, keys } };
  const builder = new RowBlockBuilder(columns, blockBytes, limits);
  const sent = rows.map(({ n, moment, keys: values }) => {
    const at = Buffer.alloc(8);
    at.writeBigInt64BE(moment);
    const fields = types.flatMap((type, index) => encodeKey(type, values[index] ?? null));
    const head = [int16(2 + types.length), int32(4), int32(n), int32(8), at];
    return Buffer.concat([...head, ...fields]);
  });
  const found: number[] = [];
  const take = (blocks: readonly SourceBlock[]) => {
    for (const { rowCount, bytes, offsets, hiddenOffsets } of blocks) {
      for (let row = 0; row < rowCount; row += 1) {
        const n = bytes.readInt32BE(offsets[row]);
        found.push(n);
        const moment = bytes.readBigInt64BE(hiddenOffsets[row * limits.hidden]);
        expect(moment).toBe(rows.find((one) => one.n === n)?.moment);
      }
      builder.release();
    }
  };
  for (const part of [header, ...sent, trailer]) {
    builder.append(part, 0, part.length);
    take(builder.take());
  }
  take(builder.finish());
  expect(builder.totalRows).toBe(rows.length);
  return { found, givenUpAt: builder.givenUpAt };
}

const keyTypes = fc.array(fc.constantFrom<TieKeyType>('int2', 'int4', 'int8', 'uuid'), {
  minLength: 1,
  maxLength: 2,
});
const extremes = [-32768n, -1n, 0n, 1n, 32767n];
const key = fc.oneof(fc.constantFrom(...extremes, null), fc.bigInt({ min: -32768n, max: 32767n }));
/** With few moments many rows share one. */
const table = fc
  .constantFrom(0, 3, 25)
  .chain((most) => fc.array(fc.tuple(fc.nat(most), key, key), { maxLength: 120, size: 'max' }))
  .map((rows) =>
    rows
      .map(([moment, ...keys], n): Row => ({ n, moment: BigInt(moment) * 2n ** 31n - 9n, keys }))
      .toSorted((one, other) => Number(one.moment - other.moment)),
  );

describe('rows that come sorted by their moment alone', () => {
  it('leave sorted by key too, up to where too many have one moment', () => {
    const outcomes = { whole: 0, givenUp: 0 };
    fc.assert(
      fc.property(table, keyTypes, fc.constantFrom(300, 1200, 9000), (rows, types, blockBytes) => {
        const sorted = rows.toSorted((one, other) => compareRows(types, one, other));
        const { found, givenUpAt } = sortRows(rows, types, blockBytes);
        const expected = sorted.map(({ n }) => n);
        expect(found).toEqual(expected.slice(0, givenUpAt ?? rows.length));
        if (givenUpAt === null) outcomes.whole += 1;
        else {
          outcomes.givenUp += 1;
          // No moment is cut in two.
          const [last, next] = [sorted[givenUpAt - 1], sorted[givenUpAt]];
          expect(last?.moment).not.toBe(next?.moment);
        }
      }),
    );
    expect(Math.min(outcomes.whole, outcomes.givenUp)).toBeGreaterThan(0);
  });

  it('tells large keys apart by all their bytes', () => {
    const keys = [2n ** 62n, -(2n ** 62n), 2n ** 62n + 1n, 2n ** 32n, 2n ** 31n, -1n];
    const rows = keys.map((value, n): Row => ({ n, moment: 7n, keys: [value] }));
    for (const type of ['int8', 'uuid'] as const) {
      const sorted = rows.toSorted((one, other) => compareRows([type], one, other));
      expect(sortRows(rows, [type], 9000).found).toEqual(sorted.map(({ n }) => n));
    }
  });
});
