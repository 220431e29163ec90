import { setTimeout as sleep } from 'node:timers/promises';
import {
  type BackendFactory,
  createPostgresBackend,
  type IQueueBackend,
  runMigrations,
} from 'bullmq';
import type { Notification, Pool, PoolClient } from 'pg';

/** Between two looks at BullMQ's schema, if the first failed. */
const lookAgainMs = 1_000;

/** After a notification that was lost. BullMQ would wait for the next delayed job, for up to an hour. */
const mostBlockSeconds = 5;

/** A part of BullMQ's backend that its types do not show. */
interface WithConnection {
  readonly connection: { schema: string; bootstrap: () => Promise<void> } & Listening;
}

/** The schema of the queue: the search path of each connection of its pool is this schema alone. */
async function readSchema(sql: Pick<Pool | PoolClient, 'query'>): Promise<string> {
  const { rows } = await sql.query(
    `select trim('"' from current_setting('search_path')) as schema`,
  );
  return (rows[0] as { schema: string }).schema;
}

type AddJobs = IQueueBackend['addJobs'];

/**
 * BullMQ looks at its schema once for each queue and each worker, and keeps what came of it for good, a failure too:
 * whichever met a database that was unreachable in this moment would never work again. So it looks until it has seen
 * the schema; what is asked of the queue meanwhile waits.
 */
export function createBackendFactory(
  pool: Pool,
  listener: SharedListener,
  onError: (error: Error) => void,
): BackendFactory<IQueueBackend, Pool> {
  const create = createPostgresBackend as unknown as BackendFactory<IQueueBackend, Pool>;
  return (...given) => {
    const [queueName] = given;
    const backend = create(...given);
    const { connection } = backend as unknown as WithConnection;
    listener.serve(connection);
    const look = connection.bootstrap.bind(connection);
    connection.bootstrap = async () => {
      for (;;) {
        try {
          connection.schema = await readSchema(pool);
          return await look();
        } catch (error) {
          if (pool.ending) throw error;
          onError(error as Error);
        }
        await sleep(lookAgainMs, undefined, { ref: false });
      }
    };
    const addJobs: AddJobs = (entries) => addFew(backend, queueName, entries);
    return Object.defineProperties(backend, {
      maximumBlockTimeout: { value: mostBlockSeconds },
      addJobs: { value: addJobs },
    });
  };
}

/** Adds jobs one after the other within one statement: for few jobs that is cheaper than two temporary tables at each call. */
async function addFew(
  backend: IQueueBackend,
  queueName: string,
  entries: Parameters<AddJobs>[0],
): Promise<string[]> {
  const added = await backend.addFlow(
    entries.map(({ job, jobId, parentKeyOpts = {} }) => ({
      ...{ queueName, prefix: '', jobData: job, jobId, parentKeyOpts },
    })),
  );
  return added.map(([error, id]) => {
    if (error !== null) throw error;
    return String(id);
  });
}

/** BullMQ notifies all sessions that listen each time that a job begins or ends, for its QueueEvents: we have none. */
const noEvent = 'select 0::bigint';

/** A role that does not own BullMQ's functions leaves them as they are: everything works, with more statements. */
const withoutEvents = (schema: string) => `do $do$ begin
  perform pg_advisory_xact_lock(hashtext('sluice:queue-events'));
  if exists (select from pg_proc where oid = '"${schema}".publish_event(text, text, jsonb)'::regprocedure and prosrc <> '${noEvent}') then
    create or replace function "${schema}".publish_event(p_queue text, p_event text, p_data jsonb) returns bigint
      language sql immutable as '${noEvent}';
  end if;
exception when insufficient_privilege then null;
end $do$`;

/** Tables of BullMQ whose names others have too: BullMQ would use theirs. */
const commonNames = 'job job_log event meta metrics migration scheduler dedup'.split(' ');

/** Creates or migrates BullMQ's tables, also if many processes call it. @throws Error with the remedy */
export async function preparePostgres(client: PoolClient): Promise<void> {
  const schema = await readSchema(client);
  const { rows } = await client.query<{ exists: boolean; role: string; taken: string | null }>(
    `select to_regnamespace(quote_ident($1)) is not null as exists, current_user as role,
            (select min(c.relname) from pg_class c where c.relnamespace = to_regnamespace(quote_ident($1))
                and c.relname = any ($2) and to_regclass(format('%I.job_dependency', $1::text)) is null) as taken`,
    [schema, commonNames],
  );
  const { exists = false, role = '', taken = null } = rows[0] ?? {};
  if (taken !== null || !/^[A-Za-z_][A-Za-z0-9_$]*$/.test(schema)) {
    const reason = taken === null ? `cannot be called ${schema}` : `has a table ${taken} already`;
    throw new QueueSchemaError(
      `DATABASE_URL: the schema of the queue ${reason}. ` +
        `Run this as the owner of the database or a superuser: CREATE SCHEMA bullmq AUTHORIZATION "${role}"; or set REDIS_URL to a Redis for the queues.`,
    );
  }
  await runMigrations(exists ? withoutCreation(client) : client, schema);
  await client.query(withoutEvents(schema));
}

/** There is no schema for the tables of the queue; the message says what to do. */
export class QueueSchemaError extends Error {
  override readonly name = 'QueueSchemaError';
}

/** BullMQ asks to create its schema even if it exists, which a role without that right may not. */
function withoutCreation(client: PoolClient): PoolClient {
  return Object.assign(Object.create(client) as PoolClient, {
    query: (text: string, values?: unknown[]) =>
      text.startsWith('CREATE SCHEMA ') ? client.query('select') : client.query(text, values),
  });
}

type Hear = (message: Notification) => void;

/** A part of BullMQ's connection: it asks for the session that listens, and is notified if that was lost. */
export interface Listening {
  getListenClient: () => Promise<unknown>;
  setListenClientName: () => Promise<void>;
  close: () => Promise<void>;
  emit(event: 'listenerinvalidated'): boolean;
}

/** The one session of a process that listens for jobs. BullMQ would take a connection for each worker, for good. */
export class SharedListener {
  readonly #pool: Pool;
  readonly #onError: (error: Error) => void;
  readonly #all = new Set<Listening>();
  /** One of each queue that waits for a job. */
  readonly #waiting = new Set<Hear>();
  /** All that BullMQ asks of its client. */
  readonly #face = {
    // Each queue sends its own, and a session takes one at a time.
    query: (text: string) => {
      const answer = this.#asked.then(async () => (await this.#open()).query(text));
      this.#asked = answer.catch(() => {});
      return answer;
    },
    on: (_: 'notification', hear: Hear) => this.#waiting.add(hear),
    removeListener: (_: 'notification', hear: Hear) => this.#waiting.delete(hear),
  };
  #opened: Promise<PoolClient> | null = null;
  #asked: Promise<unknown> = Promise.resolve();

  constructor(pool: Pool, onError: (error: Error) => void) {
    this.#pool = pool;
    this.#onError = onError;
  }

  /** Lets the connection listen here. */
  serve(connection: Listening): void {
    const close = connection.close.bind(connection);
    Object.assign(connection, {
      close: async () => {
        await close();
        this.#all.delete(connection);
        if (this.#all.size === 0) await this.#release();
      },
      getListenClient: async () => {
        this.#all.add(connection);
        await this.#open();
        return this.#face;
      },
      // It has no name of one worker.
      setListenClientName: async () => {},
    });
  }

  #open(): Promise<PoolClient> {
    if (this.#opened !== null) return this.#opened;
    const opening = this.#pool.connect();
    this.#opened = opening;
    opening.then(
      (client) => {
        client.on('notification', (message) => {
          for (const hear of [...this.#waiting]) hear(message);
        });
        client.once('error', (error) => this.#lose(opening, client, error));
        client.once('end', () => this.#lose(opening, client, null));
      },
      () => {
        this.#opened = null;
      },
    );
    return opening;
  }

  #lose(opening: Promise<PoolClient>, client: PoolClient, error: Error | null): void {
    if (this.#opened !== opening) return;
    this.#opened = null;
    client.removeAllListeners('notification');
    client.release(true);
    if (error !== null) this.#onError(error);
    for (const connection of this.#all) connection.emit('listenerinvalidated');
  }

  /** The pool ends only then. */
  async #release(): Promise<void> {
    const opened = this.#opened;
    this.#opened = null;
    const client = await opened?.catch(() => null);
    client?.removeAllListeners('notification');
    client?.release(true);
  }
}
