import { spawn } from 'node:child_process';
import { open, readFile, rename, stat } from 'node:fs/promises';
import { createServer } from 'node:net';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Binaries } from './binaries.ts';
import type { ClusterSecrets, Layout } from './data-directory.ts';
import { dataDirectoryArgument, type ServerIdentity, spawnOptionsFor } from './identity.ts';
import { isServerOf, readPidFile } from './pid-file.ts';

/** PostgreSQL settings by name, as in postgresql.conf. */
export type ServerSettings = Readonly<Record<string, string>>;

/** For a laptop: little memory, data that survives a power cut, no replication. */
const defaultSettings: ServerSettings = {
  timezone: 'UTC',
  log_timezone: 'UTC',
  max_connections: '200',
  shared_buffers: '256MB',
  maintenance_work_mem: '128MB',
  max_wal_size: '2GB',
  wal_level: 'minimal',
  max_wal_senders: '0',
  jit: 'off',
  log_checkpoints: 'off',
};

const maxLogBytes = 10 * 1024 * 1024;
const pollMs = 20;
const stopSteps = [
  ['SIGINT', 60_000],
  ['SIGQUIT', 10_000],
] as const;

/** A server process that survives us unless it is stopped. */
export interface ServerProcess {
  readonly port: number;
  hasExited(): boolean;
  readLog(): Promise<string>;
}

/** In its own session, which a terminal's Ctrl-C does not reach. It may exit at once: the port was taken, or another start was faster. */
export async function spawnServer(
  layout: Layout,
  binaries: Binaries,
  identity: ServerIdentity,
  secrets: ClusterSecrets,
  settings: ServerSettings,
): Promise<ServerProcess> {
  const last = Number.parseInt(await readFile(layout.portFile, 'utf8').catch(() => ''), 10);
  const port = (last > 0 && last < 65_536 && (await tryPort(last))) || (await findFreePort());
  const oldLog = await stat(layout.log).catch(() => null);
  if (oldLog !== null && oldLog.size > maxLogBytes) await rename(layout.log, `${layout.log}.1`);
  const log = await open(layout.log, 'a', 0o600);
  const logStart = (await log.stat()).size;
  const inForce = {
    ...defaultSettings,
    ...settings,
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    port: String(port),
    cluster_name: secrets.clusterName,
  };
  const child = spawn(
    path.join(binaries.bin, 'postgres'),
    [
      ...['-D', dataDirectoryArgument(identity, layout.data)],
      ...Object.entries(inForce).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
    ],
    {
      ...spawnOptionsFor(identity, layout.data),
      detached: true,
      stdio: ['ignore', log.fd, log.fd],
    },
  );
  let exited = false;
  const end = () => {
    exited = true;
  };
  child.once('error', end).once('exit', end).unref();
  await log.close();
  return {
    port,
    hasExited: () => exited,
    readLog: async () => (await readFile(layout.log)).subarray(logStart).toString('utf8').trim(),
  };
}

/** `fast` for a minute, then `immediate`. pg_ctl knows the server only by its file, and could stop the next one. */
export async function stopServer(layout: Layout): Promise<void> {
  const pid = (await readPidFile(layout.data))?.pid ?? 0;
  for (const [signal, waitMs] of stopSteps) {
    if (!(await isServerOf(pid, layout.data))) return;
    process.kill(pid, signal);
    const deadline = performance.now() + waitMs;
    while (performance.now() < deadline) {
      if (!(await isServerOf(pid, layout.data))) return;
      await sleep(pollMs);
    }
  }
  throw new Error(`The embedded PostgreSQL does not stop. Its log is ${layout.log}.`);
}

async function findFreePort(): Promise<number> {
  for (;;) {
    const port = await tryPort(0);
    if (port !== null) return port;
    await sleep(100);
  }
}

/** The port if it is free (for 0 any free one), else null. It may be taken again at once. */
export function tryPort(port: number): Promise<number | null> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(null));
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => {
      const address = server.address();
      const freePort = typeof address === 'object' && address !== null ? address.port : null;
      server.close(() => resolve(freePort));
    });
  });
}
