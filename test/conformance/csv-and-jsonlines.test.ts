import { finished } from 'node:stream/promises';
import fc from 'fast-check';
import { from as copyFrom } from 'pg-copy-streams';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Column, RowBlock } from '../../src/foundation/domain/row-block.ts';
import { csv } from '../../src/rows/encoders/csv/definition.ts';
import type { EncoderDefinition, FormatOptions } from '../../src/rows/encoders/encoder.ts';
import { jsonLines, openEncoder } from '../../src/rows/encoders/index.ts';
import { oddValues } from '../support/odd-values.ts';
import { encodeAll } from '../support/parquet-readers.ts';
import { rowBlock, type TestRow } from '../support/row-blocks.ts';
import { createWildTable, readWildTable } from '../support/wild-table.ts';
import { useSession } from '../support/use-session.ts';

/** Times differ from to_json's in their microseconds, so they are compared as values. */
const times = new Set(['date', 'timestamp', 'timestamptz']);

let columns: readonly Column[];
let blocks: readonly RowBlock[];

const session = useSession("SET timezone = 'UTC'; SET intervalstyle = 'iso_8601'");
beforeAll(async () => {
  await createWildTable(session.client, 'odd_values');
  ({ columns, blocks } = await readWildTable(session.url, 'odd_values'));
});

async function encode(definition: EncoderDefinition, options: FormatOptions = {}): Promise<Buffer> {
  return encodeAll(openEncoder(definition, null, columns, options), blocks);
}

/** The rows for which the two expressions differ, as text; both see `o` (the table) and `f` (the file). */
async function differences(file: string, found: string, expected: string): Promise<unknown[]> {
  const { rows } = await session.client.query(
    `SELECT o.n, (${found})::text AS found, (${expected})::text AS expected
       FROM odd_values o FULL JOIN ${file} f USING (n)
      WHERE (${found}) IS DISTINCT FROM (${expected}) ORDER BY 1`,
  );
  return rows;
}

describe('JSONLines, compared by PostgreSQL with what it prints itself', () => {
  beforeAll(async () => {
    const lines = (await encode(jsonLines)).toString().split('\n');
    expect(lines.pop()).toBe('');
    await session.client.query('CREATE TABLE json_lines (n int, line json)');
    await session.client.query(
      `INSERT INTO json_lines SELECT (line::json->>'n')::int, line::json FROM unnest($1::text[]) line`,
      [lines],
    );
  });

  it.each(oddValues)('writes $column ($declared) as to_json does', async ({ column, declared }) => {
    const found = `f.line->'${column}'`;
    const asText = `coalesce(to_json(o.${column})::text, 'null')`;
    if (times.has(declared)) {
      expect(
        await differences('json_lines', `(f.line->>'${column}')::${declared}`, `o.${column}`),
      ).toEqual([]);
      return;
    }
    const expected = declared === 'json' ? `btrim(translate(${asText}, E'\\r\\n', '  '))` : asText;
    expect(await differences('json_lines', `(${found})::text`, expected)).toEqual([]);
  });

  it('writes times in UTC with microseconds, and infinity and BC in PostgreSQL’s words', async () => {
    const { rows } = await session.client.query<{ words: string | null }>(
      `SELECT coalesce(line->>'moment', line->>'local_time') AS words FROM json_lines
        WHERE coalesce(line->>'moment', line->>'local_time') IS NOT NULL ORDER BY n`,
    );
    expect(rows.map(({ words }) => words)).toEqual([
      '2024-03-01T00:00:00.000000',
      '1999-12-31T23:59:59.999999',
      '0044-03-15T12:00:00.500000 BC',
      '4714-11-24T00:00:00.000000 BC',
      '294276-12-31T23:59:59.999999',
      'infinity',
      '-infinity',
      '2024-03-01T00:00:00.000000Z',
      '2024-03-31T00:30:00.000001Z',
      '1970-01-01T00:00:00.000000Z',
      '1900-02-28T23:59:59.999999Z',
      '2285-06-05T23:47:34.740993Z',
      '1714-05-29T00:12:25.259007Z',
      '0001-01-01T00:00:00.000000Z BC',
      '10000-01-01T00:00:00.000000Z',
      '294276-12-31T23:59:59.999999Z',
      'infinity',
      '-infinity',
    ]);
  });
});

describe.each<[string, FormatOptions, string]>([
  ['', {}, ', HEADER match'],
  [' without a header', { csvHeader: false }, ''],
  [
    ' with ; and \\N',
    { csvDelimiter: 'semicolon', csvNull: '\\N' },
    `, HEADER match, DELIMITER ';', NULL '\\N'`,
  ],
  [
    ' with tabs and NULL',
    { csvDelimiter: 'tab', csvNull: 'NULL' },
    `, HEADER match, DELIMITER E'\t', NULL 'NULL'`,
  ],
])('CSV%s, loaded again by PostgreSQL', (_, options, words) => {
  /** Types whose cell is JSON text, which the type itself does not read. */
  const asJson = (declared: string) => declared.endsWith('[]');

  beforeAll(async () => {
    const loaded = oddValues.map(
      ({ column, declared }) => `${column} ${asJson(declared) ? 'text' : declared}`,
    );
    await session.client.query('DROP TABLE IF EXISTS csv_rows');
    await session.client.query(`CREATE TABLE csv_rows (n int, ${loaded.join(', ')})`);
    const copy = session.client.query(
      copyFrom(`COPY csv_rows FROM STDIN WITH (FORMAT csv${words})`),
    );
    copy.end(await encode(csv, options));
    await finished(copy);
  });

  it.each(oddValues)('gives $column ($declared) back', async ({ column, declared }) => {
    const expected = asJson(declared) ? `to_json(o.${column})` : `o.${column}`;
    expect(await differences('csv_rows', `f.${column}::text`, `${expected}::text`)).toEqual([]);
  });
});

/** The JSON lines of one column of a type, in text. */
async function format(type: Column['type'], values: readonly TestRow[]): Promise<string[]> {
  const one = [{ name: 'v', type, sourceType: type }];
  const encoder = openEncoder(jsonLines, null, one);
  const file = await encodeAll(encoder, [rowBlock(one, values)]);
  const lines = file.toString().split('\n').slice(0, -1);
  return lines.map((line) => line.slice('{"v":'.length, -1));
}

describe('values at random', () => {
  const sample = <T>(values: fc.Arbitrary<T>) =>
    fc.sample(values, { numRuns: 3000, seed: 20240301 });

  // Amounts and measures, and their neighbours.
  const decimals = fc
    .tuple(fc.nat(16), fc.nat(8), fc.double({ min: -1, max: 1, noNaN: true }))
    .map(([digits, places, part]) => Math.round(part * 10 ** digits) / 10 ** places);
  const besideDecimals = fc.tuple(decimals, fc.constantFrom(-1n, 1n)).map(([value, step]) => {
    const bits = new BigInt64Array(Float64Array.of(value).buffer);
    bits[0] = (bits[0] ?? 0n) + step;
    const found = new Float64Array(bits.buffer)[0] ?? 0;
    return Number.isNaN(found) ? 0 : found;
  });

  /** Texts in PostgreSQL's layout, of as few digits, which read back as the same values. */
  const expectSame = (
    found: readonly string[],
    texts: readonly string[],
    read: (text: string) => number,
  ) => {
    const layout = (text: string) => text.replace(/\d+/, '1').replace(/\.\d+/, '.1');
    const isShort = (index: number) => (found[index] ?? '').length === (texts[index] ?? '').length;
    expect(found.map(read)).toEqual(texts.map(read));
    const alike = texts.map((text, index) => (isShort(index) ? layout(text) : null));
    expect(found.map((text, index) => (isShort(index) ? layout(text) : null))).toEqual(alike);
    expect(alike.filter((one) => one === null).length).toBeLessThan(texts.length / 100);
  };

  it('are floats of 64 bits in PostgreSQL’s layout', async () => {
    const bits = fc
      .bigInt(0n, 2n ** 64n - 1n)
      .map((n) => new Float64Array(BigUint64Array.of(n).buffer)[0] ?? 0);
    const whole = fc.tuple(fc.nat(999), fc.nat(30)).map(([digits, power]) => digits * 10 ** power);
    // Beyond 2^53 the middle between two doubles can be a short decimal, and so can a tie.
    const large = fc.tuple(fc.nat(0xffff_ffff), fc.nat(60)).map(([n, power]) => n * 2 ** power);
    const values = sample(fc.oneof(bits, fc.double(), whole, large, decimals, besideDecimals));
    const { rows } = await session.client.query<{ text: string }>(
      'SELECT to_json(v::float8)::text AS text FROM unnest($1::text[]) WITH ORDINALITY t (v, n) ORDER BY n',
      [values.map((value) => (Object.is(value, -0) ? '-0' : String(value)))],
    );
    const found = await format(
      'float8',
      values.map((value) => [value]),
    );
    expectSame(
      found,
      rows.map(({ text }) => text),
      Number,
    );
  });

  it('are floats of 32 bits in PostgreSQL’s layout', async () => {
    const bits = fc.nat(0xffff_ffff).map((n) => new Float32Array(Uint32Array.of(n).buffer)[0] ?? 0);
    // Quarters and eighths: values in the middle of two decimals.
    const ties = fc.nat(0xff_ffff).map((n) => n / 8);
    const short = fc.oneof(decimals, besideDecimals).map(Math.fround);
    const beside = short.map((value) => {
      const bits = new Int32Array(Float32Array.of(value).buffer);
      bits[0] = (bits[0] ?? 0) + 1;
      return new Float32Array(bits.buffer)[0] ?? 0;
    });
    const values = sample(fc.oneof(bits, fc.float(), ties, short, beside));
    const { rows } = await session.client.query<{ text: string }>(
      'SELECT to_json(v::float4)::text AS text FROM unnest($1::text[]) WITH ORDINALITY t (v, n) ORDER BY n',
      [values.map((value) => (Object.is(value, -0) ? '-0' : String(value)))],
    );
    const found = await format(
      'float4',
      values.map((value) => [value]),
    );
    expectSame(
      found,
      rows.map(({ text }) => text),
      (text) => Math.fround(Number(text)),
    );
  });

  it('are instants of all times that PostgreSQL reads back to the microsecond', async () => {
    // From 4714 BC to AD 294276, in microseconds since 1970.
    const any = fc.bigInt(-210_866_803_200_000_000n, 9_224_318_015_999_999_999n);
    const near = fc.bigInt(-62_000_000_000_000_000n, 4_000_000_000_000_000n);
    const values = sample(fc.oneof(any, near));
    const found = await format(
      'timestamptz',
      values.map((value) => [value]),
    );
    // The binary form is the microseconds since 2000 as they are; extract() rounds the farthest.
    const { rows } = await session.client.query<{ us: string }>(
      `SELECT encode(timestamptz_send((v #>> '{}')::timestamptz), 'hex') AS us
         FROM unnest($1::json[]) WITH ORDINALITY t (v, n) ORDER BY n`,
      [found],
    );
    const micros = rows.map(
      ({ us }) => BigInt.asIntN(64, BigInt(`0x${us}`)) + 946_684_800_000_000n,
    );
    expect(micros).toEqual(values);
  });
});
