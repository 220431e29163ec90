import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { Pool } from 'pg';
import { stringify } from 'yaml';
import { parseModelsFile, type SourcedModel } from '../../src/foundation/config/models-file.ts';
import { eventsModel } from '../../src/foundation/domain/events-model.ts';
import { testServer } from './database.ts';
import { dropDatabase, withClient } from './drop-database.ts';
import { urlOf } from './template-database.ts';

/**
 * The database of a shop that knows nothing of Sluice: a schema, names with capital letters, spaces and quotes, a partitioned table, a
 * view. All its tables together are the models of the tests' default installation, beside `events`.
 */

/** Rows that each model has for a project. */
export const shopRows = 120;

/** The variable of the models file that has the address of the shop. */
export const shopVariable = 'SHOP_DATABASE_URL';

const schema = `
  create schema "Shop";
  create type "Shop"."orderState" as enum ('new', 'paid', 'It''s "sent"');
  create table "Shop"."Orders" (
    "orderId" uuid primary key default gen_random_uuid(), "Account" text not null,
    "placedAt" timestamptz not null default now(), "orderTotal" numeric(12, 2) not null,
    state "Shop"."orderState" not null, "Details" jsonb);
  create index on "Shop"."Orders" ("Account", "placedAt");
  create table "Shop"."lineItems" (
    "itemId" bigint generated always as identity, "accountId" uuid not null,
    "addedAt" timestamptz not null, quantity integer not null, "unit price" numeric(12, 4) not null,
    primary key ("itemId", "addedAt")) partition by range ("addedAt");
  create table "Shop"."lineItems_1" partition of "Shop"."lineItems"
    for values from (minvalue) to ('2024-03-01T00:30:00Z');
  create table "Shop"."lineItems_2" partition of "Shop"."lineItems" default;
  create index on "Shop"."lineItems" ("accountId", "addedAt");
  create view "Shop"."Order totals" as
  select "orderId" as id, "Account" as account, "placedAt" as at, "orderTotal" * 1.19 as gross from "Shop"."Orders";
  create table "Shop"."user" (
    "select" text not null, "from" timestamptz not null default now(), "größe" double precision,
    "say ""hi""" text, account text not null, primary key (account, "select"));
  create index on "Shop"."user" (account, "from");`;

const column = (name: string, type: string) => ({ name, type });

const orders = {
  name: 'orders',
  relation: 'Shop.Orders',
  source: shopVariable,
  tenant_column: 'Account',
  interval_column: 'placedAt',
  key_columns: ['orderId'],
  event_column: 'state',
  columns: [
    column('orderId', 'uuid'),
    column('placedAt', 'timestamptz'),
    column('orderTotal', 'numeric(12,2)'),
    column('state', '"Shop"."orderState"'),
    column('Details', 'jsonb'),
  ],
};

const lineItems = {
  name: 'line_items',
  relation: 'Shop.lineItems',
  source: shopVariable,
  tenant_column: 'accountId',
  interval_column: 'addedAt',
  key_columns: ['itemId', 'addedAt'],
  columns: [
    column('itemId', 'bigint'),
    column('addedAt', 'timestamptz'),
    column('quantity', 'integer'),
    column('unit price', 'numeric(12,4)'),
  ],
};

const orderTotals = {
  name: 'order_totals',
  relation: 'Shop.Order totals',
  source: shopVariable,
  tenant_column: 'account',
  interval_column: 'at',
  key_columns: ['id'],
  columns: [column('id', 'uuid'), column('at', 'timestamptz'), column('gross', 'numeric')],
};

/** A word of SQL as the name of a model, of a table and of a column. */
const user = {
  name: 'user',
  relation: 'Shop.user',
  source: shopVariable,
  tenant_column: 'account',
  interval_column: 'from',
  key_columns: ['select'],
  columns: [
    column('select', 'text'),
    column('from', 'timestamptz'),
    column('größe', 'double precision'),
    column('say "hi"', 'text'),
  ],
};

export const shopModels = [orders, lineItems, orderTotals, user];
export const shopModelNames = shopModels.map(({ name }) => name);

/** The built-in model as an installation declares it itself: its rows are in our database. */
const events = {
  name: eventsModel.name,
  relation: 'public.events',
  tenant_column: eventsModel.tenantColumn,
  interval_column: eventsModel.intervalColumn,
  key_columns: [...eventsModel.keyColumns],
  event_column: eventsModel.eventColumn,
  columns: eventsModel.columns.map(({ name, sourceType }) => column(name, sourceType)),
};

/** Writes the models file of the default installation. @returns its path */
export async function writeShopModels(
  folder: string,
  models: readonly object[] = [...shopModels, events],
): Promise<string> {
  const path = `${folder}/models.yaml`;
  await writeFile(path, stringify({ models }));
  return path;
}

/** The same models, for an API in the process of the test. */
export function shopModelsAt(url: string): readonly SourcedModel[] {
  return parseModelsFile(stringify({ models: shopModels }), 'models.yaml', {
    checkExpression: () => null,
    env: { [shopVariable]: url },
  });
}

/** The database of the shop, which is made when it is first opened. */
export interface Shop {
  readonly url: string;
  /** Its pool. The first call creates database and tables. */
  open(): Promise<Pool>;
  /** Also ends the pool. */
  drop(): Promise<void>;
}

/** Nothing is created before it is opened: most tests read no rows of a shop. */
export function planShop(): Shop {
  const server = testServer();
  const name = `${server.prefix}shop_${randomBytes(6).toString('hex')}`;
  const url = urlOf(server, name);
  let opened: Promise<Pool> | null = null;
  const create = async () => {
    const owner = server.owner.name;
    await withClient(server.adminUrl, (client) =>
      client.query(`CREATE DATABASE ${name} OWNER ${owner} TEMPLATE template0 STRATEGY FILE_COPY`),
    );
    const pool = new Pool({ connectionString: url, max: 3 });
    pool.on('error', () => {});
    await pool.query(schema);
    return pool;
  };
  return {
    url,
    open() {
      opened ??= create();
      return opened;
    },
    async drop() {
      if (opened === null) return;
      await (await opened.catch(() => null))?.end();
      await dropDatabase(server.adminUrl, name);
    },
  };
}

/**
 * Writes rows into each table, spread over the first hours of March 2024.
 *
 * @param tenantKey a uuid; of any other one, all tables but the line items get rows
 */
export async function fillShop(
  shop: Pool,
  tenantKey: string,
  { rows = shopRows, hours = 1 } = {},
): Promise<void> {
  const numbers = `generate_series(0, ${rows} - 1) n,
    lateral (select timestamptz '2024-03-01Z' + n * interval '${hours} hours' / ${rows} as at) t`;
  await shop.query(
    `insert into "Shop"."Orders" ("orderId", "Account", "placedAt", "orderTotal", state, "Details")
     select md5($1 || n)::uuid, $1, at, n / 4.0, (enum_range(null::"Shop"."orderState"))[1 + n % 3], jsonb_build_object('n', n, 'Plan', 'pro')
       from ${numbers}`,
    [tenantKey],
  );
  await shop.query(
    `insert into "Shop"."user" ("select", "from", "größe", "say ""hi""", account)
     select 'user ' || n, at, n / 8.0, 'hi "' || n || '"', $1 from ${numbers}`,
    [tenantKey],
  );
  if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(tenantKey)) return;
  await shop.query(
    `insert into "Shop"."lineItems" ("accountId", "addedAt", quantity, "unit price")
     select $1, at, n, n / 3.0 from ${numbers}`,
    [tenantKey],
  );
}
