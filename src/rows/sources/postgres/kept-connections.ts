import type pg from 'pg';
import { closeConnection, destroyConnection, keepsAlive } from './connection.ts';

/** Maximum time of a COMMIT that has nothing to write. */
const commitMs = 2_000;

/** Open for a while for those that come next, without a transaction. */
export class KeptConnections {
  readonly #keepMs: number;
  readonly #most: number;
  readonly #idle = new Map<pg.Client, NodeJS.Timeout>();
  readonly #watched = new WeakSet<pg.Client>();

  /** @param keepMs how long one stays open without use; 0: none is kept */
  constructor(keepMs: number, most: number) {
    this.#keepMs = keepMs;
    this.#most = most;
  }

  /** The one that was used last. Its server may have closed it. */
  take(): pg.Client | null {
    const [client, timer] = [...this.#idle].at(-1) ?? [];
    if (!client) return null;
    clearTimeout(timer);
    this.#idle.delete(client);
    keepsAlive(client, true);
    return client;
  }

  async give(client: pg.Client): Promise<void> {
    if (this.#keepMs === 0 || this.#idle.size >= this.#most) return closeConnection(client);
    const cut = setTimeout(() => destroyConnection(client), commitMs);
    try {
      await client.query('COMMIT');
    } catch {
      return destroyConnection(client);
    } finally {
      clearTimeout(cut);
    }
    const close = () => {
      this.#idle.delete(client);
      void closeConnection(client);
    };
    keepsAlive(client, false);
    this.#idle.set(client, setTimeout(close, this.#keepMs).unref());
    if (this.#watched.has(client)) return;
    this.#watched.add(client);
    client.once('end', () => {
      clearTimeout(this.#idle.get(client));
      this.#idle.delete(client);
    });
  }
}
