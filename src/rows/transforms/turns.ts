import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import type { Pause } from './chain.ts';

/** The time that a chain may keep the event loop from others, apart from one step of a large row. */
const turnMs = 10;

export function takeTurns(signal: AbortSignal | null): Pause {
  let endsAt = performance.now() + turnMs;
  const next = async () => {
    await setImmediate();
    signal?.throwIfAborted();
    endsAt = performance.now() + turnMs;
  };
  return () => (performance.now() < endsAt ? null : next());
}

/** Work for a request takes this time, then leaves the process to others for three times as long. */
const requestTurnMs = 5;
const restShare = 3;

/** In the process that answers all requests. @param signal gives the work up, with its reason */
export function takeRests(signal: AbortSignal): Pause {
  let startedAt = performance.now();
  const rest = async (spentMs: number) => {
    await sleep(spentMs * restShare);
    signal.throwIfAborted();
    startedAt = performance.now();
  };
  return () => {
    const spentMs = performance.now() - startedAt;
    return spentMs < requestTurnMs ? null : rest(spentMs);
  };
}
