import type { QueueName } from '../../src/state/queue/catalogue.ts';
import { connectQueues, type QueueConnection } from '../../src/state/queue/connection.ts';
import { openQueuePool } from '../../src/state/store/database/database.ts';

const session = { applicationName: 'bare-queue', maxConnections: 10, onError: fail };

/** Not a queue of the service, whose worker would take its jobs. */
const name = 'bare-runs' as QueueName;

/** A BullMQ queue like that of the service, for work of its own: a job for each id. */
export class BareQueue {
  readonly #queue: ReturnType<QueueConnection['openQueue']>;
  #left = 0;
  #ended: () => void = () => {};

  private constructor(connection: QueueConnection, places: number, run: Run) {
    this.#queue = connection.openQueue(name);
    const work = async ({ data }: { readonly data: { readonly id: number } }) => {
      // A job that fails would leave the others to wait for its end.
      await run(data.id).catch((error: unknown) => process.nextTick(() => fail(error)));
      this.#left -= 1;
      if (this.#left === 0) this.#ended();
    };
    connection.openWorker(name, work, { concurrency: places, drainDelay: 5 });
  }

  /** @param redisUrl empty: the queue is in PostgreSQL */
  static async open(url: string, redisUrl: string, places: number, run: Run): Promise<BareQueue> {
    const connection = connectQueues(
      redisUrl === ''
        ? { kind: 'postgres', pool: openQueuePool({ ...session, connectionString: url }).pool }
        : { kind: 'redis', url: redisUrl },
      fail,
    );
    await connection.prepare();
    return new BareQueue(connection, places, run);
  }

  /** Adds a job for each id, and waits until the work of all is done. */
  async runAll(ids: readonly number[]): Promise<void> {
    this.#left = ids.length;
    const ended = new Promise<void>((resolve) => {
      this.#ended = resolve;
    });
    const opts = { removeOnComplete: true };
    await this.#queue.addBulk(ids.map((id) => ({ name: 'run', data: { id }, opts })));
    await ended;
  }
}

type Run = (id: number) => Promise<void>;

function fail(error: unknown): never {
  throw error;
}
