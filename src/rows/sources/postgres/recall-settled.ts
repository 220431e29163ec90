import type { DataInterval, Instant, Moment } from '../../../foundation/domain/time.ts';
import type { Settlement } from '../source.ts';
import { type SettledServers, type SettleTimes, settledNow, settleInterval } from './settle.ts';

/**
 * What a wait of a moment ago found for this interval too.
 *
 * @param requestedAt when its rows were asked for
 * @returns null if no wait that began to look later has found it settled
 */
export function recallSettled(
  { source }: SettledServers,
  interval: DataInterval,
  requestedAt: Moment,
): Settlement | null {
  const server = source.memory.settledAt(interval, requestedAt);
  return server === null ? null : { ...settledNow, server };
}

/** How long a proof is looked for ahead of those that need it. */
const aheadMs = 1_000;

/**
 * Proves once more what will soon be too old, as a wait would do that begins now. If something is wrong, or a transaction
 * lasts longer, the next interval finds that out.
 */
export async function renewSettled(
  servers: SettledServers,
  { start }: DataInterval,
  times: SettleTimes,
  databaseMs: number,
): Promise<void> {
  const ahead = { ...times, timeoutMs: aheadMs, isAhead: true };
  const { signal } = new AbortController();
  const prove = (end: Instant) =>
    settleInterval(servers, { start, end }, ahead, signal, databaseMs).catch(() => {});
  await servers.source.memory.renew(prove);
}
