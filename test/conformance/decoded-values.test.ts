import fc from 'fast-check';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { RowBlock } from '../../src/foundation/domain/row-block.ts';
import { createPostgresSource, planModels } from '../../src/rows/sources/index.ts';
import { createEmptyDatabase, type TestDatabase } from '../support/database.ts';
import { readAll } from '../support/source-tables.ts';

const cases = 1500;
const never = new AbortController().signal;

/** Digits with a point anywhere, of any length, and what is no number. */
const numeric = fc.oneof(
  fc
    .record({
      sign: fc.constantFrom('', '-'),
      digits: fc.stringMatching(/^\d{1,40}$/),
      zeros: fc.nat(30),
      scale: fc.nat(60),
    })
    .map(({ sign, digits, zeros, scale }) => {
      const all = (digits + '0'.repeat(zeros)).padStart(scale + 1, '0');
      const point = all.length - scale;
      return `${sign}${all.slice(0, point)}${scale === 0 ? '' : `.${all.slice(point)}`}`;
    }),
  fc.integer({ min: -20_000, max: 20_000 }).map((n) => (n / 100).toFixed(2)),
  fc.constantFrom('NaN', 'Infinity', '-Infinity', '0', '-0.0', '1e-16383', '1e131071', '-9999'),
  fc.constantFrom('10000', '99990000', '1e16', '0.0001', '0.00000001', '100000000.00'),
);

const kinds: Readonly<Record<string, fc.Arbitrary<string>>> = {
  numeric,
  'numeric(12,2)': fc.integer({ min: -1e9, max: 1e9 }).map((n) => (n / 100).toFixed(2)),
  'numeric(9,-3)': fc.integer({ min: -1e9, max: 1e9 }).map(String),
  'numeric(4,8)': fc.nat(9999).map((n) => (n / 1e8).toFixed(8)),
};

const declared = Object.keys(kinds);
const nameOf = (place: number) => `v${place}`;
let database: TestDatabase;
let client: pg.Client;
let found: readonly (readonly (string | null)[])[];

beforeAll(async () => {
  database = await createEmptyDatabase();
  client = new pg.Client(database.url);
  await client.connect();
  await client.query("SET timezone = 'UTC'; SET intervalstyle = 'iso_8601'");
  const columns = declared.map((type, place) => `${nameOf(place)} ${type}`);
  await client.query(
    `CREATE TABLE decoded (n int PRIMARY KEY, team_id int, at timestamptz, ${columns.join(', ')})`,
  );
  const samples = declared.map((type) =>
    fc.sample(fc.option(kinds[type] as fc.Arbitrary<string>, { freq: 20 }), {
      numRuns: cases,
      seed: 20240301,
    }),
  );
  const given = declared.map((_, place) => `$${place + 1}::text[]`);
  const cast = declared.map((type, place) => `${nameOf(place)}::${type}`);
  const named = declared.map((_, place) => nameOf(place));
  await client.query(
    `INSERT INTO decoded SELECT n, 1, '2024-03-01Z', ${cast.join(', ')}
       FROM unnest(${given.join(', ')}) WITH ORDINALITY AS t (${named.join(', ')}, n)`,
    samples,
  );
  found = await readFields();
});

afterAll(async () => {
  await client?.end();
  await database?.drop();
});

/** Each row's fields as the source gives them, in the order of `n`. */
async function readFields(): Promise<readonly (readonly (string | null)[])[]> {
  const plan = planModels([
    {
      name: 'decoded',
      relation: { schema: 'public', name: 'decoded' },
      tenantColumn: 'team_id',
      intervalColumn: 'at',
      keyColumns: ['n'],
      eventColumn: null,
      columns: declared.map((type, place) => {
        return { name: nameOf(place), expression: null, sourceType: type, json: false };
      }),
    },
  ]);
  const start = Date.parse('2024-03-01T00:00:00Z');
  const source = createPostgresSource({ connectionString: database.url, plan });
  const snapshot = await source.open(
    {
      model: 'decoded',
      tenantKey: '1',
      interval: { start, end: start + 60_000 },
      dslQuery: null,
      includeEvents: null,
      excludeEvents: null,
    },
    never,
  );
  const blocks = await readAll(snapshot, never);
  await snapshot.close();
  return blocks.flatMap(rowsOf);
}

function rowsOf({ columns, rowCount, bytes, offsets, lengths }: RowBlock) {
  return Array.from({ length: rowCount }, (_, row) =>
    columns.map((_column, place) => {
      const field = row * columns.length + place;
      const [from = 0, length = -1] = [offsets[field], lengths[field]];
      return length < 0 ? null : bytes.toString('utf8', from, from + length);
    }),
  );
}

describe('numerics at random, printed here, beside what PostgreSQL prints', () => {
  it.each(declared.map((type, place) => ({ type, place })))('$type', async ({ place }) => {
    const { rows } = await client.query<{ text: string | null }>(
      `SELECT to_json(${nameOf(place)})::text AS text FROM decoded ORDER BY n`,
    );
    expect(rows).toHaveLength(cases);
    expect(found.map((row) => row[place])).toEqual(rows.map(({ text }) => text));
  });
});
