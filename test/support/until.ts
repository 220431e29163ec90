import { setTimeout as sleep } from 'node:timers/promises';

export interface UntilOptions {
  /** Milliseconds before giving up; default 60,000: no test should fail because its machine is slow. */
  timeoutMs?: number;
  /** Milliseconds between two looks; by default a twentieth of the wait so far, from 10 to 100. */
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
  { timeoutMs = 60_000, everyMs, message = 'the condition' }: UntilOptions = {},
): Promise<NonNullable<T>> {
  const startedAt = performance.now();
  let cause: unknown;
  for (;;) {
    try {
      cause = undefined;
      const value = await predicate();
      if (value) return value;
    } catch (error) {
      cause = error;
    }
    const waited = performance.now() - startedAt;
    if (waited >= timeoutMs) break;
    await sleep(everyMs ?? Math.min(100, Math.max(10, waited / 20)));
  }
  const what = typeof message === 'string' ? message : message();
  throw new Error(`Waited ${timeoutMs} ms in vain for: ${what}`, { cause });
}
