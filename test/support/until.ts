import { setTimeout as sleep } from 'node:timers/promises';

export interface UntilOptions {
  /** Milliseconds before giving up; default 60,000: no test should fail because its machine is slow. */
  timeoutMs?: number;
  /** Milliseconds between two looks; default 25. */
  everyMs?: number;
  /** What was waited for; a function is asked at the end, so it can tell the last state. */
  message?: string | (() => string);
}

/**
 * Looks until `predicate` gives something truthy, and gives that. Throws when the time is up; a
 * predicate that throws counts as "not yet", and its last error becomes the cause.
 */
export async function until<T>(
  predicate: () => T | Promise<T>,
  { timeoutMs = 60_000, everyMs = 25, message = 'the condition' }: UntilOptions = {},
): Promise<NonNullable<T>> {
  const deadline = performance.now() + timeoutMs;
  let cause: unknown;
  for (;;) {
    try {
      cause = undefined;
      const value = await predicate();
      if (value) return value;
    } catch (error) {
      cause = error;
    }
    if (performance.now() >= deadline) break;
    await sleep(everyMs);
  }
  const what = typeof message === 'string' ? message : message();
  throw new Error(`Waited ${timeoutMs} ms in vain for: ${what}`, { cause });
}
