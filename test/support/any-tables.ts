import { writeFile } from 'node:fs/promises';
import type { Pool } from 'pg';
import { stringify } from 'yaml';

/** Relations unlike `events`, and the models file that makes them exportable. */

/** Rows that each of them has for a project. */
export const anyTableRows = 300;

const at = `'2024-03-01T00:00:00Z'::timestamptz + n * interval '11.000007 seconds'`;
const numbers = `generate_series(0, ${anyTableRows - 1}) n`;

/** Partitions, big whole numbers as keys, two of them next to each other past 2^53. */
const orders = `
  create table shop.orders (
    id bigint not null, "placedAt" timestamptz not null, account bigint not null, net numeric(12, 2),
    kind text, primary key (id, "placedAt")) partition by range ("placedAt");
  create table shop.orders_1 partition of shop.orders
    for values from ('2024-03-01T00:00:00Z') to ('2024-03-01T00:30:00Z');
  create table shop.orders_2 partition of shop.orders default;
  create index on shop.orders (account, "placedAt");
  insert into shop.orders
  select 9007199254740992 + n + 1000000 * other, ${at}, :team + other, n / 10.0, 'kind ' || n % 3
    from ${numbers}, generate_series(0, 1) other;`;

/** A view whose project is text and whose rows share keys. */
const totals = `
  create view shop.totals as
  select account::text as project, id / 2 as pair, "placedAt" as at, net, net is null as free
    from shop.orders;`;

/** Names that need quotes, a key of six odd types, and types that COPY sends as JSON. */
const odd = `
  create type shop.mood as enum ('good', 'so "so"', 'bad');
  create domain shop.code as text check (value <> '');
  create table "My.Schema"."select" (
    "user" text not null, "from" timestamptz not null, "order" shop.code not null, mood shop.mood,
    "Blob" bytea not null, exact numeric not null, tags text[], range int4range, took interval,
    "group" inet, data jsonb, day date, ratio float8, price numeric(20, 3) not null, clock time not null,
    primary key ("order", "Blob", exact, price, clock, "from"));
  create index on "My.Schema"."select" ("user", "from");
  insert into "My.Schema"."select"
  select :team::text, ${at}, 'a "b", \\ ' || chr(10) || chr(13) || '🙂' || n % 7,
         (array['good', 'so "so"', 'bad'])[1 + n % 3]::shop.mood, decode(md5(n::text), 'hex'),
         (n || '.10')::numeric, array['x', null, n::text], int4range(n, n + 5),
         n * interval '1.5 hours', '10.0.0.1/8'::inet, jsonb_build_object('n', n, 'big', 9007199254740993),
         '2024-02-28'::date + n, n / 7.0, n * -1.25, time '00:00:00.5' + n * interval '1.000001 seconds'
    from ${numbers};`;

/** In another database. */
const elsewhere = `
  create schema shop;
  create table shop.things (
    id uuid primary key, team integer not null, at timestamp not null, body text);
  create index on shop.things (team, at);
  insert into shop.things
  select md5(n::text)::uuid, :team, (${at}) at time zone 'UTC', repeat('x', n) from ${numbers};`;

/** Makes the relations and their rows, all of them inside one hour. */
export async function createAnyTables(source: Pool, second: Pool, team: number): Promise<void> {
  const fill = (sql: string) => sql.replaceAll(':team', String(team));
  await source.query('create schema shop; create schema "My.Schema"');
  await source.query(fill(orders + totals + odd));
  await second.query(fill(elsewhere));
}

const column = (name: string, type: string, expression?: string) =>
  expression === undefined ? { name, type } : { name, type, expression };

export const anyModels = [
  {
    name: 'orders',
    relation: 'shop.orders',
    tenant_column: 'account',
    interval_column: 'placedAt',
    key_columns: ['id', 'placedAt'],
    event_column: 'kind',
    columns: [
      column('id', 'bigint'),
      column('placedAt', 'timestamptz'),
      column('net', 'numeric'),
      column('gross', 'numeric', 'round(net * 1.19, 2)'),
    ],
  },
  {
    name: 'totals',
    relation: 'shop.totals',
    tenant_column: 'project',
    interval_column: 'at',
    key_columns: ['pair'],
    columns: [
      column('pair', 'int8'),
      column('at', 'timestamptz'),
      column('net', 'numeric'),
      column('free', 'boolean'),
    ],
  },
  {
    name: 'odd',
    relation: '"My.Schema".select',
    tenant_column: 'user',
    interval_column: 'from',
    key_columns: ['order', 'Blob', 'exact', 'price', 'clock', 'from'],
    columns: [
      column('from', 'timestamptz'),
      column('order', 'shop.code'),
      column('mood', 'shop.mood'),
      column('Blob', 'bytea'),
      column('exact', 'numeric'),
      column('tags', 'text[]'),
      column('range', 'int4range'),
      column('took', 'interval'),
      column('group', 'inet'),
      column('data', 'jsonb'),
      column('day', 'date'),
      column('ratio', 'float8'),
      column('price', 'numeric(20,3)'),
      column('clock', 'time'),
    ],
  },
  {
    name: 'things',
    relation: 'shop.things',
    tenant_column: 'team',
    interval_column: 'at',
    key_columns: ['id'],
    source: 'SECOND_DATABASE_URL',
    columns: [column('id', 'uuid'), column('at', 'timestamp'), column('body', 'text')],
  },
];

/** Writes the models file. @returns its path */
export async function writeAnyModels(folder: string): Promise<string> {
  const path = `${folder}/models.yaml`;
  await writeFile(path, stringify({ models: anyModels }));
  return path;
}
