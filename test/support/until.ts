import { setTimeout as sleep } from 'node:timers/promises';

export interface UntilOptions {
  /** Default 10 s. */
  readonly timeoutMs?: number;
  /** Default 25 ms. */
  readonly pollMs?: number;
}

/**
 * Asks `probe` until it gives something truthy and returns that. A probe that throws is asked again;
 * its last error is the cause of the failure that says `what` was waited for.
 */
export async function until<T>(
  what: string,
  probe: () => T | Promise<T>,
  options: UntilOptions = {},
): Promise<Exclude<T, false | 0 | '' | null | undefined>> {
  const timeoutMs = options.timeoutMs ?? 10_000;
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    let cause: unknown;
    try {
      const answer = await probe();
      if (answer) return answer as Exclude<T, false | 0 | '' | null | undefined>;
    } catch (error) {
      cause = error;
    }
    if (performance.now() > deadline) {
      throw new Error(`Waited ${timeoutMs} ms in vain until ${what}.`, { cause });
    }
    await sleep(options.pollMs ?? 25);
  }
}
