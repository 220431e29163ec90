import { expect, test } from 'vitest';
import type { RowBlock } from '../../../src/foundation/domain/row-block.ts';
import { Portions } from '../../../src/rows/pipeline/portions.ts';
import { columnsOf, rowBlock } from '../../support/row-blocks.ts';

const columns = columnsOf({ id: 'text' });
const numbers = (from: number, count: number) => Array.from({ length: count }, (_, n) => from + n);
const blockOf = (from: number, count: number): RowBlock =>
  rowBlock(
    columns,
    numbers(from, count).map((n) => [Buffer.from(String(n))]),
  );
const idsOf = ({ bytes, offsets, lengths, rowCount }: RowBlock) =>
  numbers(0, rowCount).map((row) => {
    const start = offsets[row] ?? 0;
    return Number(bytes.toString('utf8', start, start + (lengths[row] ?? 0)));
  });

/** Cuts blocks of 1,000 rows for a chain that makes so many bytes of each row. */
function cut(blocks: number, bytesPerRow: number) {
  const portions = new Portions();
  const parts: number[] = [];
  const ids: number[] = [];
  for (let n = 0; n < blocks; n += 1) {
    for (const part of portions.of(blockOf(n * 1_000, 1_000))) {
      parts.push(part.rowCount);
      ids.push(...idsOf(part));
      const bytes = { length: part.rowCount * bytesPerRow } as Buffer;
      portions.see([{ block: { ...part, bytes }, rejected: [], dropped: 0 }]);
    }
  }
  expect(ids).toEqual(numbers(0, blocks * 1_000));
  return parts;
}

test('what a chain makes at once stays small, also of the first block, and each row comes once', () => {
  const parts = cut(1, 4 * 1024 ** 2);
  expect(Math.max(...parts)).toBe(2);
});

test('a chain that makes little of a row soon gets whole blocks', () => {
  const parts = cut(5, 100);
  expect(parts.slice(0, 4)).toEqual([1, 2, 4, 8]);
  expect(parts.filter((rows) => rows === 1_000)).toHaveLength(4);
});

test('a chain whose rows become large later gets fewer of them', () => {
  const portions = new Portions();
  const see = (rows: number, bytes: number) => {
    const [part] = portions.of(blockOf(0, rows));
    if (!part) throw new Error('no rows');
    const made = { ...part, bytes: { length: bytes } as Buffer };
    portions.see([{ block: made, rejected: [], dropped: 0 }]);
    return part.rowCount;
  };
  for (const rows of [1, 2, 4, 8, 16]) expect(see(1_000, 100)).toBe(rows);
  expect(see(1_000, 128 * 1024 ** 2)).toBe(32);
  expect(see(1_000, 100)).toBe(2);
});
