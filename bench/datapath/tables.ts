import pg from 'pg';
import { eventsModel } from '../../src/foundation/domain/events-model.ts';
import type { Model } from '../../src/foundation/domain/model.ts';
import { triggerStatements } from '../../src/rows/changes/trigger-sql.ts';
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
  // The types are those of the table.
  onSchemaChange: 'follow',
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

/** The 18 columns of New York's yellow taxi trips, as they are published; the key is not exported. */
const taxiColumns: readonly (readonly [name: string, type: string, value: string])[] = [
  ['vendor_id', 'int', '1 + n % 2'],
  ['picked_up_at', 'timestamptz', 'at'],
  ['dropped_off_at', 'timestamptz', "at + (120 + n * 7919 % 3000) * interval '1 s'"],
  ['passenger_count', 'smallint', '1 + n % 7 % 4'],
  ['trip_distance', 'float8', 'n * 7919 % 2500 / 100.0'],
  ['ratecode_id', 'smallint', '1 + (n % 50 = 0)::int'],
  ['store_and_fwd_flag', 'text', "CASE WHEN n % 100 = 0 THEN 'Y' ELSE 'N' END"],
  ['pickup_location_id', 'int', '1 + n * 104729 % 265'],
  ['dropoff_location_id', 'int', '1 + n * 15485863 % 265'],
  ['payment_type', 'smallint', '1 + n % 4'],
  ['fare_amount', 'float8', '2.5 + n * 7919 % 6000 / 100.0'],
  ['extra', 'float8', 'n % 3 / 2.0'],
  ['mta_tax', 'float8', '0.5'],
  ['tip_amount', 'float8', 'CASE n % 4 WHEN 0 THEN n * 31 % 1500 / 100.0 ELSE 0 END'],
  ['tolls_amount', 'float8', 'CASE n % 20 WHEN 0 THEN 6.55 ELSE 0 END'],
  ['improvement_surcharge', 'float8', '0.3'],
  ['total_amount', 'float8', '5.8 + n * 7919 % 7500 / 100.0'],
  ['congestion_surcharge', 'float8', 'CASE n % 10 WHEN 0 THEN NULL ELSE 2.5 END'],
];

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
    name: 'taxi',
    model: modelOf(
      'taxi',
      'picked_up_at',
      taxiColumns.map(([name]) => name),
    ),
    rows: 1_000_000,
    bars: { JSONLines: 3, CSV: 2.3, 'Parquet + zstd': 1.7 },
    createSql: `CREATE TABLE taxi (id bigint PRIMARY KEY, team_id int NOT NULL,
      ${taxiColumns.map(([name, type]) => `${name} ${type}`).join(', ')})`,
    insertSql: `INSERT INTO taxi SELECT n, 1 + (n % 3 = 2)::int,
      ${taxiColumns.map(([, , value]) => value).join(', ')} FROM`,
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
    if (name === 'events') {
      for (const { sql } of triggerStatements(changingOf(table))) await client.query(sql);
    }
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

/** The model of an export of changes. */
export const changingOf = ({ model }: BenchTable): Model => ({
  ...model,
  intervalColumn: null,
  changes: { versionColumn: 'version', setBy: 'database', deletes: { kind: 'none' } },
});

/** Numbers `n` with a time `at` for each, evenly over the interval. */
const instants = `generate_series(0, $1::bigint - 1) n,
  LATERAL (SELECT to_timestamp($2) + n * interval '3600 s' / $1 AS at) t`;
