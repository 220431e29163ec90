import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';

/** The advisory lock of the process that owns the server. The number is arbitrary. */
const ownerLock = 7_310_428_116;
const label = 'sluice service ';
const reconnectMs = 1_000;
const probeTimeoutMs = 5_000;
const usualConnectMs = 10_000;

/** The name is compared because another server may have taken the port. Any failure is `false`. */
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

/** The mark of the process that owns a server. */
export interface Ownership {
  /** Publishes the address of this service for later starts. */
  publish(address: string): Promise<void>;
  /** Stops the server, and removes the mark only then. */
  end(stopServer: () => Promise<void>): Promise<void>;
}

/** Another process has the mark; `address` is null until it publishes one. */
export interface OtherOwner {
  readonly address: string | null;
}

/** PostgreSQL releases the mark with the connection of a killed process. After its restart we make it again. */
export async function becomeOwner(
  url: string,
  connectMs = usualConnectMs,
): Promise<Ownership | OtherOwner> {
  let closed = false;
  let address = '';
  let client = await connect();
  const other = await lock(client);
  if (other !== null) {
    await client.end().catch(() => {});
    return other;
  }
  client.once('end', () => void reconnect());

  async function connect(): Promise<Client> {
    const next = newClient(url, connectMs);
    await next.connect();
    return next;
  }

  async function reconnect(): Promise<void> {
    while (!closed) {
      const next = await connect().catch(() => null);
      if (next !== null && !closed && (await lock(next).catch(() => next)) === null) {
        client = next;
        await show().catch(() => {});
        client.once('end', () => void reconnect());
        return;
      }
      await next?.end().catch(() => {});
      await sleep(reconnectMs, undefined, { ref: false });
    }
  }

  async function show(): Promise<void> {
    await client.query(`select set_config('application_name', $1, false)`, [label + address]);
  }

  return {
    async publish(at) {
      address = at;
      await show();
    },
    async end(stopServer) {
      closed = true;
      await stopServer();
      await client.end().catch(() => {});
    },
  };
}

/** @returns the other owner; null: the mark is ours */
async function lock(client: Client): Promise<OtherOwner | null> {
  const { rows } = await client.query<{ mine: boolean; name: string | null }>(
    `select pg_try_advisory_lock($1) as mine, (
       select application_name from pg_locks join pg_stat_activity using (pid)
        where locktype = 'advisory' and granted and (classid::bigint << 32) + objid::bigint = $1 limit 1) as name`,
    [ownerLock],
  );
  return rows[0]?.mine ? null : { address: rows[0]?.name?.slice(label.length) || null };
}

function newClient(url: string, connectionTimeoutMillis: number): Client {
  const client = new Client({
    ...{ connectionString: url, connectionTimeoutMillis },
    ...{ application_name: label, keepAlive: true },
  });
  // Without a listener an error on an idle connection would end the process.
  client.on('error', () => {});
  return client;
}
