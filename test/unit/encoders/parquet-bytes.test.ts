import { createHash, randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { openParquet, type ParquetSizes } from '../../../src/rows/encoders/parquet/encode.ts';
import { encodeParquet } from '../../support/parquet-readers.ts';
import { columnsOf, rowBlocks, type TestRow } from '../../support/row-blocks.ts';

const columns = columnsOf({
  flag: 'bool',
  small: 'int2',
  whole: 'int4',
  large: 'int8',
  single: 'float4',
  double: 'float8',
  name: 'text',
  id: 'uuid',
  data: 'jsonb',
  other: 'as_json',
  day: 'date',
  at: 'timestamptz',
  blob: 'bytea',
});

const rows: TestRow[] = Array.from({ length: 5000 }, (_, n) =>
  n % 17 === 3
    ? columns.map(() => null)
    : [
        n % 3 === 0,
        n % 30_000,
        n * 7919 - 1_000_000,
        BigInt(n) * 1_000_399_751_580_331n,
        Math.fround(n / 3),
        n === 4000 ? Number.NaN : n / 7,
        n < 2500 ? `name ${n % 20}` : `${'long '.repeat(n % 30)}${n}`,
        `0190c1d2-0000-7000-8000-${(n % 1200).toString(16).padStart(12, '0')}`,
        `{"n": ${n}}`,
        `"1.${n}0"`,
        n - 20_000,
        1_709_251_200_000_001n + BigInt(n) * 1_000_003n,
        Buffer.from([0, 255, n % 256]),
      ],
);
const sizes: ParquetSizes = {
  page: { bytes: 4096, rows: 300 },
  groupRawBytes: 200_000,
  groupHeldBytes: 1e9,
  checkpointBytes: 10_000,
};

/**
 * Without compression, so that the bytes are the encoder's alone. If they change, so does `createdBy`: an interval whose rows
 * are the same gets other files then.
 */
it('a file keeps its bytes from one version of Sluice to the next', async () => {
  const digests = [];
  for (const given of [undefined, sizes]) {
    const file = await encodeParquet(columns, null, rowBlocks(columns, rows, 700), given);
    digests.push(createHash('sha256').update(file).digest('hex'));
  }
  expect(digests).toEqual([
    'a99a8e887aef8b983237c2e48475dee9195a38612b88a6c2e48df9ff08279a9d',
    '6fc15c7eb160e938fcfd541bc04422810bdae1553dbc6b614162c62b0fb4d06a',
  ]);
});

describe('the memory of pages', () => {
  const columns = columnsOf({ id: 'int8', body: 'bytea' });
  const rowsPerGroup = 64;
  const groups = 4;
  const pageBytes = 64 * 1024;
  const sizes: ParquetSizes = {
    page: { bytes: pageBytes, rows: 1_000 },
    groupRawBytes: 2 ** 30,
    groupHeldBytes: 2 ** 30,
    groupRows: rowsPerGroup,
    checkpointBytes: 2 ** 30,
  };
  /** A group has about 4 MiB, of 64 KiB a row. */
  const blocks = rowBlocks(
    columns,
    Array.from({ length: rowsPerGroup * groups }, (_, n) => [BigInt(n), randomBytes(pageBytes)]),
    16,
  );

  /** The file, and the memory that its pages were in. */
  async function encode(releases: boolean) {
    const encoder = openParquet(columns, null, sizes);
    const copies: Buffer[] = [];
    const memory = new Set<ArrayBufferLike>();
    const take = (chunks: readonly Uint8Array[]) => {
      for (const chunk of chunks) {
        copies.push(Buffer.from(chunk));
        const isPage = chunk.length >= pageBytes;
        if (isPage) memory.add(chunk.buffer);
        // What was taken may be written over at any time.
        if (isPage && releases) chunk.fill(0xff);
      }
      if (releases) encoder.release?.();
    };
    for (const block of blocks) take(await encoder.write(block));
    take(await encoder.finish());
    return { file: Buffer.concat(copies), memory };
  }

  it('row groups have the memory of those that were taken, and their own bytes', async () => {
    const taken = await encode(true);
    const kept = await encode(false);
    expect(taken.file.equals(kept.file)).toBe(true);
    // That of one group, and the first slabs, which are small.
    expect(taken.memory.size * 2).toBeLessThan(kept.memory.size);
  });
});
