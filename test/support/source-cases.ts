import { Client } from 'pg';
import { afterAll, beforeAll } from 'vitest';
import type { SluiceError } from '../../src/foundation/domain/errors.ts';
import { readFileSettings } from '../../src/foundation/domain/file-settings.ts';
import type { Model } from '../../src/foundation/domain/model.ts';
import { jsonLines, jsonOfField, openEncoder } from '../../src/rows/encoders/index.ts';
import { previewRows } from '../../src/rows/pipeline/preview-rows.ts';
import {
  checkModel,
  createPostgresSource,
  type PostgresSourceOptions,
  planModels,
} from '../../src/rows/sources/index.ts';
import type { Source, SourceRequest } from '../../src/rows/sources/source.ts';
import { createEmptyDatabase } from './database.ts';
import { encodeAll } from './parquet-readers.ts';
import { startOwnPostgres } from './postgres-server.ts';
import { eventsRequest, readAll } from './source-tables.ts';
import { choosePrograms } from './stock-postgres.ts';
import { asRole } from './template-database.ts';
import { plainModel } from './plain-model.ts';

/** A server with an empty database, for tests of sources. */
export interface SourceServer {
  /** Of a superuser. */
  readonly url: string;
  stop(): Promise<void>;
}

/** A database of the test's own on the server of all tests. At night the suite runs on other versions too. */
async function useTestServer(): Promise<SourceServer> {
  const database = await createEmptyDatabase();
  return { url: database.adminUrl, stop: () => database.drop() };
}

/**
 * @param settings of the server
 * @param bin as of startOwnPostgres
 */
export async function startSourceServer(
  settings: Readonly<Record<string, string>> = {},
  bin = choosePrograms(),
): Promise<SourceServer> {
  const { adminUrl, stop } = await startOwnPostgres(settings, bin);
  return { url: adminUrl, stop };
}

const never = new AbortController().signal;

export type SourceCase = Awaited<ReturnType<typeof openSourceCase>>;

/** All rows are in the hour from here on, of project 1. */
export const caseHour = '2024-03-01T00:00:00Z';

const types = { id: 'bigint', v: 'text' };
/** The model of the case's tables unless a case says another. */
export const caseModel = plainModel('rows', types, { relation: { schema: 'shop', name: 'base' } });

export const caseRequest = (more: Partial<SourceRequest> = {}): SourceRequest => {
  return { ...eventsRequest(1, caseHour, '2024-03-01T01:00:00Z'), model: 'rows', ...more };
};

/** A model of another relation of the schema `shop`. */
export const relation = (name: string): Partial<Model> => ({ relation: { schema: 'shop', name } });

/** Opens the hour. @returns the number of its rows, or code and detail of the error */
export async function outcomeOf(source: Source): Promise<number | string | null> {
  try {
    const snapshot = await source.open(caseRequest(), never);
    await snapshot.close();
    return snapshot.totalCount;
  } catch (error) {
    const { code, detail } = error as SluiceError;
    return `${code} ${detail ?? ''}`;
  }
}

/** Exports the hour. @returns what a later look-back compares with */
export async function readHour(source: Source, request: SourceRequest) {
  const opened = await source.open(request, never);
  await readAll(opened, never);
  const keys = opened.keySet() ?? { digest: '', count: 0 };
  await opened.close();
  return { snapshot: opened.snapshot, ...keys };
}

/** A reader with SELECT only, on a server with the schema `shop`. Its table `shop.base` has 100 rows. */
export async function openSourceCase(server: SourceServer) {
  const admin = new Client({ connectionString: server.url });
  admin.on('error', () => {});
  await admin.connect();
  const reader = `reader_${process.pid}_${Math.random().toString(36).slice(2, 8)}`;
  /** As the superuser. */
  const run = async (sql: string) => {
    await admin.query(sql);
  };
  await run(`create role ${reader} login password 'reader'; grant pg_read_all_stats to ${reader};
    alter role ${reader} set default_transaction_read_only = on;
    create schema shop; grant usage on schema shop to ${reader};
    create table shop.base (id bigint primary key, team int not null, at timestamptz not null, v text);
    insert into shop.base
      select g, 1, timestamptz '2024-03-01 00:10Z' + g * interval '1 second', 'v' || g from generate_series(1, 100) g;
    create index on shop.base (team, at);
    grant select on shop.base to ${reader}`);
  const url = asRole(server.url, reader);
  const modelOf = (changes: Partial<Model>): Model => ({ ...caseModel, ...changes });
  /** A source of this model of `shop`, with changes. */
  const source = (changes: Partial<Model> = {}, options: Partial<PostgresSourceOptions> = {}) =>
    createPostgresSource({
      connectionString: url,
      settleTimeoutMs: 2_000,
      plan: planModels([modelOf(changes)]),
      ...options,
    });
  return {
    reader,
    /** Of the reader. */
    url,
    run,
    /** Creates what `sql` says in the schema `shop`; the reader may read all of it. */
    create: (sql: string) => run(`${sql}; grant select on all tables in schema shop to ${reader}`),
    source,
    /** The rows of the hour as JSON Lines. */
    async read(changes: Partial<Model> = {}, request: Partial<SourceRequest> = {}) {
      const snapshot = await source(changes).open(caseRequest(request), never);
      try {
        const blocks = await readAll(snapshot, never);
        const encoder = openEncoder(jsonLines, null, snapshot.columns);
        const text = (await encodeAll(encoder, blocks)).toString();
        return text
          .split('\n')
          .flatMap((line): unknown[] => (line === '' ? [] : [JSON.parse(line)]));
      } finally {
        await snapshot.close();
      }
    },
    /** What *Preview rows* shows. */
    preview: (changes: Partial<Model> = {}): Promise<unknown> =>
      previewRows(
        [],
        {
          rows: {
            isWhole: false,
            open: (_, select, signal) => source(changes).open(caseRequest({ select }), signal),
            patiently: (work) => work(never),
          },
          ...{ now: caseRequest().interval.end, limit: 1, trace: false },
          openJsonLines: (columns) => openEncoder(jsonLines, null, columns),
          toJson: ({ type }) => jsonOfField(type),
          settings: readFileSettings({}),
        },
        never,
      ),
    /** What `sluice models check` says. */
    async check(changes: Partial<Model> = {}): Promise<readonly string[]> {
      const { findings } = await checkModel(url, modelOf(changes), ['1']);
      return findings.map(({ severity, detail }) => `${severity}: ${detail}`);
    },
    async close() {
      await run(`drop schema shop cascade; drop owned by ${reader} cascade; drop role ${reader}`);
      await admin.end();
    },
  };
}

/**
 * Declares a server with the schema `shop` for the tests of a suite. The values work from its first hook on.
 *
 * @returns also a session of the superuser
 */
export function useSourceCase(start = useTestServer): {
  readonly server: SourceServer;
  readonly shop: SourceCase;
  readonly admin: Pick<Client, 'query'>;
} {
  let server: SourceServer;
  let shop: SourceCase;
  let admin: Client;
  beforeAll(async () => {
    server = await start();
    shop = await openSourceCase(server);
    admin = new Client({ connectionString: server.url });
    await admin.connect();
  });
  afterAll(async () => {
    await admin?.end();
    await shop?.close();
    await server?.stop();
  });
  const ofSuite = <T extends object>(read: () => T): T =>
    new Proxy({} as T, {
      get: (_, name) => {
        const value = Reflect.get(read(), name);
        return typeof value === 'function' ? value.bind(read()) : value;
      },
    });
  return { server: ofSuite(() => server), shop: ofSuite(() => shop), admin: ofSuite(() => admin) };
}
