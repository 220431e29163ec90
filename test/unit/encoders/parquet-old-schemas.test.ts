import { createHash } from 'node:crypto';
import { expect, it } from 'vitest';
import type { ParquetSizes } from '../../../src/encoders/parquet/sizes.ts';
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

/** Without compression, so that the bytes are the encoder's alone. Exports of these schemas keep them. */
it.each([
  [
    1,
    'f36ae48f8b73d559c8680316ec44d4c33713f550491714ecb18e62abb5e10bd3',
    'b05659294f8d9a05535330206a2c75f9ad05e7893a86d7b36b062f5873e947ae',
  ],
  [
    2,
    '81f494c65099bffff9865c0d49aef26bd328569d067dee4392df6546e455a659',
    'fe6087d2cfcaa0878e1e45ee27594aa356ba73ea0da0ef8fd65c761f41f25ac3',
  ],
])(
  'a file of schema %i keeps its bytes from one version of Sluice to the next',
  async (schema, ...expected) => {
    const digests = [];
    for (const given of [undefined, sizes]) {
      const file = await encodeParquet(columns, null, rowBlocks(columns, rows, 700), given, schema);
      digests.push(createHash('sha256').update(file).digest('hex'));
    }
    expect(digests).toEqual(expected);
  },
);
