import { setTimeout as sleep } from 'node:timers/promises';

/** A trial computes for this time, then leaves the process to others for three times as long. */
const turnMs = 5;
const restShare = 3;

/**
 * The results of `work` for each item, in their order. After each 5 ms the process gets a rest, in which it
 * answers others. An abort ends it in a rest.
 */
export async function workInTurns<Item, Result>(
  items: readonly Item[],
  signal: AbortSignal,
  work: (item: Item) => Result | Promise<Result>,
): Promise<readonly Result[]> {
  const results: Result[] = [];
  let startedAt = performance.now();
  for (const item of items) {
    results.push(await work(item));
    const spentMs = performance.now() - startedAt;
    if (spentMs < turnMs) continue;
    await sleep(spentMs * restShare, undefined, { signal });
    startedAt = performance.now();
  }
  return results;
}
