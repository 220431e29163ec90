import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { viewOf } from '../../../src/foundation/domain/byte-writer.ts';
import { parquet } from '../../../src/rows/encoders/parquet/definition.ts';
import { Dictionary } from '../../../src/rows/encoders/parquet/byte-array-column.ts';
import { openParquet, type ParquetSizes } from '../../../src/rows/encoders/parquet/encode.ts';
import { compressionsOf } from '../../support/compressions.ts';
import { encodeParquet, readMetadata } from '../../support/parquet-readers.ts';
import { columnsOf, rowBlock, rowBlocks, type TestRow } from '../../support/row-blocks.ts';

const columns = columnsOf({ id: 'int8', name: 'text', who: 'uuid', data: 'jsonb', ok: 'bool' });
const digest = (text: string) => createHash('md5').update(text).digest('hex');
const rows: TestRow[] = Array.from({ length: 4000 }, (_, index) => [
  BigInt(index),
  index % 13 === 0 ? null : `name ${index < 2000 ? index % 20 : index}`,
  digest(`${index % 300}`),
  JSON.stringify({ digest: digest(`${index}`) }),
  index % 2 === 0,
]);
const sizes: ParquetSizes = {
  page: { bytes: 3000, rows: 100 },
  groupRawBytes: 200_000,
  groupHeldBytes: 40_000,
  checkpointBytes: 5000,
};

describe('the Parquet encoder', () => {
  it.each(compressionsOf(parquet))(
    'gives equal bytes however rows are cut, %s',
    async (compression) => {
      const whole = await encodeParquet(columns, compression, [rowBlock(columns, rows)], sizes);
      expect(readMetadata(whole).row_groups.length).toBeGreaterThan(2);
      for (const blockRows of [1, 333, 1024]) {
        const blocks = rowBlocks(columns, rows, blockRows);
        const cut = await encodeParquet(columns, compression, blocks, sizes);
        expect(cut.equals(whole)).toBe(true);
      }
    },
  );

  it('ends a row group at its maximum of rows, however rows are cut', async () => {
    const limited = { ...sizes, groupRawBytes: 1e9, groupHeldBytes: 1e9, groupRows: 700 };
    const files = await Promise.all(
      [4000, 333, 1].map((size) =>
        encodeParquet(columns, null, rowBlocks(columns, rows, size), limited),
      ),
    );
    const [whole = Buffer.alloc(0), ...cut] = files;
    const groups = readMetadata(whole).row_groups.map(({ num_rows }) => Number(num_rows));
    expect(groups).toEqual([700, 700, 700, 700, 700, 500]);
    for (const file of cut) expect(file.equals(whole)).toBe(true);
  });

  it('says what it holds, and ends a row group so that memory stays bounded', async () => {
    const bytes = columnsOf({ blob: 'bytea' });
    const encoder = openParquet(bytes, null, sizes);
    let taken = 0;
    let highest = 0;
    for (let index = 0; index < 3000; index++) {
      const given = await encoder.write(rowBlock(bytes, [[Buffer.alloc(100, index)]]));
      // The file's first four bytes come at once; what comes later ends a row group.
      taken = index > 0 && given.length > 0 ? 0 : taken + 100;
      highest = Math.max(highest, encoder.heldBytes);
      expect(Math.abs(encoder.heldBytes - taken)).toBeLessThan(sizes.checkpointBytes);
    }
    expect(highest).toBeGreaterThan(sizes.groupHeldBytes / 2);
    expect(highest).toBeLessThan(sizes.groupHeldBytes + sizes.checkpointBytes);
    await encoder.finish();
    expect(encoder.heldBytes).toBe(0);
  });

  it('describes the file: rows, sizes, encodings, writer', async () => {
    const file = await encodeParquet(columns, 'zstd', [rowBlock(columns, rows)], sizes);
    const metadata = readMetadata(file);
    expect(metadata.num_rows).toBe(4000n);
    expect(metadata.created_by).toMatch(/^sluice version /);
    let at = 4n;
    let indexes = 0;
    for (const group of metadata.row_groups) {
      expect(group.file_offset).toBe(at);
      for (const { meta_data: chunk, ...index } of group.columns) {
        expect(chunk?.codec).toBe('ZSTD');
        expect(chunk?.dictionary_page_offset ?? chunk?.data_page_offset).toBe(at);
        at += chunk?.total_compressed_size ?? 0n;
        indexes += (index.column_index_length ?? 0) + (index.offset_index_length ?? 0);
      }
    }
    expect(file.length).toBe(Number(at) + indexes + metadata.metadata_length + 8);
  });

  it('fails the write if a page cannot be compressed', async () => {
    const encoder = openParquet(columns, 'lzo' as never, sizes);
    await expect(encoder.write(rowBlock(columns, rows))).rejects.toThrow();
  });
});

describe('a dictionary', () => {
  it('refuses values made to collide, instead of searching ever longer', () => {
    const dictionary = new Dictionary(1e9);
    const taken = collidingTexts(1000).map((bytes) =>
      dictionary.indexOf(bytes, viewOf(bytes), 0, bytes.length),
    );
    expect(taken.slice(0, 256)).toEqual(Array.from({ length: 256 }, (_, index) => index));
    expect(new Set(taken.slice(256))).toEqual(new Set([-1]));
  });

  it('is as a new one after it is cleared', () => {
    const used = new Dictionary(1e9);
    const texts = Array.from({ length: 3000 }, (_, index) => Buffer.from(`text ${index}`));
    const indicesIn = (dictionary: Dictionary, values: Buffer[]) =>
      values.map((bytes) => dictionary.indexOf(bytes, viewOf(bytes), 0, bytes.length));
    indicesIn(used, texts);
    used.clear();
    const colliding = collidingTexts(1000);
    expect(indicesIn(used, colliding)).toEqual(indicesIn(new Dictionary(1e9), colliding));
    used.clear();
    expect(indicesIn(used, texts)).toEqual(texts.map((_, index) => index));
    expect(used.size).toBe(3000);
  });
});

/** Eight bytes each, whose second half undoes what the first half did to the hash. */
function collidingTexts(count: number): Buffer[] {
  const inverse = (factor: number) => {
    let result = factor;
    for (let step = 0; step < 5; step++) {
      result = Math.imul(result, 2 - Math.imul(factor, result));
    }
    return result;
  };
  const rotate = (word: number, by: number) => (word << by) | (word >>> (32 - by));
  return Array.from({ length: count }, (_, first) => {
    const mixed = Math.imul(rotate(Math.imul(first, 0xcc9e2d51), 15), 0x1b873593);
    const hash = (Math.imul(rotate(8 ^ mixed, 13), 5) + 0xe6546b64) | 0;
    const second = Math.imul(rotate(Math.imul(hash, inverse(0x1b873593)), 17), inverse(0xcc9e2d51));
    const bytes = Buffer.alloc(8);
    bytes.writeInt32LE(first);
    bytes.writeInt32LE(second, 4);
    return bytes;
  });
}
