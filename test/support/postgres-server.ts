import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { startEmbeddedPostgres } from '../../src/state/embedded-postgres/start.ts';
import { until } from './until.ts';

/** A PostgreSQL that a test may stop and start. */
export interface OwnPostgres {
  readonly url: string;
  readonly port: number;
  /** Of the service; the server's files are in its subfolder `postgres`. */
  readonly dataDir: string;
  /**
   * Stops it, as `pg_ctl stop -m` does, and starts it again at the same port: `fast` ends the
   * sessions, `immediate` is a crash with a recovery.
   */
  restart(mode: 'fast' | 'immediate'): Promise<void>;
  stop(): Promise<void>;
}

/** @param more settings beside ours */
export async function startOwnPostgres(
  more: Readonly<Record<string, string>> = {},
): Promise<OwnPostgres> {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'sluice-own-postgres-'));
  const settings = { max_prepared_transactions: '5', shared_buffers: '32MB', ...more };
  const start = () => startEmbeddedPostgres({ dataDir, settings });
  let server = await start();
  const { url, port } = server;
  const readPid = async () => {
    const file = path.join(dataDir, 'postgres', 'data', 'postmaster.pid');
    return Number((await readFile(file, 'utf8')).split('\n')[0]);
  };
  return {
    url,
    port,
    dataDir,
    async restart(mode) {
      const pid = await readPid();
      process.kill(pid, mode === 'fast' ? 'SIGINT' : 'SIGQUIT');
      await until(() => !isAlive(pid), { timeoutMs: 30_000, message: 'the server has stopped' });
      server = await start();
      if (server.port !== port) throw new Error(`it came back at port ${server.port}`);
    },
    async stop() {
      await server.stop();
      await rm(dataDir, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 });
    },
  };
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
