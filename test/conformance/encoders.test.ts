import { describe, expect, it } from 'vitest';
import type { RowBlock } from '../../src/foundation/domain/row-block.ts';
import type { Compression, EncoderDefinition } from '../../src/rows/encoders/encoder.ts';
import { encoders, fileExtension, openEncoder } from '../../src/rows/encoders/index.ts';
import { compressionsOf, mainCompressionsOf } from '../support/compressions.ts';
import { encodeAll, readWithHyparquet } from '../support/parquet-readers.ts';
import { columnsOf, rowBlock, rowBlocks, type TestRow } from '../support/row-blocks.ts';
import { unpack } from '../support/unpack.ts';

const columns = columnsOf({ n: 'int4', name: 'text', properties: 'jsonb', moment: 'timestamptz' });

function row(index: number): TestRow {
  return [
    index,
    index % 4 === 0 ? null : `name "${index % 50}"`,
    `{"n": ${index}, "text": "größe of ${index * 7919}, and some more of it"}`,
    1_709_251_200_000_000n + BigInt(index),
  ];
}
/** Text of more than a block of the codecs. */
const rows = Array.from({ length: 15_000 }, (_, index) => row(index));
const inLargeBlocks = rowBlocks(columns, rows, 15_000);
const inSmallBlocks = rowBlocks(columns, rows, 71);

const pairs = encoders.flatMap((definition) =>
  mainCompressionsOf(definition).map((compression) => ({
    format: definition.format,
    compression,
    definition,
  })),
);

const encode = (
  definition: EncoderDefinition,
  compression: Compression,
  blocks: readonly RowBlock[],
) => encodeAll(openEncoder(definition, compression, columns), blocks);

/** The values of the columns `n` and `name` of the file, read without any of our code. */
async function readNames(
  { format }: EncoderDefinition,
  compression: Compression,
  file: Buffer,
): Promise<(readonly [number, unknown])[]> {
  if (format === 'Parquet') {
    return (await readWithHyparquet(file, columns)).map(([n, name]) => [Number(n), name]);
  }
  const text = (await unpack(compression, file)).toString();
  const lines = text.split('\n').slice(0, -1);
  if (format === 'JSONLines') {
    return lines.map((line) => {
      const { n, name } = JSON.parse(line);
      return [n, name];
    });
  }
  // Nothing in these rows breaks a line; a quoted cell ends at a single quote.
  return lines.slice(1).map((line) => {
    const [, n, quoted, plain] = /^(\d+),(?:"((?:[^"]|"")*)"|([^,]*)),/.exec(line) ?? [];
    return [Number(n), quoted?.replaceAll('""', '"') ?? (plain === '' ? null : plain)];
  });
}

describe.each(pairs)('$format with compression $compression', ({ definition, compression }) => {
  it('keeps every row, in order', async () => {
    const file = await encode(definition, compression, inSmallBlocks);
    const found = await readNames(definition, compression, file);
    expect(JSON.stringify(found)).toBe(JSON.stringify(rows.map(([n, name]) => [n, name])));
  });

  it('makes a file that can be read of no rows at all', async () => {
    const file = await encode(definition, compression, []);
    expect(await readNames(definition, compression, file)).toEqual([]);
    const ofEmptyBlocks = await encode(definition, compression, [rowBlock(columns, [])]);
    expect(ofEmptyBlocks.equals(file)).toBe(true);
  });

  it('takes a value of megabytes between small ones', async () => {
    const value = `${'x"\\\t'.repeat(500_000)}`;
    const blocks = rowBlocks(columns, [row(0), [1, value, null, null], row(2)], 1);
    const file = await encode(definition, compression, blocks);
    const found = await readNames(definition, compression, file);
    expect(found.map(([n]) => n)).toEqual([0, 1, 2]);
    expect(found[1]?.[1] === value).toBe(true);
  });

  it('holds no bytes once it is finished', async () => {
    const encoder = definition.open(columns, compression);
    await encoder.write(rowBlock(columns, rows.slice(0, 100)));
    expect(encoder.heldBytes).toBeGreaterThan(0);
    await encoder.finish();
    expect(encoder.heldBytes).toBe(0);
  });
});

describe.each(encoders)('$format', (definition) => {
  it('has its own extension and content type', () => {
    const others = encoders.filter((other) => other !== definition);
    expect(others.map(({ extension }) => extension)).not.toContain(definition.extension);
    expect(definition.contentType).toMatch(/^[a-z]+\/[a-z.-]+$/);
    expect(fileExtension(definition, null)).toBe(definition.extension);
  });

  it('refuses a compression that it does not list', () => {
    const all: readonly Compression[] = [null, 'gzip', 'brotli', 'zstd', 'snappy', 'lz4'];
    for (const compression of all) {
      if (compressionsOf(definition).includes(compression)) continue;
      expect(() => openEncoder(definition, compression, columns)).toThrow(TypeError);
      expect(() => fileExtension(definition, compression)).toThrow(TypeError);
    }
  });
});

describe.each(encoders.filter(({ format }) => format !== 'Parquet'))('$format', (definition) => {
  it.each(mainCompressionsOf(definition))(
    'with %s does not show where blocks were cut',
    async (packing) => {
      const one = await encode(definition, packing, inLargeBlocks);
      const many = await encode(definition, packing, rowBlocks(columns, rows, 71));
      expect(many.equals(one)).toBe(true);
    },
  );

  it('names its compression at the end of the extension', () => {
    const { extension } = definition;
    const named = compressionsOf(definition).map((packing) => fileExtension(definition, packing));
    expect(named).toEqual([extension, `${extension}.gz`, `${extension}.br`, `${extension}.zst`]);
  });
});
