import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { pinSession } from './sessions.ts';

/** The advisory lock of the only service. The number is arbitrary. */
const serviceLock = 7_310_428_116;
const label = 'sluice service ';
const reconnectMs = 1_000;
/** For a connection and its login. */
const usualConnectMs = 10_000;

/** The mark of the only service of a database. */
export interface SoleService {
  /** Publishes the address of this service for later starts. */
  publish(address: string): Promise<void>;
  /** Removes the mark. Never fails. */
  close(): Promise<void>;
}

/** Another service has the mark; `address` is null while it starts. */
export interface OtherService {
  readonly address: string | null;
}

/**
 * Marks this process as the only service of the database at `url`. PostgreSQL releases the mark with the
 * connection, so a killed process never holds it. If the server restarts, the mark is made again within a
 * second.
 */
export async function becomeSoleService(
  url: string,
  connectMs = usualConnectMs,
): Promise<SoleService | OtherService> {
  let closed = false;
  let address: string | null = null;
  let client = await connect();
  if (!(await lock(client))) {
    const found = await findOther(client);
    await client.end().catch(() => {});
    return found;
  }
  watch();

  async function connect(): Promise<Client> {
    const next = new Client({
      connectionString: url,
      application_name: label,
      connectionTimeoutMillis: connectMs,
      keepAlive: true,
    });
    next.on('error', () => {});
    await next.connect();
    await pinSession(next);
    return next;
  }

  function watch(): void {
    client.once('end', () => void reconnect());
  }

  async function reconnect(): Promise<void> {
    while (!closed) {
      const next = await connect().catch(() => null);
      if (next !== null && !closed && (await lock(next).catch(() => false))) {
        client = next;
        if (address !== null) await show(address).catch(() => {});
        watch();
        return;
      }
      await next?.end().catch(() => {});
      await sleep(reconnectMs, undefined, { ref: false });
    }
  }

  async function show(at: string): Promise<void> {
    await client.query(`select set_config('application_name', $1, false)`, [label + at]);
  }

  return {
    async publish(at) {
      address = at;
      await show(at);
    },
    async close() {
      closed = true;
      await client.end().catch(() => {});
    },
  };
}

async function lock(client: Client): Promise<boolean> {
  const { rows } = await client.query<{ mine: boolean }>(
    'select pg_try_advisory_lock($1) as mine',
    [serviceLock],
  );
  return rows[0]?.mine === true;
}

async function findOther(client: Client): Promise<OtherService> {
  const { rows } = await client.query<{ name: string }>(
    `select application_name as name from pg_locks join pg_stat_activity using (pid)
      where locktype = 'advisory' and granted and (classid::bigint << 32) + objid::bigint = $1`,
    [serviceLock],
  );
  return { address: rows[0]?.name.slice(label.length) || null };
}
