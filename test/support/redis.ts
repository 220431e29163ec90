import { mkdtemp, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { inject } from 'vitest';
import { findFreePort } from './free-port.ts';
import { startProcess, type TestProcess } from './processes.ts';
import { until } from './until.ts';

/** A real Redis for one test file. */
export interface RedisServer {
  readonly url: string;
  /** Stops it in order; a server at REDIS_URL goes on. */
  stop(): Promise<void>;
}

/** A Redis that a test may kill. What was not persisted is lost with the process. */
export interface OwnRedisServer extends RedisServer {
  readonly port: number;
  /** Ends it at once, as a power cut does. */
  kill(): Promise<void>;
  /** Starts it again on the same port, over the same folder. */
  restart(): Promise<void>;
}

/** Whether the lanes that need Redis can run: `describe.skipIf(!redisAvailable())`. */
export function redisAvailable(): boolean {
  const { url, program, docker } = inject('redis');
  return url !== null || program !== null || docker;
}

/** Whether a test can have a Redis of its own to kill and restart: only if `redis-server` is on the PATH. */
export const ownRedisAvailable = (): boolean => inject('redis').program !== null;

/**
 * A Redis to use: the one at REDIS_URL (shared: choose a prefix of your own), else a `redis-server`
 * from the PATH, else a container. Empty but for the first.
 */
export async function startRedis(): Promise<RedisServer> {
  const { url, program } = inject('redis');
  if (url !== null) return { url, stop: async () => {} };
  if (program !== null) return startOwnRedis();
  const { GenericContainer } = await import('testcontainers');
  const container = await new GenericContainer('redis:8-alpine')
    .withCommand(['redis-server', ...quiet])
    .withExposedPorts(6379)
    .start();
  return {
    url: `redis://${container.getHost()}:${container.getMappedPort(6379)}`,
    stop: async () => void (await container.stop()),
  };
}

/** BullMQ wants noeviction; nothing is kept; expiry and blocked clients are looked at 100 times per second. */
const quiet = [
  '--save',
  '',
  '--appendonly',
  'no',
  '--maxmemory-policy',
  'noeviction',
  '--hz',
  '100',
];

/** A `redis-server` of this test's own; `options` come last and win (`['--appendonly', 'yes']`). */
export async function startOwnRedis(options: readonly string[] = []): Promise<OwnRedisServer> {
  const { program } = inject('redis');
  if (program === null) throw new Error('There is no redis-server on the PATH.');
  const folder = await mkdtemp(path.join(tmpdir(), 'sluice-redis-'));
  const port = await findFreePort();
  const args = [
    '--port',
    String(port),
    '--bind',
    '127.0.0.1',
    '--dir',
    folder,
    ...quiet,
    ...options,
  ];
  const start = async (): Promise<TestProcess> => {
    const child = startProcess(program, args);
    const ready = () => {
      if (child.hasExited()) throw new Error(`redis-server ended:\n${child.output()}`);
      return answersPing(port);
    };
    await until(ready, { message: `Redis answers on port ${port}` });
    return child;
  };
  let child = await start();
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    child.kill(signal);
    await child.waitForExit();
  };
  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    kill: () => end('SIGKILL'),
    restart: async () => {
      if (!child.hasExited()) await end('SIGTERM');
      child = await start();
    },
    stop: async () => {
      if (!child.hasExited()) await end('SIGTERM');
      await rm(folder, { recursive: true, force: true });
    },
  };
}

function answersPing(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' }, () => socket.write('PING\r\n'));
    const settle = (answer: boolean) => {
      socket.destroy();
      resolve(answer);
    };
    socket.setTimeout(1_000, () => settle(false));
    socket.once('data', (data) => settle(data.toString().startsWith('+PONG')));
    socket.once('error', () => settle(false));
  });
}
