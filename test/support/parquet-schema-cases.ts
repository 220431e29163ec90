/** Values of PostgreSQL types that COPY sends as JSON, and what readers of a file of schema 2 must find. */

/** A PostgreSQL type, the JSON of its values, and what the readers make of them. */
interface Case {
  readonly source: string;
  readonly duckDb: string;
  readonly arrow: string;
  /** JSON of each value; null is null. */
  readonly json: readonly (string | null)[];
  readonly values: readonly unknown[];
  /** What other readers give instead, because their values have other types. */
  readonly inHyparquet?: readonly unknown[];
  readonly inArrow?: readonly unknown[];
}

const nines = '9'.repeat(38);
const text = { duckDb: 'VARCHAR', arrow: 'Utf8' };

export const parquetCases: readonly Case[] = [
  {
    source: 'numeric(9,2)',
    duckDb: 'DECIMAL(9,2)',
    arrow: 'Decimal[9e+2]',
    json: ['1.10', '-9999999.99', null, '0.05', '-0.01', '0.00'],
    values: ['1.10', '-9999999.99', null, '0.05', '-0.01', '0.00'],
    inHyparquet: [1.1, -9_999_999.99, null, 0.05, -0.01, 0],
  },
  {
    source: 'numeric(18,3)',
    duckDb: 'DECIMAL(18,3)',
    arrow: 'Decimal[18e+3]',
    json: ['999999999999999.999', '-999999999999999.999', '0.001', null],
    values: ['999999999999999.999', '-999999999999999.999', '0.001', null],
    inHyparquet: [1e15, -1e15, 0.001, null],
  },
  {
    source: 'numeric(15,0)',
    duckDb: 'DECIMAL(15,0)',
    arrow: 'Decimal[15e0]',
    json: ['999999999999999', '-999999999999999', '-1', '-4294967296'],
    values: ['999999999999999', '-999999999999999', '-1', '-4294967296'],
    inHyparquet: [999_999_999_999_999, -999_999_999_999_999, -1, -4_294_967_296],
  },
  {
    source: 'numeric(38,0)',
    duckDb: 'DECIMAL(38,0)',
    arrow: 'Decimal[38e0]',
    json: [nines, `-${nines}`, '0', null],
    values: [nines, `-${nines}`, '0', null],
    inHyparquet: [1e38, -1e38, 0, null],
  },
  {
    source: 'numeric(19,19)',
    duckDb: 'DECIMAL(19,19)',
    arrow: 'Decimal[19e+19]',
    json: ['0.0000000000000000001', '-0.9999999999999999999'],
    values: ['0.0000000000000000001', '-0.9999999999999999999'],
    inHyparquet: [1e-19, -1],
  },
  {
    source: 'numeric',
    ...text,
    json: ['1.10', '12345678901234567890.10', '"NaN"', '"-Infinity"', null],
    values: ['1.10', '12345678901234567890.10', 'NaN', '-Infinity', null],
  },
  { source: 'numeric(39,1)', ...text, json: ['1.0', '"NaN"'], values: ['1.0', 'NaN'] },
  { source: 'numeric(3,-2)', ...text, json: ['12300'], values: ['12300'] },
  {
    source: 'time without time zone',
    duckDb: 'TIME',
    arrow: 'Time64<MICROSECOND>',
    json: ['"00:00:00"', '"23:59:59.999999"', '"12:30:05.5"', null],
    values: [0n, 86_399_999_999n, 45_005_500_000n, null],
  },
  {
    source: 'time with time zone',
    ...text,
    json: ['"12:00:00+02"', null],
    values: ['12:00:00+02', null],
  },
  { source: 'interval', ...text, json: ['"P1Y2M3DT4H"'], values: ['P1Y2M3DT4H'] },
  {
    source: 'shop.mood',
    ...text,
    json: ['"active"', String.raw`"so \"so\" \u0001\n🙂"`, '""', null],
    values: ['active', 'so "so" \u0001\n🙂', '', null],
  },
  { source: 'inet', ...text, json: ['"10.0.0.1/8"'], values: ['10.0.0.1/8'] },
  { source: 'bit varying(5)', ...text, json: ['"10101"'], values: ['10101'] },
  { source: 'money', ...text, json: ['"$1,000.00"'], values: ['$1,000.00'] },
  { source: 'int4range', ...text, json: ['"[1,5)"'], values: ['[1,5)'] },
  { source: 'tsvector', ...text, json: [`"'a':1 'b'"`], values: [`'a':1 'b'`] },
  { source: 'shop.address', ...text, json: ['{"a":1.10}'], values: ['{"a":1.10}'] },
  { source: 'jsonb[]', ...text, json: ['[{"a":1.10}]'], values: ['[{"a":1.10}]'] },
  { source: 'shop.mood[]', ...text, json: ['["active"]'], values: ['["active"]'] },
  {
    source: 'integer[]',
    duckDb: 'INTEGER[]',
    arrow: 'List<Int32>',
    json: ['[1,-2147483648,null]', '[]', null, '[null]', '[ 7 , 8 ]', '[2147483647]'],
    values: [[1, -2_147_483_648, null], [], null, [null], [7, 8], [2_147_483_647]],
  },
  {
    source: 'smallint[]',
    duckDb: 'SMALLINT[]',
    arrow: 'List<Int16>',
    json: ['[1,-32768]'],
    values: [[1, -32_768]],
  },
  {
    source: 'bigint[]',
    duckDb: 'BIGINT[]',
    arrow: 'List<Int64>',
    json: ['[9007199254740993,-9223372036854775808]'],
    values: [[9_007_199_254_740_993n, -(2n ** 63n)]],
  },
  {
    source: 'boolean[]',
    duckDb: 'BOOLEAN[]',
    arrow: 'List<Bool>',
    json: ['[true,false,null,true]', '[]', '[true,true,true,true,true,true,true]'],
    values: [[true, false, null, true], [], [true, true, true, true, true, true, true]],
  },
  {
    source: 'double precision[]',
    duckDb: 'DOUBLE[]',
    arrow: 'List<Float64>',
    json: ['[0.1,1e+300,"NaN","-Infinity",-0]'],
    values: [[0.1, 1e300, Number.NaN, Number.NEGATIVE_INFINITY, -0]],
  },
  {
    source: 'real[]',
    duckDb: 'FLOAT[]',
    arrow: 'List<Float32>',
    json: ['[0.1,"Infinity"]'],
    values: [[Math.fround(0.1), Number.POSITIVE_INFINITY]],
  },
  {
    source: 'text[]',
    duckDb: 'VARCHAR[]',
    arrow: 'List<Utf8>',
    json: [String.raw`["x","a \"b\", ]\\",null,"größe 🙂","null",""]`],
    values: [['x', 'a "b", ]\\', null, 'größe 🙂', 'null', '']],
  },
  {
    source: 'character varying(5)[]',
    duckDb: 'VARCHAR[]',
    arrow: 'List<Utf8>',
    json: ['["x"]'],
    values: [['x']],
  },
  {
    source: 'numeric[]',
    duckDb: 'VARCHAR[]',
    arrow: 'List<Utf8>',
    json: ['[1.10,"NaN",null]'],
    values: [['1.10', 'NaN', null]],
  },
  {
    source: 'numeric(20,2)[]',
    duckDb: 'DECIMAL(20,2)[]',
    arrow: 'List<Decimal[20e+2]>',
    json: ['[123456789012345678.10,null,-0.01]'],
    values: [['123456789012345678.10', null, '-0.01']],
    inHyparquet: [[123_456_789_012_345_680, null, -0.01]],
  },
  {
    source: 'time(3) without time zone[]',
    duckDb: 'TIME[]',
    arrow: 'List<Time64<MICROSECOND>>',
    json: ['["12:30:05.5"]'],
    values: [[45_005_500_000n]],
  },
  {
    source: 'date[]',
    duckDb: 'DATE[]',
    arrow: 'List<Date32<DAY>>',
    json: ['["1970-01-01","2024-02-29","0001-12-31 BC","5874897-12-31"]'],
    values: [[0, 19_782, -719_163, 2_145_042_905]],
    inArrow: [[0, 19_782, -719_163, 2_145_042_905].map((day) => day * 86_400_000)],
  },
  {
    source: 'timestamp with time zone[]',
    duckDb: 'TIMESTAMP WITH TIME ZONE[]',
    arrow: 'List<Timestamp<MICROSECOND, UTC>>',
    json: ['["2024-03-01T00:00:00.000001+00:00","1969-12-31T23:59:59.5+00:00"]'],
    values: [[1_709_251_200_000_001n, -500_000n]],
    inArrow: [[1_709_251_200_000.001, -500]],
  },
  {
    source: 'timestamp(3) without time zone[]',
    duckDb: 'TIMESTAMP[]',
    arrow: 'List<Timestamp<MICROSECOND>>',
    json: ['["0044-03-15T12:00:00 BC"]'],
    values: [[-63_517_780_800_000_000n]],
    inArrow: [[-63_517_780_800_000]],
  },
  {
    source: 'uuid[]',
    duckDb: 'VARCHAR[]',
    arrow: 'List<Utf8>',
    json: ['["0190c1d2-0000-7000-8000-000000000001"]'],
    values: [['0190c1d2-0000-7000-8000-000000000001']],
  },
  {
    source: 'bytea[]',
    duckDb: 'BLOB[]',
    arrow: 'List<Binary>',
    json: [String.raw`["\\x00ff","\\x"]`],
    values: [[Buffer.from([0, 255]), Buffer.alloc(0)]],
  },
];
