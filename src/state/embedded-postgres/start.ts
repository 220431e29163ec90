import { writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { type Binaries, copyFolders, findBinaries, locatePackage } from './binaries.ts';
import {
  type ClusterSecrets,
  databaseName,
  databaseUser,
  ensureDataDirectory,
  type Layout,
  layoutOf,
  readSecrets,
  sourceRoleOf,
} from './data-directory.ts';
import { chooseIdentity, type ServerIdentity } from './identity.ts';
import { discardPidFile, isProcessAlive, isServerOf, readPidFile } from './pid-file.ts';
import { type ServerSettings, spawnServer, stopServer } from './server-process.ts';

const attempts = 8;
const pollMs = 40;
/** The maximum wait for a server; one that recovers after a crash answers late. */
const startTimeoutMs = 300_000;
const silentMs = 3_000;

export interface EmbeddedPostgresOptions {
  /** The service's data directory; the server uses its subfolder `postgres`. */
  readonly dataDir: string;
  readonly log?: (message: string) => void;
  /** Override our defaults. They have no effect on a server that still runs. */
  readonly settings?: ServerSettings;
}

export interface EmbeddedPostgres {
  /** `postgres://user:password@127.0.0.1:port/sluice` of a superuser. Secret. */
  readonly url: string;
  readonly port: number;
  /** A role for exports, which the caller creates. Its password stays the same. */
  readonly sourceRole: { readonly name: string; readonly password: string };
  readonly sourceUrl: string;
  /** Publishes the address of this service, for the error of a second start. */
  publish(address: string): Promise<void>;
  /** Stops the server. May be called again. Fails if the server does not stop. */
  stop(): Promise<void>;
}

interface Server {
  readonly layout: Layout;
  readonly binaries: Binaries;
  readonly identity: ServerIdentity;
  readonly secrets: ClusterSecrets;
  readonly settings: ServerSettings;
}

/** Or takes over the one that a killed process left. Fails if another process owns it, or the data or the machine is not fit for it. */
export async function startEmbeddedPostgres(
  options: EmbeddedPostgresOptions,
): Promise<EmbeddedPostgres> {
  const log = options.log ?? (() => {});
  const settings = options.settings ?? {};
  const layout = layoutOf(options.dataDir);
  const identity = await chooseIdentity(layout.data);
  const binaries = await findBinaries(
    identity,
    locatePackage(),
    copyFolders(identity, layout.folder),
  );
  const isDurable = settings.fsync !== 'off';
  const secrets = await ensureDataDirectory(layout, binaries, identity, isDurable);
  const server = { layout, binaries, identity, secrets, settings };
  let failure = '';
  for (let attempt = 1; attempt <= attempts; attempt++) {
    const running = await findRunning(layout, secrets, log);
    const started = running === null ? await launch(server) : { port: running, failure: '' };
    const owner = started.port === null ? null : await own(options.dataDir, secrets, started.port);
    if (started.port !== null && owner !== null) {
      log(`PostgreSQL ${running === null ? 'started' : 'still runs'} on port ${started.port}.`);
      return handle(server, started.port, owner);
    }
    failure = started.failure || 'Another process stopped the server at once.';
    await sleep(Math.min(100 * attempt, 1_000));
  }
  throw new Error(`The embedded PostgreSQL does not start (log: ${layout.log}):\n${failure}`);
}

/** Null if none answers: the command line never starts one. Fails if the data belongs to another user. */
export async function findEmbeddedPostgres(dataDir: string): Promise<string | null> {
  const layout = layoutOf(dataDir);
  const secrets = await readSecrets(layout);
  const port = secrets === null ? null : ((await readPidFile(layout.data))?.port ?? null);
  if (secrets === null || port === null) return null;
  const answers = await serverAnswers(urlOf(secrets, port, 'postgres'), secrets.clusterName);
  return answers ? urlOf(secrets, port, databaseName) : null;
}

/** The same for the role that exports read with. */
export async function findEmbeddedSource(dataDir: string): Promise<string | null> {
  const secrets = await readSecrets(layoutOf(dataDir));
  const url = await findEmbeddedPostgres(dataDir);
  return secrets === null || url === null ? null : sourceAddressOf(secrets, url);
}

function sourceAddressOf(secrets: ClusterSecrets, url: string): string {
  const { name, password } = sourceRoleOf(secrets);
  return url.replace(`${databaseUser}:${secrets.password}`, `${name}:${password}`);
}

/** The port of a server that already runs here; waits while it is starting or stopping. */
async function findRunning(
  layout: Layout,
  secrets: ClusterSecrets,
  log: (message: string) => void,
): Promise<number | null> {
  const startedAt = performance.now();
  let isLogged = false;
  while (performance.now() - startedAt < startTimeoutMs) {
    const file = await readPidFile(layout.data);
    if (file === null) return null;
    if (file.port !== null) {
      const url = urlOf(secrets, file.port, 'postgres');
      if (await serverAnswers(url, secrets.clusterName)) return file.port;
    }
    if (!(await isServerOf(file.pid, layout.data))) {
      // PostgreSQL itself removes the file of a dead process, and looks for its orphans first.
      if (isProcessAlive(file.pid)) await discardPidFile(layout.data, file);
      return null;
    }
    if (!isLogged && performance.now() - startedAt > silentMs) {
      log(`Waiting for PostgreSQL, which is starting or stopping (process ${file.pid}).`);
      isLogged = true;
    }
    await sleep(pollMs);
  }
  throw new Error(
    `A PostgreSQL server runs in ${layout.data} but does not answer. Its log is ${layout.log}.`,
  );
}

/** @returns null if the server is stopping: then it must be started again. Fails if another process owns it */
async function own(
  folder: string,
  secrets: ClusterSecrets,
  port: number,
): Promise<Ownership | null> {
  const url = urlOf(secrets, port, 'postgres');
  const owner = await becomeOwner(url).catch(() => null);
  if (owner !== null && 'address' in owner) {
    const subject =
      owner.address === null
        ? 'another process of Sluice uses it'
        : `already running at ${owner.address}`;
    throw new Error(
      `${subject} (on ${folder}). Use that one, stop it first, or set another SLUICE_DATA_DIR. Several processes need a DATABASE_URL.`,
    );
  }
  // A server that is stopping can still grant the lock, but it accepts no new connection.
  if (owner === null || (await serverAnswers(url, secrets.clusterName))) return owner;
  await owner.end(async () => {});
  return null;
}

async function launch(server: Server): Promise<{ port: number | null; failure: string }> {
  const { layout, secrets, binaries, identity, settings } = server;
  const child = await spawnServer(layout, binaries, identity, secrets, settings);
  const url = urlOf(secrets, child.port, 'postgres');
  const deadline = performance.now() + startTimeoutMs;
  while (!child.hasExited()) {
    if (await serverAnswers(url, secrets.clusterName)) {
      await writeFile(layout.portFile, String(child.port));
      return { port: child.port, failure: '' };
    }
    if (performance.now() > deadline) return { port: null, failure: await child.readLog() };
    await sleep(pollMs);
  }
  return { port: null, failure: await child.readLog() };
}

function handle(server: Server, port: number, owner: Ownership): EmbeddedPostgres {
  let stopping: Promise<void> | null = null;
  const url = urlOf(server.secrets, port, databaseName);
  const sourceRole = sourceRoleOf(server.secrets);
  return {
    url,
    port,
    sourceRole,
    sourceUrl: sourceAddressOf(server.secrets, url),
    publish: (address) => owner.publish(address),
    stop: () => {
      stopping ??= owner.end(() => stopServer(server.layout));
      return stopping;
    },
  };
}

function urlOf(secrets: ClusterSecrets, port: number, database: string): string {
  return `postgres://${databaseUser}:${secrets.password}@127.0.0.1:${port}/${database}`;
}

/** The advisory lock of the process that owns the server. The number is arbitrary. */
const ownerLock = 7_310_428_116;
const label = 'sluice service ';
const reconnectMs = 1_000;
const probeTimeoutMs = 5_000;
const usualConnectMs = 10_000;

/** The name is compared because another server may have taken the port. Any failure is `false`. */
async function serverAnswers(url: string, clusterName: string): Promise<boolean> {
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
interface Ownership {
  /** Publishes the address of this service for later starts. */
  publish(address: string): Promise<void>;
  /** Stops the server, and removes the mark only then. */
  end(stopServer: () => Promise<void>): Promise<void>;
}

/** Another process has the mark; `address` is null until it publishes one. */
interface OtherOwner {
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
