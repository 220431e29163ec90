import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { FormatSettings } from '../../../src/foundation/domain/format-settings.ts';
import type { Column } from '../../../src/foundation/domain/row-block.ts';
import type {
  Compression,
  EncoderDefinition,
  FormatOptions,
} from '../../../src/rows/encoders/encoder.ts';
import { csv } from '../../../src/rows/encoders/csv/definition.ts';
import { encoders, jsonLines, openEncoder } from '../../../src/rows/encoders/index.ts';
import { parquet } from '../../../src/rows/encoders/parquet/definition.ts';
import { mainCompressionsOf } from '../../support/compressions.ts';
import { encodeAll } from '../../support/parquet-readers.ts';
import { parquetCases } from '../../support/parquet-schema-cases.ts';
import { columnsOf, rowBlocks, type TestRow } from '../../support/row-blocks.ts';
import { unpack } from '../../support/unpack.ts';
import { folderOfTests } from '../../support/own-folder.ts';

const folder = folderOfTests();

interface Made {
  readonly definition: EncoderDefinition;
  readonly compression: Compression;
  readonly columns: readonly Column[];
  readonly options?: FormatOptions;
}

const encode = ({ definition, compression, columns, options }: Made, rows: readonly TestRow[]) =>
  encodeAll(
    openEncoder(definition, compression, columns, options),
    rowBlocks(columns, rows, 1_000),
  );

/** The bytes of a file of these rows, made again without some. */
async function without(made: Made, rows: readonly TestRow[], isDropped: (row: number) => boolean) {
  const path = join(folder, 'file');
  await writeFile(path, await encode(made, rows));
  const { definition, compression, options } = made;
  const again = definition.without(path, isDropped, compression, options);
  const chunks: Buffer[] = [];
  for await (const chunk of again.bytes) chunks.push(Buffer.from(chunk));
  return { bytes: Buffer.concat(chunks), columnMetrics: again.columnMetrics };
}

const columns = columnsOf({
  id: 'uuid',
  n: 'int4',
  name: 'text',
  data: 'jsonb',
  at: 'timestamptz',
});
const rows = Array.from(
  { length: 21_000 },
  (_, n): TestRow => [
    `0190c1d2-0000-7000-8000-${String(n).padStart(12, '0')}`,
    n % 7 === 0 ? null : n,
    n % 3 === 0 ? null : `person ${n % 500} "said"\r\n, größe`,
    `{"n": ${n}}`,
    1_709_251_200_000_000n + BigInt(n),
  ],
);
const ofPerson = (row: number) => row % 500 === 7 || row === rows.length - 1;
const rest = rows.filter((_, row) => !ofPerson(row));

const pairs = encoders.flatMap((definition) =>
  mainCompressionsOf(definition).map((compression) => ({
    definition,
    compression,
    format: definition.format,
  })),
);

it.each(pairs)(
  '$format with compression $compression keeps all other rows as they are',
  async (pair) => {
    const { definition, compression } = pair;
    const made = { definition, compression, columns, options: {} };
    const { bytes } = await without(made, rows, ofPerson);
    const expected = await encode(made, rest);
    if (definition === parquet) expect(bytes.equals(expected)).toBe(true);
    const texts = [bytes, expected].map((file) =>
      unpack(definition === parquet ? null : compression, file),
    );
    const [text, wanted] = await Promise.all(texts);
    expect(text?.equals(wanted as Buffer)).toBe(true);
  },
);

describe('Parquet', () => {
  const origin = {
    exportId: '0190c1d2-0000-7000-8000-000000000001',
    interval: { start: 0, end: 3_600_000 },
  };
  it.each([null, 'iceberg'] as const)(
    'of the table %s keeps its notes and bounds',
    async (tableFormat) => {
      const options: FormatOptions = { origin, tableFormat };
      const made = { definition: parquet, compression: 'zstd', columns, options };
      const encoder = openEncoder(parquet, 'zstd', columns, options);
      const expected = await encodeAll(encoder, rowBlocks(columns, rest, 1_000));
      const { bytes, columnMetrics } = await without(made, rows, ofPerson);
      expect(bytes.equals(expected)).toBe(true);
      expect(columnMetrics).toEqual(encoder.columnMetrics);
    },
  );

  const plainColumns = columnsOf({
    flag: 'bool',
    small: 'int2',
    large: 'int8',
    real: 'float4',
    double: 'float8',
    day: 'date',
    local: 'timestamp',
    raw: 'bytea',
    text: 'text',
    json: 'json',
  });
  const plainRows = Array.from(
    { length: 2_000 },
    (_, n): TestRow =>
      n % 11 === 0
        ? plainColumns.map(() => null)
        : [
            n % 2 === 0,
            (n % 65_536) - 32_768,
            n % 5 === 0 ? -(2n ** 63n) + BigInt(n) : BigInt(n),
            n % 13 === 0 ? Number.NaN : n % 17 === 0 ? -0 : n * 0.1,
            n % 13 === 0 ? Number.NEGATIVE_INFINITY : n * 1e300,
            n * 1_000 - 800_000,
            BigInt(n) * 86_400_000_001n - 100_000_000_000_000_000n,
            Buffer.from([n & 255, 0, 255]),
            n % 19 === 0 ? '' : `\uFEFFtext ${n % 40}`,
            '"lone \\ud800"',
          ],
  );
  it('keeps each plain type', async () => {
    const made = { definition: parquet, compression: null, columns: plainColumns, options: {} };
    const { bytes } = await without(made, plainRows, (row) => row % 3 === 1);
    const expected = await encode(
      made,
      plainRows.filter((_, row) => row % 3 !== 1),
    );
    expect(bytes.equals(expected)).toBe(true);
  });

  const decimals: Partial<FormatSettings> = {
    decimalColumns: [{ name: 'v', precision: 12, scale: 4 }],
  };
  it.each([
    ...parquetCases,
    { source: 'numeric', json: ['1.1000', null, '-12345678.0001'], decimals },
  ])('keeps $source', async ({ source, json, ...more }) => {
    const typed = [{ name: 'v', type: 'as_json' as const, sourceType: source }];
    const many = Array.from({ length: 500 }, (_, n): TestRow => [json[n % json.length] ?? null]);
    const options = 'decimals' in more ? more.decimals : {};
    const made = { definition: parquet, compression: 'snappy', columns: typed, options } as const;
    const { bytes } = await without(made, many, (row) => row % 2 === 0);
    const expected = await encode(
      made,
      many.filter((_, row) => row % 2 === 1),
    );
    expect(bytes.equals(expected)).toBe(true);
  });
});

it.each([
  [
    jsonLines,
    '{"a":1,"b":"x"}\n{"a":1.0,"b":null}\n{"b":"\\u0041"}\n',
    '{"a":1,"b":"x"}\n{"b":"\\u0041"}\n',
  ],
  [csv, 'a,b\r\n1,"x\n""y"\r\n"2",\r\n', 'a,b\r\n1,"x\n""y"\r\n'],
  [csv, 'a,b\n1,2\n3,4', 'a,b\n1,2\n'],
] as const)(
  'a text keeps its bytes, however it is written: %#',
  async (definition, text, expected) => {
    const path = join(folder, 'text');
    await writeFile(path, text);
    const chunks: Uint8Array[] = [];
    for await (const chunk of definition.without(path, (row) => row === 1, null).bytes)
      chunks.push(chunk);
    expect(Buffer.concat(chunks).toString()).toBe(expected);
  },
);

it.each(encoders)('a column that a file of $format does not have is named', async (definition) => {
  const path = join(folder, 'columns');
  await writeFile(path, await encode({ definition, compression: null, columns }, rows.slice(0, 9)));
  const read = async () => {
    for await (const _ of definition.read(path, [{ name: 'nmae', type: 'text' }], null));
  };
  await expect(read()).rejects.toThrow(/column not found: nmae/);
});
