import { type ClientBase, Pool, type PoolClient, types } from 'pg';
import { isPlannedOnce, prepared, StatementNames } from './prepared.ts';
import { plansOnce, Sessions, setUpQueueSession } from './sessions.ts';
import { isFull, shrinkWhenRefused } from './shrunk-pool.ts';
import { isReadOnly } from './unavailable.ts';

/** Something that runs SQL: the pool, or one transaction. */
export interface Sql {
  query<Row extends object>(text: string, values?: readonly unknown[]): Promise<Row[]>;
}

/** Begins transactions: the pool, or a transaction, whose inner ones are savepoints. */
export interface Transactor extends Sql {
  /** Runs `work` in one READ COMMITTED transaction; rolls back if it throws. */
  transaction<T>(work: (tx: Sql) => Promise<T>): Promise<T>;
}

export interface Database extends Transactor {
  close(): Promise<void>;
}

export interface DatabaseOptions {
  readonly connectionString: string;
  readonly applicationName: string;
  readonly maxConnections: number;
  /** True: a server that takes no writes counts as unreachable. After a failover the address may lead to a standby. */
  readonly writes?: boolean;
  /** Called if an idle connection breaks; the pool replaces it. */
  readonly onError: (error: Error) => void;
}

const { builtins } = types;

/** Makes `2024-03-01 00:00:00.12+00` a `Timestamp` with six decimals: a Date would drop the microseconds. */
function parseTimestamp(text: string): string {
  // Infinities and years BC stay unchanged.
  if (!text.endsWith('+00')) return text;
  // Most have all decimals and a year of four digits, and a page has a thousand of them.
  if (text.length === 29 && text[10] === ' ') return `${text.slice(0, 10)}T${text.slice(11, 26)}Z`;
  const date = text.indexOf(' ');
  const seconds = date + 9;
  const decimals = text.slice(seconds + 1, -3).padEnd(6, '0');
  return `${text.slice(0, date)}T${text.slice(date + 1, seconds)}.${decimals}Z`;
}

const parsers = new Map<number, (text: string) => unknown>([
  [builtins.TIMESTAMPTZ, parseTimestamp],
  [builtins.INT8, Number],
]);

function getTypeParser(oid: number, format?: 'text' | 'binary') {
  return (format !== 'binary' && parsers.get(oid)) || types.getTypeParser(oid, format as 'text');
}

function sqlOf(client: Pick<PoolClient, 'query'>, statements: StatementNames): Sql {
  return {
    async query<Row extends object>(text: string, values: readonly unknown[] = []) {
      const name = statements.of(text);
      const query = { text, values: [...values], ...(name === undefined ? {} : { name }) };
      try {
        return (await client.query<Row>(query)).rows;
      } catch (error) {
        if (name !== undefined) statements.noteError(error);
        throw error;
      }
    },
  };
}

/** BullMQ's tables are in a schema of their own. One connection of a worker listens for jobs. */
export function openQueuePool(options: DatabaseOptions): QueuePool {
  const names = new StatementNames();
  const pool = new Pool({
    connectionString: options.connectionString,
    application_name: options.applicationName,
    max: options.maxConnections,
    connectionTimeoutMillis: 5_000,
    keepAlive: true,
    onConnect: async (client) => names.learn(await setUpQueueSession(client)),
  });
  watchConnections(pool, options.onError);
  // One listens.
  shrinkWhenRefused(pool, 2);
  nameStatements(pool, names);
  return { pool, close: () => endPool(pool) };
}

/** Each connection parses a statement with values once: BullMQ's texts are few, and most of their bytes are comments. */
function nameStatements(pool: Pool, statements: StatementNames): void {
  const send = pool.query.bind(pool) as (...given: unknown[]) => Promise<unknown>;
  const query = async (...given: unknown[]) => {
    const [text, values] = given;
    const name =
      typeof text === 'string' && Array.isArray(values) && given.length === 2
        ? statements.of(prepared(text))
        : undefined;
    if (name === undefined) return send(...given);
    try {
      return await send({ name, text, values });
    } catch (error) {
      statements.noteError(error);
      throw error;
    }
  };
  Object.assign(pool, { query });
}

export interface QueuePool {
  readonly pool: Pool;
  close(): Promise<void>;
}

/** The pool handles idle connections only: one that breaks within a transaction would end the process. */
function watchConnections(pool: Pool, onError: (error: Error) => void): void {
  pool.on('error', onError);
  pool.on('connect', (client) => client.on('error', () => {}));
}

/** `end` does not wait for the sockets, so later errors of a server that stops are ignored. */
async function endPool(pool: Pool): Promise<void> {
  pool.removeAllListeners('error');
  pool.on('error', () => {});
  await pool.end();
}

export function joinTransaction(tx: Sql): Transactor {
  return {
    query: (text, values) => tx.query(text, values),
    async transaction(work) {
      await tx.query('savepoint inner_work');
      try {
        const result = await work(tx);
        await tx.query('release savepoint inner_work');
        return result;
      } catch (error) {
        await tx.query('rollback to savepoint inner_work');
        throw error;
      }
    },
  };
}

/** The share of a pool that is for statements that are planned once: they are short, and many share each. One alone would be a queue. */
const shareOfPlanned = 1 / 5;
const fewestPlanned = 2;
/** A pool with fewer has no such share. */
const fewestShared = 5;

/** Opens the pool lazily: an unreachable Postgres fails the query, not the start. */
export function openDatabase(options: DatabaseOptions): Database {
  const sessions = new Sessions(options.writes ?? false);
  const { names } = sessions;
  const share = Math.floor(options.maxConnections * shareOfPlanned);
  const few = options.maxConnections < fewestShared ? 0 : Math.max(fewestPlanned, share);
  // It keeps one for as long as it is open, so that this process can go on when others have taken all the rest.
  const pool = openPool(options, options.maxConnections - few, 1, (client) =>
    sessions.open(client),
  );
  const room = shrinkWhenRefused(pool);
  const usual = sqlOf(pool, names);
  const poolOfPlanned =
    few === 0 ? null : openPool(options, few, 0, (client) => sessions.open(client, plansOnce));
  const planned = poolOfPlanned === null ? null : sqlOf(poolOfPlanned, names);
  return {
    async query(text, values) {
      // Behind a pooler no statement keeps its plan.
      const isApart = planned !== null && !room.isSmall && names.areUsed && isPlannedOnce(text);
      if (!isApart) return usual.query(text, values);
      try {
        return await planned.query(text, values);
      } catch (error) {
        if (!isFull(error)) throw error;
        room.shrink();
        return usual.query(text, values);
      }
    },
    async transaction(work) {
      const client = await pool.connect();
      let broken: Error | undefined;
      try {
        await client.query(sessions.begin);
        const result = await work(sqlOf(client, names));
        await client.query('commit');
        return result;
      } catch (error) {
        // The next connection may lead to the server that takes writes.
        if (isReadOnly(error)) broken = error as Error;
        await client.query('rollback').catch((rollbackError: Error) => {
          broken = rollbackError;
        });
        throw error;
      } finally {
        client.release(broken);
      }
    },
    async close() {
      await Promise.all([pool, poolOfPlanned].map((each) => each && endPool(each)));
    },
  };
}

function openPool(
  { connectionString, applicationName, onError }: DatabaseOptions,
  max: number,
  min: number,
  onConnect: (client: ClientBase) => Promise<void>,
): Pool {
  const pool = new Pool({
    connectionString,
    application_name: applicationName,
    max,
    min,
    // The pool awaits it before it lends the connection.
    onConnect,
    connectionTimeoutMillis: 5_000,
    idleTimeoutMillis: 10_000,
    keepAlive: true,
    // Limits the delay by a half-open connection.
    query_timeout: 60_000,
    types: { getTypeParser },
  });
  watchConnections(pool, onError);
  return pool;
}
