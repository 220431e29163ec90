import { setImmediate } from 'node:timers/promises';
import type { Pause } from './chain.ts';

/** How long a chain may keep the event loop from others, apart from one step of a large row. */
const turnMs = 10;

/** The turns of one piece of work. @param signal gives the work up, with its reason */
export function takeTurns(signal: AbortSignal | null): Pause {
  let endsAt = performance.now() + turnMs;
  const next = async () => {
    await setImmediate();
    signal?.throwIfAborted();
    endsAt = performance.now() + turnMs;
  };
  return () => (performance.now() < endsAt ? null : next());
}
