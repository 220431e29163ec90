import type pg from 'pg';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import { queryServer } from './own-statement.ts';
import type { SharedServer } from './shared-server.ts';

export interface HoldLimits {
  /** The time that a session may wait for a table that the snapshot has locked. */
  readonly lockWaitMs: number;
  /** Its server removes no row that is newer. */
  readonly snapshotMs: number;
}

export interface HeldSessions {
  readonly pids: () => readonly number[];
  readonly onExcess: (error: SluiceError) => void;
}

/** Without a reason of ours each abort makes one, with a stack. */
const over = new Error('the snapshot has ended');

/**
 * ALTER TABLE waits for the lock of a reader, and every later statement of the application waits behind it. So the
 * snapshot ends if somebody has waited for too long, however slow its destination is. @returns ends the watch
 */
export function watchHeldLocks(
  server: SharedServer,
  { lockWaitMs, snapshotMs }: HoldLimits,
  { pids, onExcess }: HeldSessions,
): () => void {
  const started = performance.now();
  const stopped = new AbortController();
  const pauseMs = Math.max(50, Math.min(1_000, lockWaitMs / 3));
  const look = async () => {
    const ageMs = performance.now() - started;
    if (ageMs >= snapshotMs) return onExcess(tooOld(ageMs));
    const waitedMs = await server
      .hold(() => server.use(stopped.signal, (client, signal) => readWait(client, pids(), signal)))
      // Readers report what is wrong with the server.
      .catch(() => 0);
    if (stopped.signal.aborted) return;
    if (waitedMs >= lockWaitMs) onExcess(waitedFor(waitedMs));
    else timer = setTimeout(look, pauseMs).unref();
  };
  // A short run never looks.
  let timer = setTimeout(look, pauseMs).unref();
  return () => {
    clearTimeout(timer);
    stopped.abort(over);
  };
}

const seconds = (ms: number) => `${Math.round(ms / 1_000)} seconds`;

const waitedFor = (ms: number) =>
  new SluiceError('source.lock_released', `another session had waited for ${seconds(ms)}`);

const tooOld = (ms: number) =>
  new SluiceError('source.lock_released', `the run had held its snapshot for ${seconds(ms)}`);

/** In milliseconds; 0 if none waits. */
async function readWait(
  client: pg.Client,
  pids: readonly number[],
  signal: AbortSignal,
): Promise<number> {
  if (pids.length === 0) return 0;
  const [row] = await queryServer<{ ms: number | null }>(
    client,
    `SELECT pg_catalog.max(pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - l.waitstart) * 1000) AS ms
       FROM pg_catalog.pg_locks AS l
      WHERE NOT l.granted AND l.locktype = 'relation' AND pg_catalog.pg_blocking_pids(l.pid) && ARRAY[${pids.join(', ')}]`,
    signal,
  );
  return row?.ms ?? 0;
}
