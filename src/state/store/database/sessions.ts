import { Client, type ClientBase, type QueryResult } from 'pg';
import { storeMark } from '../../../foundation/domain/store-mark.ts';
import { ownPath, schemaOfQueue } from './own-schema.ts';
import { StatementNames } from './prepared.ts';
import { ReadOnlyError } from './unavailable.ts';

type Settings = Readonly<Record<string, string>>;
type Opened = ClientBase & { readonly processID?: number | null };

interface Pinned {
  /** As `current_setting` prints it. */
  readonly value: string;
  /** It is replaced only if it is this; other values are the operator's choice. */
  readonly instead?: string;
}

/**
 * Every session of ours sets these: all that our statements rely on, whatever the role, the database or the server sets.
 * A server that does not know one is older, or newer, and needs none. The search path is `own-schema.ts`. A default of
 * read-only transactions is left alone: operators use it to stop writes while they move a database.
 */
export const pinnedSettings: Readonly<Record<string, Pinned>> = {
  // First, so that no limit of the role ends what follows. It also limits the locks of a half-open connection.
  statement_timeout: { value: '55s' },
  transaction_timeout: { value: '0' },
  lock_timeout: { value: '0' },
  idle_session_timeout: { value: '0' },
  exit_on_error: { value: 'off' },
  // Statements see what others have committed before, and wait for each other. They never fail because of each other.
  default_transaction_isolation: { value: 'read committed' },
  default_transaction_deferrable: { value: 'off' },
  // Our statements are short: to compile one takes longer than all that it does.
  jit: { value: 'off' },
  // Settings for values as they are read and printed.
  array_nulls: { value: 'on' },
  backslash_quote: { value: 'safe_encoding' },
  bytea_output: { value: 'hex' },
  datestyle: { value: 'ISO, MDY' },
  extra_float_digits: { value: '1' },
  intervalstyle: { value: 'postgres' },
  quote_all_identifiers: { value: 'off' },
  standard_conforming_strings: { value: 'on' },
  timezone: { value: 'UTC' },
  transform_null_equals: { value: 'off' },
  // Settings for the names and the effects of a statement.
  gin_fuzzy_search_limit: { value: '0' },
  restrict_nonsystem_relation_kind: { value: '' },
  row_security: { value: 'on' },
  session_replication_role: { value: 'origin', instead: 'replica' },
  // A promise is on the disk before it is given.
  synchronous_commit: { value: 'on', instead: 'off' },
};

/** Limits the locks of a process that freezes in a transaction. */
const limits: Settings = {
  statement_timeout: pinnedSettings.statement_timeout?.value ?? '',
  idle_in_transaction_session_timeout: '10s',
};

const setSql = ([name, value]: readonly [string, string]) =>
  `set_config('${name}', '${value}', false)`;

const pins = Object.entries(pinnedSettings).map(([name, { value, instead }]) => {
  const current = `current_setting('${name}', true)`;
  const applies = instead === undefined ? `${current} is not null` : `${current} = '${instead}'`;
  return `case when ${applies} then ${setSql([name, value])} end`;
});

/** Statements of their own, before all others: a limit of the role applies to each statement of a message. */
const pinsFirst = `set statement_timeout = '${limits.statement_timeout}'; set jit = off`;

export async function pinSession(client: ClientBase): Promise<void> {
  await client.query(`${pinsFirst}; select ${pins.join(', ')}`);
}

/**
 * The mark and `own` are for sessions that no other client gets: a pooler would leave them to others. It shares
 * sessions of one role in one database, so the pinned settings may stay.
 * @param path SQL of its search path
 * @param writes whether a server that takes no writes is refused: a connection to a standby would stay in the pool
 * @returns whether no other client gets it
 * @throws ReadOnlyError
 */
async function setUp(
  client: ClientBase,
  own: Settings,
  path: string,
  writes: boolean,
): Promise<boolean> {
  const { processID } = client as Opened;
  // A pooler makes up the process id that it reports to its clients.
  const isOwn = `pg_backend_pid() = ${Number(processID)}`;
  const columns = [
    ...pins,
    ...Object.entries(own).map((each) => `case when ${isOwn} then ${setSql(each)} end`),
    `set_config('search_path', ${path}, false)`,
    `case when ${isOwn} then pg_advisory_lock_shared(${storeMark.join(', ')})::text end`,
  ];
  const read = `select ${isOwn} as "isOwn", current_setting('transaction_read_only')::boolean as "isReadOnly"`;
  const answers = await client.query(`${pinsFirst}; ${read}, ${columns.join(', ')}`);
  const answer = (answers as unknown as readonly QueryResult<Look>[]).at(-1);
  const look = answer?.rows[0];
  if (writes && look?.isReadOnly) throw new ReadOnlyError();
  return look?.isOwn === true;
}

interface Look {
  readonly isOwn: boolean;
  readonly isReadOnly: boolean;
}

/** All that a crash of the server loses is enqueued or executed again. @returns whether no other client gets this session */
export async function setUpQueueSession(client: ClientBase): Promise<boolean> {
  const path = `quote_ident(${schemaOfQueue})`;
  return setUp(client, { synchronous_commit: 'off' }, path, true);
}

/** Behind a pooler the next statement may run in another session: there transactions limit themselves. */
export class Sessions {
  readonly names = new StatementNames();
  readonly #writes: boolean;
  #isPooled = false;

  constructor(writes: boolean) {
    this.#writes = writes;
  }

  /** Sets up a new connection. @param own what else it has, if no other client gets its session @throws ReadOnlyError */
  async open(client: ClientBase, own: Settings = {}): Promise<void> {
    const isOwn = await setUp(client, { ...limits, ...own }, ownPath, this.#writes);
    if (!isOwn) this.#isPooled = true;
    this.names.learn(isOwn);
  }

  get begin(): string {
    if (!this.#isPooled) return 'begin';
    const set = Object.entries(limits).map(([name, value]) => `set local ${name} = '${value}'`);
    return ['begin isolation level read committed', ...set].join('; ');
  }
}

/** For statements that are planned once, often while tables are almost empty: PostgreSQL would read a whole table for each key. */
export const plansOnce: Settings = {
  plan_cache_mode: 'force_generic_plan',
  enable_seqscan: 'off',
};

/** `session`: nothing is shared, or a pooler in session mode. */
export type PoolMode = 'session' | 'transaction';

/** A pooler that lends a session to a client for one transaction does it soon after this many. */
const looks = 10;

/** Says whether two connected clients are ever in the same session of the server, or one client in two. */
export async function findPoolMode(connectionString: string): Promise<PoolMode> {
  return withClients([connectionString, connectionString], async (clients) => {
    const pids: number[][] = clients.map(() => []);
    for (let look = 0; look < looks; look += 1) {
      for (const [index, client] of clients.entries()) {
        const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
        const pid = rows[0]?.pid ?? 0;
        // Without a pooler the process id is that of the server.
        if (pid === (client as Opened).processID) return 'session';
        pids[index]?.push(pid);
      }
    }
    const [one, other] = pids.map((seen) => new Set(seen));
    const isShared = one?.size !== 1 || other?.size !== 1 || [...one].some((pid) => other.has(pid));
    return isShared ? 'transaction' : 'session';
  });
}

/** Says whether two addresses lead to the same database of the same server. */
export async function isSameDatabase(one: string, other: string): Promise<boolean> {
  return withClients([one, other], async (clients) => {
    const places = clients.map(async (client) => {
      const { rows } = await client.query<{ place: string }>(
        `select concat_ws(' ', d.oid, extract(epoch from pg_postmaster_start_time())) as place
           from pg_database d where datname = current_database()`,
      );
      return rows[0]?.place;
    });
    const [first, second] = await Promise.all(places);
    return first === second;
  });
}

export async function withClients<T>(
  addresses: readonly string[],
  work: (clients: readonly Client[]) => Promise<T>,
  name = 'sluice-start',
): Promise<T> {
  const clients = addresses.map((connectionString) => {
    const times = { connectionTimeoutMillis: 10_000, keepAliveInitialDelayMillis: 10_000 };
    return new Client({ connectionString, application_name: name, keepAlive: true, ...times });
  });
  // A connection that breaks between two statements fails the next one, not the process.
  for (const client of clients) client.on('error', () => {});
  try {
    await Promise.all(clients.map((client) => client.connect()));
    await Promise.all(clients.map((client) => pinSession(client)));
    return await work(clients);
  } finally {
    await Promise.all(clients.map((client) => client.end().catch(() => {})));
  }
}

/** The address leads to a pooler that cannot do what is asked of it; the message says what to set. */
export class PoolerError extends Error {
  constructor(what: string, remedy: string) {
    super(
      `DATABASE_URL leads to a pooler in transaction mode, and ${what} need a session of their own. ${remedy}`,
    );
    this.name = 'PoolerError';
  }
}

/** @throws PoolerError if the clients of the address share sessions */
export async function requireOwnSession(
  connectionString: string,
  what: string,
  remedy: string,
): Promise<void> {
  if ((await findPoolMode(connectionString)) === 'transaction') throw new PoolerError(what, remedy);
}
