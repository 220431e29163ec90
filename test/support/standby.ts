import { execFile } from 'node:child_process';
import { appendFile, chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { Client } from 'pg';
import { dataIn, type OwnPostgres, startIn, startOwnPostgres } from './postgres-server.ts';
import { choosePrograms } from './stock-postgres.ts';
import { until } from './until.ts';

/** A primary and a standby that streams from it. */
export interface Replication {
  readonly primary: OwnPostgres;
  readonly standbyUrl: string;
  /** Pauses the replay of the standby until `resumeReplay`; it continues to receive. */
  pauseReplay(): Promise<void>;
  resumeReplay(): Promise<void>;
  /** The standby gets nothing more that the primary writes. */
  detach(): Promise<void>;
  /** Makes the standby a primary, with all that it has got, on a new timeline. */
  promote(): Promise<void>;
  /** Waits until the standby shows all that the primary has written. */
  untilReplayed(): Promise<void>;
  stop(): Promise<void>;
}

const run = promisify(execFile);

/**
 * The embedded binaries have no pg_basebackup: the data directory is copied during a base backup.
 *
 * @param more settings of both servers, beside ours
 */
export async function startReplication(
  more: Readonly<Record<string, string>> = {},
): Promise<Replication> {
  const replicating = { wal_level: 'replica', max_wal_senders: '4', fsync: 'off', ...more };
  const primary = await startOwnPostgres(replicating);
  const home = await mkdtemp(path.join(tmpdir(), 'sluice-own-standby-'));
  await chmod(home, 0o755);
  const folder = path.join(home, 'postgres');
  const data = dataIn(folder);
  const client = await connect(primary.adminUrl);
  const hba = path.join(primary.data, 'pg_hba.conf');
  await appendFile(hba, '\nhost replication all 127.0.0.1/32 scram-sha-256\n');
  await client.query('select pg_reload_conf()');
  await client.query(`select pg_backup_start('standby', true)`);
  // The replay repairs files that change or disappear while they are copied.
  await run('cp', ['-a', path.dirname(primary.data), home]).catch(() => {});
  const { rows } = await client.query<{ labelfile: string }>(
    'select labelfile from pg_backup_stop(false)',
  );
  await client.end();
  await rm(path.join(data, 'postmaster.pid'), { force: true });
  await rm(path.join(data, 'postmaster.opts'), { force: true });
  await writeFile(path.join(data, 'backup_label'), rows[0]?.labelfile ?? '');
  await writeFile(path.join(data, 'standby.signal'), '');
  await run('chown', ['--reference', data, '-R', data]);
  const { hostname, port, username, password } = new URL(primary.adminUrl);
  const standby = await startIn(choosePrograms(), folder, {
    max_prepared_transactions: '5',
    ...replicating,
    shared_buffers: '32MB',
    hot_standby: 'on',
    primary_conninfo: `host=${hostname} port=${port} user=${username} password=${password}`,
    wal_retrieve_retry_interval: '100ms',
  });
  const standbyUrl = new URL(primary.adminUrl);
  standbyUrl.port = String(standby.port);
  const ask = async (sql: string, url = standbyUrl.href) => {
    const session = await connect(url);
    try {
      const result = await session.query<{ value: unknown }>(sql);
      return result.rows[0]?.value;
    } finally {
      await session.end();
    }
  };
  return {
    primary,
    standbyUrl: standbyUrl.href,
    async pauseReplay() {
      await ask('select pg_wal_replay_pause()');
      await until(
        async () => (await ask('select pg_get_wal_replay_pause_state() as value')) === 'paused',
      );
    },
    async resumeReplay() {
      await ask('select pg_wal_replay_resume()');
    },
    async detach() {
      const rules = await readFile(hba, 'utf8');
      await writeFile(hba, `host replication all all reject\n${rules}`);
      const loadedAt = () => ask('select pg_conf_load_time()::text as value', primary.adminUrl);
      const before = await loadedAt();
      await ask('select pg_reload_conf()', primary.adminUrl);
      await until(async () => (await loadedAt()) !== before);
      const cut = 'select count(pg_terminate_backend(pid))::int as value from pg_stat_replication';
      await until(async () => (await ask(cut, primary.adminUrl)) === 0);
    },
    async promote() {
      await ask('select pg_promote(true)');
    },
    async untilReplayed() {
      const position = await ask('select pg_current_wal_lsn()::text as value', primary.adminUrl);
      await until(
        async () => ask(`select pg_last_wal_replay_lsn() >= '${position}'::pg_lsn as value`),
        { message: 'the standby has replayed' },
      );
    },
    async stop() {
      await standby.stop();
      await rm(home, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 });
      await primary.stop();
    },
  };
}

async function connect(url: string): Promise<Client> {
  const client = new Client({ connectionString: url });
  client.on('error', () => {});
  await client.connect();
  return client;
}
