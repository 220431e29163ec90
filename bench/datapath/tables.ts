import pg from 'pg';
import { eventsModel } from '../../src/foundation/domain/events-model.ts';
import type { Model } from '../../src/foundation/domain/model.ts';
import { createEvents, insertEvents } from './events.ts';
import { interval, teamId } from './interval.ts';

/** A table that is exported, with the bars that its formats must meet. */
export interface BenchTable {
  readonly name: string;
  readonly model: Model;
  /** Of the team that is exported, by default. */
  readonly rows: number;
  /** Wall time over the limit's, by the label of the way. */
  readonly bars: Readonly<Record<string, number>>;
  readonly createSql: string;
  /** $1: rows of all teams, $2: the start of the interval in seconds; every third row is another team's. */
  readonly insertSql: string;
}

const modelOf = (name: string, intervalColumn: string, columns: readonly string[]): Model => ({
  name,
  relation: { schema: 'public', name },
  tenantColumn: 'team_id',
  intervalColumn,
  keyColumns: ['id'],
  eventColumn: null,
  columns: columns.map((column) => ({
    name: column,
    expression: null,
    sourceType: '',
    json: false,
  })),
});

/** `id` and 33 columns each of text, numeric(12,2) and timestamptz. */
const wideColumns = Array.from({ length: 99 }, (_, at) => {
  const seed = `(n * 7919 + ${at * 104_729}) % 100003`;
  switch (at % 3) {
    case 0:
      return {
        name: `label_${at}`,
        type: 'text',
        value: `'label ' || ${seed} % 9973`,
      };
    case 1:
      return {
        name: `amount_${at}`,
        type: 'numeric(12,2)',
        value: `${seed} * 997 % 10000000 / 100.0`,
      };
    default:
      return {
        name: `moment_${at}`,
        type: 'timestamptz',
        value: `at + ${seed} * interval '1.000001 s'`,
      };
  }
});

export const benchTables: readonly BenchTable[] = [
  {
    name: 'events',
    model: eventsModel,
    rows: 400_000,
    bars: {
      JSONLines: 1.35,
      'JSONLines + zstd': 1.45,
      'JSONLines + gzip': 2.1,
      'JSONLines + gzip, three steps': 4.2,
      'CSV + gzip': 2.1,
      'Parquet + zstd': 1.35,
      'Parquet + snappy': 1.4,
    },
    createSql: createEvents,
    insertSql: insertEvents,
  },
  {
    name: 'wide',
    model: modelOf('wide', 'at', ['id', ...wideColumns.map(({ name }) => name)]),
    rows: 60_000,
    bars: {
      JSONLines: 2.2,
      'JSONLines + zstd': 2.2,
      'JSONLines + gzip': 3.4,
      CSV: 1.9,
      'Parquet + zstd': 1.7,
    },
    createSql: `CREATE TABLE wide (id bigint PRIMARY KEY, team_id int NOT NULL, at timestamptz NOT NULL,
      ${wideColumns.map(({ name, type }) => `${name} ${type}`).join(', ')})`,
    insertSql: `INSERT INTO wide SELECT n, 1 + (n % 3 = 2)::int, at,
      ${wideColumns.map(({ value }) => value).join(', ')} FROM`,
  },
  {
    name: 'narrow',
    model: modelOf('narrow', 'at', ['id', 'account', 'amount']),
    rows: 2_000_000,
    bars: { JSONLines: 1.5, CSV: 1.5, 'Parquet + zstd': 1.5 },
    createSql: `CREATE TABLE narrow (id int PRIMARY KEY, account int NOT NULL, amount int,
      team_id int NOT NULL, at timestamptz NOT NULL)`,
    insertSql: `INSERT INTO narrow SELECT n, n * 7919 % 50000, n * 104729 % 1000000,
      1 + (n % 3 = 2)::int, at FROM`,
  },
  {
    name: 'jsonb',
    model: modelOf('jsonb', 'at', ['id', 'payload', 'context']),
    rows: 100_000,
    bars: { JSONLines: 1.5 },
    createSql: `CREATE TABLE jsonb (id int PRIMARY KEY, payload jsonb NOT NULL, context jsonb,
      team_id int NOT NULL, at timestamptz NOT NULL)`,
    insertSql: `INSERT INTO jsonb
      SELECT n,
             jsonb_build_object('n', n, 'price', n % 10000 / 100.0, 'ok', n % 2 = 0, 'name', 'Größe “' || n || '”',
               'items', (SELECT jsonb_agg(jsonb_build_object('sku', md5((n + item)::text), 'count', item,
                           'price', (n + item) % 1000 / 100.0, 'tags', jsonb_build_array('a', 'b', n % 7)))
                           FROM generate_series(1, 16) item)),
             jsonb_build_object('url', 'https://app.example.com/' || n % 977, 'ip', '10.0.' || n % 255 || '.1',
               'session', gen_random_uuid(), 'flags', jsonb_build_array(n % 3, n % 5, NULL)),
             1 + (n % 3 = 2)::int, at FROM`,
  },
];

/** The rows of the team, by its index; what the ways that are not ours read. */
export function selectOf({ model }: BenchTable): string {
  const { columns, relation, intervalColumn } = model;
  const names = columns.map(({ name }) => `"${name}"`).join(', ');
  return `SELECT ${names} FROM ${relation.name} WHERE team_id = ${teamId} AND ${intervalColumn} >= to_timestamp(${interval.start / 1000}) AND ${intervalColumn} < to_timestamp(${interval.end / 1000})`;
}

/** Fills the table: `rows` of the team that is exported, and half as many of another between them. */
export async function fillTable(url: string, table: BenchTable, rows: number): Promise<void> {
  const { name, intervalColumn } = table.model;
  const client = new pg.Client(url);
  await client.connect();
  try {
    await client.query(table.createSql);
    await client.query(`${table.insertSql} ${instants}`, [
      Math.ceil(rows * 1.5),
      interval.start / 1000,
    ]);
    await client.query(`CREATE INDEX ON ${name} (team_id, ${intervalColumn})`);
    await client.query(`VACUUM ANALYZE ${name}`);
  } finally {
    await client.end();
  }
}

/** Numbers `n` with a time `at` for each, evenly over the interval. */
const instants = `generate_series(0, $1::bigint - 1) n,
  LATERAL (SELECT to_timestamp($2) + n * interval '3600 s' / $1 AS at) t`;
