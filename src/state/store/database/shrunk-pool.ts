import { setTimeout as sleep } from 'node:timers/promises';
import type { Pool, PoolClient } from 'pg';

/** `too_many_connections`: of the server, the database or the role. */
const tooMany = '53300';
/** For work that waits until others give back a connection. Afterwards it fails as before. */
const patienceMs = 30_000;
const retryMs = 300;
const smallMs = 30_000;
/** A small pool gives idle connections back soon: other processes wait for one. */
const idleMs = 500;

type Callback = (error: Error | undefined, client?: PoolClient, release?: unknown) => void;

/** Makes all pools of this process small: they are of one server, and one of them was refused. */
const shrinkEach = new Set<() => void>();

function shrinkAll(): void {
  for (const shrink of shrinkEach) shrink();
}

/** Says whether the server, the database or the role has as many connections as it may. */
export function isFull(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === tooMany;
}

/** A pool that becomes small when the server refuses a connection. */
interface ShrinkingPool {
  readonly isSmall: boolean;
  shrink(): void;
}

/** The pool uses the connections that it has, and asks for more later. @param fewest asked for even while it is small */
export function shrinkWhenRefused(pool: Pool, fewest = 1): ShrinkingPool {
  const { options } = pool;
  const usual = {
    max: options.max,
    idleTimeoutMillis: options.idleTimeoutMillis,
    connectionTimeoutMillis: options.connectionTimeoutMillis,
  };
  let growing: NodeJS.Timeout | null = null;
  const shrink = () => {
    if (pool.ending) {
      shrinkEach.delete(shrink);
      return;
    }
    options.max = Math.min(usual.max, Math.max(fewest, pool.totalCount));
    options.connectionTimeoutMillis = patienceMs;
    options.idleTimeoutMillis = idleMs;
    if (growing !== null) clearTimeout(growing);
    growing = setTimeout(() => {
      growing = null;
      Object.assign(options, usual);
    }, smallMs).unref();
  };
  shrinkEach.add(shrink);
  const connectOnce = pool.connect.bind(pool) as () => Promise<PoolClient>;
  const connect = async (): Promise<PoolClient> => {
    const begun = performance.now();
    for (;;) {
      try {
        return await connectOnce();
      } catch (error) {
        if (!isFull(error) || pool.ending || performance.now() - begun > patienceMs) throw error;
        shrinkAll();
      }
      // Others ask at the same moment.
      await sleep(retryMs * (0.5 + Math.random()));
    }
  };
  // `pool.query` asks with a callback.
  Object.assign(pool, {
    connect(callback?: Callback) {
      const connecting = connect();
      if (callback === undefined) return connecting;
      connecting.then(
        (client) => callback(undefined, client, (error?: Error) => client.release(error)),
        (error: Error) => callback(error),
      );
      return undefined;
    },
  });
  return {
    get isSmall() {
      return growing !== null;
    },
    shrink: shrinkAll,
  };
}
