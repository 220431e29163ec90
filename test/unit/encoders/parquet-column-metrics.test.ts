import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { ColumnMetrics } from '../../../src/foundation/domain/column-metrics.ts';
import type { Column, ColumnType } from '../../../src/foundation/domain/row-block.ts';
import { defaultSizes, openParquet } from '../../../src/rows/encoders/parquet/encode.ts';
import { encodeAll, readMetadata } from '../../support/parquet-readers.ts';
import { rowBlock, type TestValue } from '../../support/row-blocks.ts';

/** A kind of column: how its bounds are read back, by the specification of Iceberg, and compared. */
interface Kind {
  readonly column: Omit<Column, 'name'>;
  readonly value: fc.Arbitrary<TestValue>;
  readonly read: (bound: Buffer) => TestValue | number;
  /** As readers compare it; default: the value itself. */
  readonly known?: (value: TestValue) => TestValue | number;
}

const plain = (type: ColumnType): Omit<Column, 'name'> => ({ type, sourceType: type });
const decimal = (digits: number, scale: number): Omit<Column, 'name'> => ({
  type: 'as_json',
  sourceType: `numeric(${digits},${scale})`,
});

const micros = fc.bigInt({ min: -62_135_596_800_000_000n, max: 253_402_300_799_999_999n });
/** Around powers of two, as the first byte has the sign. */
const hard = (bits: number) =>
  fc
    .tuple(fc.integer({ min: 0, max: bits - 2 }), fc.integer({ min: -2, max: 2 }), fc.boolean())
    .map(([power, more, isNegative]) => {
      const near = 2n ** BigInt(power) + BigInt(more);
      return isNegative ? -near : near;
    });
const character = fc.constantFrom(
  'a',
  '\u007f',
  'é',
  '\ud7ff',
  '\ue000',
  '\uffff',
  '\u{10000}',
  '\u{10ffff}',
);
const text = fc.oneof(
  fc.string({ unit: character, maxLength: 40 }),
  fc
    .tuple(
      fc.constantFrom('a', '\ud7ff', '\u{10ffff}'),
      fc.integer({ min: 14, max: 20 }),
      fc.string({ unit: character, maxLength: 3 }),
    )
    .map(([unit, count, rest]) => unit.repeat(count) + rest),
);

function signed(bytes: Buffer): bigint {
  const unsigned = BigInt(`0x${bytes.toString('hex')}`);
  return BigInt.asIntN(bytes.length * 8, unsigned);
}

/** `-12.30` of the unscaled -1230. */
function decimalText(unscaled: bigint, scale: number): string {
  const digits = String(unscaled < 0n ? -unscaled : unscaled).padStart(scale + 1, '0');
  const whole = digits.slice(0, digits.length - scale);
  const sign = unscaled < 0n ? '-' : '';
  return scale === 0 ? sign + whole : `${sign}${whole}.${digits.slice(-scale)}`;
}

function decimalKind(digits: number, scale: number): Kind {
  const most = 10n ** BigInt(digits) - 1n;
  return {
    column: decimal(digits, scale),
    value: fc
      .oneof(hard(digits * 3), fc.bigInt({ min: -most, max: most }))
      .map((unscaled) => decimalText(unscaled, scale)),
    read: (bound) => {
      // As few bytes as it needs.
      if (bound.length > 1) expect(signed(bound.subarray(1))).not.toBe(signed(bound));
      return signed(bound);
    },
    known: (value) => BigInt(String(value).replace('.', '')),
  };
}

const kinds: Readonly<Record<string, Kind>> = {
  boolean: { column: plain('bool'), value: fc.boolean(), read: (b) => b[0] !== 0 },
  int: {
    column: plain('int4'),
    value: fc.oneof(fc.integer(), hard(32).map(Number)),
    read: (b) => b.readInt32LE(),
  },
  smallint: {
    column: plain('int2'),
    value: fc.integer({ min: -32_768, max: 32_767 }),
    read: (b) => b.readInt32LE(),
  },
  long: { column: plain('int8'), value: hard(64), read: (b) => b.readBigInt64LE() },
  float: {
    column: plain('float4'),
    value: fc.float({ noNaN: true }),
    read: (b) => b.readFloatLE(),
  },
  double: {
    column: plain('float8'),
    value: fc.double({ noNaN: true }),
    read: (b) => b.readDoubleLE(),
  },
  date: {
    column: plain('date'),
    value: fc.integer({ min: -719_162, max: 2_932_896 }),
    read: (b) => b.readInt32LE(),
  },
  timestamp: { column: plain('timestamp'), value: micros, read: (b) => b.readBigInt64LE() },
  timestamptz: { column: plain('timestamptz'), value: micros, read: (b) => b.readBigInt64LE() },
  'decimal(9, 2)': decimalKind(9, 2),
  'decimal(18, 0)': decimalKind(18, 0),
  'decimal(38, 10)': decimalKind(38, 10),
};

/** In row groups of three. */
async function encode(column: Omit<Column, 'name'>, values: readonly TestValue[]) {
  const columns = [{ ...column, name: 'value' }];
  const sizes = { ...defaultSizes(1), groupRows: 3 };
  const encoder = openParquet(columns, 'snappy', sizes, { isOfTable: true });
  const file = await encodeAll(encoder, [
    rowBlock(
      columns,
      values.map((value) => [value]),
    ),
  ]);
  const [metrics] = encoder.columnMetrics ?? [];
  if (!metrics) throw new Error('there are no metrics');
  return { file, metrics };
}

const bufferOf = (bound: Uint8Array | null) => (bound === null ? null : Buffer.from(bound));

function expectCounts({ values: count, nulls }: ColumnMetrics, values: readonly TestValue[]) {
  expect({ count, nulls }).toEqual({
    count: values.length,
    nulls: values.filter((value) => value === null).length,
  });
}

it.each(Object.entries(kinds))('enclose every %s', async (_, { column, value, read, known }) => {
  const row = fc.option(value, { nil: null, freq: 4 });
  await fc.assert(
    fc.asyncProperty(fc.array(row, { minLength: 1, maxLength: 8 }), async (values) => {
      const { metrics } = await encode(column, values);
      expectCounts(metrics, values);
      const [lower, upper] = [bufferOf(metrics.lower), bufferOf(metrics.upper)];
      const present = values.filter((each) => each !== null).map(known ?? ((each) => each));
      if (present.length === 0) {
        expect([lower, upper]).toEqual([null, null]);
        return;
      }
      if (lower === null || upper === null) throw new Error('a bound is missing');
      for (const each of present) {
        expect((read(lower) as number) <= (each as number), 'lower').toBe(true);
        expect((read(upper) as number) >= (each as number), 'upper').toBe(true);
      }
      // They are the least and the greatest themselves.
      expect(present.some((each) => each === read(lower) || Number(each) === 0)).toBe(true);
      expect(present.some((each) => each === read(upper) || Number(each) === 0)).toBe(true);
    }),
    { numRuns: 60 },
  );
});

it('enclose every text by 16 characters, which are whole', async () => {
  const row = fc.option(text, { nil: null, freq: 4 });
  await fc.assert(
    fc.asyncProperty(fc.array(row, { minLength: 1, maxLength: 8 }), async (values) => {
      const { metrics } = await encode(plain('text'), values);
      expectCounts(metrics, values);
      const [lower, upper] = [bufferOf(metrics.lower), bufferOf(metrics.upper)];
      for (const bound of [lower, upper]) {
        if (bound === null) continue;
        expect(Buffer.from(bound.toString())).toEqual(bound);
        expect(Array.from(bound.toString()).length).toBeLessThanOrEqual(16);
      }
      for (const value of values) {
        if (value === null) continue;
        const bytes = Buffer.from(String(value));
        if (lower === null) throw new Error('the lower bound is missing');
        expect(Buffer.compare(lower, bytes)).toBeLessThanOrEqual(0);
        // Only the last of all characters has nothing above it.
        if (upper === null) expect(values.join()).toContain('\u{10ffff}');
        else expect(Buffer.compare(upper, bytes)).toBeGreaterThanOrEqual(0);
      }
    }),
    { numRuns: 300 },
  );
});

it('enclose bytes by 16 of them', async () => {
  const long = Buffer.alloc(20, 0xff);
  expect((await encode(plain('bytea'), [long])).metrics).toMatchObject({
    lower: long.subarray(0, 16),
    upper: null,
  });
  const { lower, upper } = (await encode(plain('bytea'), [Buffer.of(1, ...long), Buffer.of(3)]))
    .metrics;
  expect([lower, upper].map((bound) => Buffer.from(bound ?? []))).toEqual([
    Buffer.of(1, ...long).subarray(0, 16),
    Buffer.of(3),
  ]);
});

it('are those of the file', async () => {
  const values = ['b', null, 'a', 'c', 'd', null];
  const { file, metrics } = await encode(plain('text'), values);
  const chunks = readMetadata(file).row_groups.flatMap(({ columns }) => columns);
  expect(chunks).toHaveLength(2);
  const bytes = chunks.map(({ meta_data: of }) => Number(of?.total_compressed_size));
  expect(metrics.bytes).toBe((bytes[0] ?? 0) + (bytes[1] ?? 0));
  expect([metrics.lower, metrics.upper].map(String)).toEqual(['a', 'd'].map(String));
});

it('say nothing of what has no order that all readers share', async () => {
  const nan = await encode(plain('float8'), [1, Number.NaN, 2]);
  expect(nan.metrics).toMatchObject({ values: 3, nulls: 0, lower: null, upper: null });
  // A NaN in one of two row groups.
  const later = await encode(plain('float8'), [1, 2, 3, Number.NaN]);
  expect(later.metrics).toMatchObject({ lower: null, upper: null });
  const json = await encode(plain('jsonb'), ['{"a": 1}']);
  expect(json.metrics).toMatchObject({ lower: null, upper: null });
  const zeros = await encode(plain('float8'), [0, -0]);
  expect(Object.is(Buffer.from(zeros.metrics.lower ?? []).readDoubleLE(), -0)).toBe(true);
});
