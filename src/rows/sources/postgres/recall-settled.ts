import type { DataInterval, Moment } from '../../../foundation/domain/time.ts';
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
  const { memory } = servers.source;
  const end = memory.agingEnd;
  if (end === null || memory.isRenewed) return;
  memory.isRenewed = true;
  const ahead = { ...times, timeoutMs: aheadMs, isAhead: true };
  try {
    await settleInterval(servers, { start, end }, ahead, new AbortController().signal, databaseMs);
  } catch {
    // As above.
  } finally {
    memory.isRenewed = false;
  }
}
