import type { Column } from '../../src/foundation/domain/row-block.ts';
import { columnsOf, type TestRow } from './row-blocks.ts';

/** A column of every type that the encoders read in binary, and one of JSON. */
export const columns = columnsOf({
  flag: 'bool',
  small: 'int2',
  whole: 'int4',
  large: 'int8',
  single: 'float4',
  double: 'float8',
  name: 'text',
  id: 'uuid',
  raw_json: 'json',
  properties: 'jsonb',
  other: 'as_json',
  day: 'date',
  local_time: 'timestamp',
  time: 'timestamptz',
  blob: 'bytea',
});
export const nulls: TestRow = columns.map(() => null);
const uuid = (index: number) =>
  `0190c1d2-0000-7000-8000-${(index * 7_919_993).toString(16).padStart(12, '0')}`;

/** Row `index` of a table with every type, some nulls, a name of few values and ids of many. */
function row(index: number): TestRow {
  if (index % 11 === 3) return nulls;
  return [
    index % 3 === 0,
    index % 30_000,
    1 - index * 7919,
    BigInt(index) * 3_002_399_751_580_331n,
    Math.fround(index / 3),
    index / 7,
    index % 5 === 0 ? '' : `event ${index % 5}`,
    uuid(index),
    `{"a": [${index}, 1.10]}`,
    `{"n": ${index}, "text": "größe 🙂 ${index}"}`,
    `"1.${index}0"`,
    index - 20_000,
    BigInt(index) * 1_000_003n,
    1_709_251_200_000_001n + BigInt(index),
    Buffer.from([0, 255, index % 256]),
  ];
}
export const rows: readonly TestRow[] = Array.from({ length: 3000 }, (_, index) => row(index));

/** Extremes of every type that a Parquet file can hold. */
export const extremes: readonly TestRow[] = [
  [
    true,
    -32_768,
    -2_147_483_648,
    -(2n ** 63n),
    Number.NaN,
    Number.NaN,
    '',
    '00000000-0000-0000-0000-000000000000',
    'null',
    '{}',
    '{"a":"\\u0000"}',
    -2_440_588,
    -210_866_803_200_000_000n,
    -210_866_803_200_000_000n,
    Buffer.alloc(0),
  ],
  [
    false,
    32_767,
    2_147_483_647,
    2n ** 63n - 1n,
    Number.POSITIVE_INFINITY,
    Number.NEGATIVE_INFINITY,
    '\u{10ffff}'.repeat(40),
    'ffffffff-ffff-ffff-ffff-ffffffffffff',
    '[]',
    '12345678901234567890.10',
    '"x"',
    2_145_042_905,
    2n ** 63n - 1n,
    2n ** 63n - 1n,
    Buffer.from('\u0000PAR1'),
  ],
  [
    null,
    0,
    0,
    2n ** 53n + 1n,
    -0,
    -0,
    "a 'quoted'\r\n\t\u0001 line",
    null,
    '"\\ud800"',
    '""',
    'null',
    -1,
    -1n,
    -1n,
    null,
  ],
];

/** Rows as readers find them: a JSON string of another type than json is plain text. */
export function plainTexts(of: readonly Column[], table: readonly TestRow[]): TestRow[] {
  return table.map((row) =>
    row.map((value, at) =>
      of[at]?.type === 'as_json' && typeof value === 'string' && value.startsWith('"')
        ? String(JSON.parse(value))
        : value,
    ),
  );
}
