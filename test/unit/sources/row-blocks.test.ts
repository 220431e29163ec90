import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import type { RowBlock } from '../../../src/foundation/domain/row-block.ts';
import { CopyFormatError, RowBlockBuilder } from '../../../src/rows/sources/postgres/row-blocks.ts';
import { countLimit, sliceInterval } from '../../../src/rows/sources/postgres/slices.ts';
import { manyRows } from '../../../src/rows/sources/source.ts';
import { columnsOf, int16, int32 } from '../../support/row-blocks.ts';

const columns = columnsOf({ a: 'text', b: 'bytea' });
const header = Buffer.from('PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0', 'latin1');
const trailer = Buffer.from([0xff, 0xff]);

type Field = Buffer | null;

function copyRow(fields: readonly Field[]): Buffer {
  const parts = [int16(fields.length)];
  for (const field of fields) parts.push(int32(field?.length ?? -1), field ?? Buffer.alloc(0));
  return Buffer.concat(parts);
}

function copyStream(rows: readonly (readonly Field[])[]): Buffer {
  return Buffer.concat([header, ...rows.map(copyRow), trailer]);
}

/** Feeds the stream in chunks that end at the given places. */
function build(stream: Buffer, blockBytes: number, cuts: readonly number[] = []): RowBlock[] {
  const builder = new RowBlockBuilder(columns, blockBytes);
  const blocks: RowBlock[] = [];
  let start = 0;
  for (const cut of [...cuts.filter((at) => at < stream.length), stream.length]) {
    // A buffer that is overwritten afterwards, as a socket's may be.
    const chunk = Buffer.from(stream.subarray(start, cut));
    builder.append(chunk, 0, chunk.length);
    chunk.fill(0xee);
    blocks.push(...builder.take());
    start = cut;
  }
  return [...blocks, ...builder.finish()];
}

function rowsOf(blocks: readonly RowBlock[]): Field[][] {
  return blocks.flatMap(({ rowCount, columns: { length }, bytes, offsets, lengths }) =>
    Array.from({ length: rowCount }, (_, row) =>
      Array.from({ length }, (_, column) => {
        const from = offsets[row * length + column] as number;
        const size = lengths[row * length + column] as number;
        return size < 0 ? null : Buffer.from(bytes.subarray(from, from + size));
      }),
    ),
  );
}

const field = fc.option(
  fc.uint8Array({ maxLength: 90 }).map((bytes) => Buffer.from(bytes)),
  { freq: 4 },
);
const table = fc.array(fc.tuple(field, field), { maxLength: 40 });

describe('RowBlockBuilder', () => {
  it('gives back every field of every row, in order, however the stream is cut', () => {
    fc.assert(
      fc.property(table, fc.array(fc.nat(6000)), (rows, cuts) => {
        const ends = [...cuts].sort((one, other) => one - other);
        expect(rowsOf(build(copyStream(rows), 128, ends))).toEqual(rows);
      }),
    );
  });

  it('cuts blocks by the bytes alone, not by the chunks they came in', () => {
    fc.assert(
      fc.property(table, fc.array(fc.nat(6000)), (rows, cuts) => {
        const ends = [...cuts].sort((one, other) => one - other);
        const sizes = (blocks: readonly RowBlock[]) => blocks.map(({ rowCount }) => rowCount);
        const stream = copyStream(rows);
        expect(sizes(build(stream, 256, ends))).toEqual(sizes(build(stream, 256)));
      }),
    );
  });

  it('uses the memory of released blocks again, and no other', () => {
    fc.assert(
      fc.property(table, fc.integer({ min: 1, max: 500 }), (rows, chunkBytes) => {
        const builder = new RowBlockBuilder(columns, 256);
        const stream = copyStream(rows);
        const found: Field[][] = [];
        const read = (blocks: readonly RowBlock[]) => {
          for (const block of blocks) {
            found.push(...rowsOf([block]));
            builder.release();
          }
        };
        for (let at = 0; at < stream.length; at += chunkBytes) {
          builder.append(stream, at, Math.min(at + chunkBytes, stream.length));
          read(builder.take());
        }
        read(builder.finish());
        expect(found).toEqual(rows);
      }),
    );
    const blocks = Array.from({ length: 50 }, () => [Buffer.alloc(100, 7), null]);
    const builder = new RowBlockBuilder(columns, 256);
    const memories = new Set<ArrayBufferLike>();
    for (const part of [header, ...blocks.map(copyRow), trailer]) {
      builder.append(part, 0, part.length);
      for (const block of builder.take()) {
        memories.add(block.bytes.buffer);
        builder.release();
      }
    }
    expect(memories.size).toBe(2);
  });

  it('makes no block larger than asked, but for a row that is larger itself', () => {
    const small: Field[] = [Buffer.alloc(40, 1), null];
    const large: Field[] = [Buffer.alloc(3_000_000, 2), Buffer.alloc(100_000, 3)];
    const rows = [small, small, large, small, small, large, large, small];
    const blocks = build(copyStream(rows), 1024);
    // Compared as bytes: an element-wise comparison of megabytes takes minutes.
    const found = Buffer.concat(rowsOf(blocks).map(copyRow));
    expect(found.equals(Buffer.concat(rows.map(copyRow)))).toBe(true);
    const grown = blocks.filter(({ bytes }) => bytes.length > 1024);
    expect(grown.length).toBeLessThanOrEqual(3);
    for (const { bytes } of grown) expect(bytes.length).toBeLessThan(1.3 * 3_100_000);
  });

  it('gives no block for no rows', () => {
    expect(build(copyStream([]), 1024)).toEqual([]);
  });

  it('takes rows without any column', () => {
    const builder = new RowBlockBuilder([], 64);
    const stream = Buffer.concat([header, int16(0), int16(0), int16(0), trailer]);
    builder.append(stream, 0, stream.length);
    expect(builder.finish().map(({ rowCount }) => rowCount)).toEqual([3]);
  });

  it('steps over a header extension', () => {
    const extended = Buffer.concat([header.subarray(0, 15), int32(5), Buffer.from('extra')]);
    const stream = Buffer.concat([extended, copyRow([Buffer.from('x'), null]), trailer]);
    expect(rowsOf(build(stream, 64))).toEqual([[Buffer.from('x'), null]]);
  });

  it.each([
    ['ends within its header', header.subarray(0, 12)],
    ['ends after its header', header],
    ['ends between two rows', Buffer.concat([header, copyRow([null, null])])],
    ['ends within a row', copyStream([[Buffer.alloc(9), null]]).subarray(0, -9)],
    ['ends within its trailer', copyStream([[null, null]]).subarray(0, -1)],
    ['has another signature', Buffer.concat([Buffer.alloc(19), trailer])],
    [
      'has critical flags',
      Buffer.concat([header.subarray(0, 11), int32(1 << 16), int32(0), trailer]),
    ],
    ['has a row of too few fields', copyStream([[null]])],
    ['has a row of too many fields', copyStream([[null, null, null]])],
    ['has a field of a negative length', Buffer.concat([header, int16(2), int32(-2), trailer])],
    ['has a field beyond 1 GiB', Buffer.concat([header, int16(2), int32(0x7fffffff), trailer])],
    ['goes on after its trailer', Buffer.concat([copyStream([]), Buffer.from([0])])],
  ])('refuses a stream that %s', (_, stream) => {
    expect(() => build(stream, 64)).toThrow(CopyFormatError);
  });
});

const minute = 60_000;
const day = 24 * 60 * minute;

test.each([
  ['an hour', 60 * minute],
  ['a day', day],
  ['a month', 31 * day],
  ['all time', 20_000 * day],
])('of %s no more rows are counted than decide its slices', (_, end) => {
  const interval = { start: 0, end };
  const limit = countLimit(interval, 10 * minute);
  const slices = sliceInterval(interval, 10 * minute, limit);
  expect(limit).toBeGreaterThanOrEqual(manyRows);
  expect(limit).toBeLessThanOrEqual(200_000);
  expect(sliceInterval(interval, 10 * minute, limit + 1)).toEqual(slices);
  expect(sliceInterval(interval, 10 * minute, 1e9)).toEqual(slices);
  expect(slices.at(-1)?.end).toBe(end);
});
