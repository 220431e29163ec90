import { describe, expect, it } from 'vitest';
import { InfiniteValues } from '../../../src/rows/pipeline/replace-infinite.ts';
import { columnsOf, rowBlock } from '../../support/row-blocks.ts';

const columns = columnsOf({ id: 'date', day: 'date', moment: 'timestamp', n: 'int8' });
const block = () =>
  rowBlock(columns, [
    ['infinity', 'infinity', 'infinity', 2n ** 63n - 1n],
    ['-infinity', '-infinity', '-infinity', -(2n ** 63n)],
    [1, null, 1n, 1n],
  ]);

/** The fields of the rows; the bytes of each as hexadecimal. */
const fieldsOf = ({ bytes, offsets, lengths }: ReturnType<typeof block>) =>
  Array.from(lengths, (length, field) =>
    length < 0
      ? null
      : bytes.subarray(offsets[field], (offsets[field] as number) + length).toString('hex'),
  );

describe('infinite values', () => {
  it('become null, but not in keys and in columns without an infinity', () => {
    const before = fieldsOf(block());
    const after = fieldsOf(new InfiniteValues(columns, [0], 'null').replaceIn(block()));
    expect(after).toEqual(before.map((field, at) => ([1, 2, 5, 6].includes(at) ? null : field)));
  });

  it('become the first and last moments of the years 1 to 9999', () => {
    const after = fieldsOf(new InfiniteValues(columns, [0], 'limit').replaceIn(block()));
    const days = (date: string) => (Date.parse(date) - Date.parse('2000-01-01')) / 86_400_000;
    const hex = (value: bigint, bits: number) =>
      BigInt.asUintN(bits, value)
        .toString(16)
        .padStart(bits / 4, '0');
    const end = BigInt(days('9999-12-31') + 1) * 86_400_000_000n - 1n;
    const start = BigInt(days('0001-01-01')) * 86_400_000_000n;
    expect(after[1]).toBe(hex(BigInt(days('9999-12-31')), 32));
    expect(after[2]).toBe(hex(end, 64));
    expect(after[5]).toBe(hex(BigInt(days('0001-01-01')), 32));
    expect(after[6]).toBe(hex(start, 64));
    const before = fieldsOf(block());
    for (const at of [0, 3, 4, 7, 8, 9, 10, 11]) expect(after[at]).toBe(before[at]);
  });

  it('stay as they are if the rows are to be rejected', () => {
    const given = block();
    expect(new InfiniteValues(columns, [0], 'reject').replaceIn(given)).toBe(given);
  });
});
