import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';

/**
 * The advisory lock that counts the users of an embedded server. Every user holds it shared; the one that
 * stops the server must hold it alone. Postgres releases it with the connection, so a killed user never
 * counts. The number is arbitrary.
 */
const useLock = 7_310_428_115;
const reconnectMs = 1_000;
const probeTimeoutMs = 5_000;

/**
 * Whether the server named `clusterName` answers a query at `url`. The name is compared because another
 * server may have taken the port. Any failure is `false`.
 */
export async function serverAnswers(url: string, clusterName: string): Promise<boolean> {
  const client = newClient(url, probeTimeoutMs);
  try {
    await client.connect();
    const answer = await client.query<{ name: string }>(
      "SELECT current_setting('cluster_name') AS name",
    );
    return answer.rows[0]?.name === clusterName;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => {});
  }
}

/** One process's mark on a server: it uses the server. */
export interface ServerUse {
  /**
   * Removes the mark. `true`: no other process uses the server, and none can begin to until it stops or
   * {@link close} is called. `false`: others use it, or it has ended.
   */
  release(): Promise<boolean>;
  /** Ends the connection. Never fails; may be called again. */
  close(): Promise<void>;
}

/**
 * Marks the server at `url` as used until `release` or the end of this process. If another user is stopping
 * the server, waits and then fails, as it does when the server is unreachable. If the connection is lost
 * later (a crash and restart of the server), it reconnects every second.
 */
export async function useServer(url: string): Promise<ServerUse> {
  let closed = false;
  let client = await connect();

  async function connect(): Promise<Client> {
    const next = newClient(url, 10_000);
    try {
      await next.connect();
      await next.query('SELECT pg_advisory_lock_shared($1)', [useLock]);
    } catch (error) {
      await next.end().catch(() => {});
      throw error;
    }
    next.once('end', () => void reconnect());
    return next;
  }

  async function reconnect(): Promise<void> {
    while (!closed) {
      try {
        client = await connect();
        if (closed) await client.end().catch(() => {});
        return;
      } catch {
        await sleep(reconnectMs, undefined, { ref: false });
      }
    }
  }

  async function close(): Promise<void> {
    closed = true;
    await client.end().catch(() => {});
  }

  async function release(): Promise<boolean> {
    closed = true;
    try {
      // First release, then try alone: if two end at once, one of them finds itself the last.
      await client.query('SELECT pg_advisory_unlock_shared($1)', [useLock]);
    } catch {
      // The connection was lost, and the mark with it.
      client = newClient(url, 10_000);
      await client.connect().catch(() => {});
    }
    const answer = await client
      .query<{ alone: boolean }>('SELECT pg_try_advisory_lock($1) AS alone', [useLock])
      .catch(() => null);
    return answer?.rows[0]?.alone === true;
  }

  return { release, close };
}

function newClient(url: string, timeoutMs: number): Client {
  const client = new Client({
    connectionString: url,
    connectionTimeoutMillis: timeoutMs,
    application_name: 'sluice embedded',
    keepAlive: true,
  });
  // Without a listener an error on an idle connection would end the process.
  client.on('error', () => {});
  return client;
}
