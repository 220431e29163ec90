import type { Notification, Pool, PoolClient } from 'pg';

type Hear = (message: Notification) => void;

/** A part of BullMQ's connection: it asks for the session that listens, and is notified if that was lost. */
export interface Listening {
  getListenClient: () => Promise<unknown>;
  setListenClientName: () => Promise<void>;
  close: () => Promise<void>;
  emit(event: 'listenerinvalidated'): boolean;
}

/**
 * The one session of a process that listens for jobs. BullMQ would take a connection for each worker, for good: with few
 * connections nothing would be left to take jobs with.
 */
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
