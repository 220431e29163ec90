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
