import { setTimeout as sleep } from 'node:timers/promises';
import { isDatabaseUnavailable } from '../store/unavailable.ts';

const everyMs = 500;

/**
 * Repeats a write while Postgres is unreachable. Its outcome may be unknown: the write must be one that a
 * fence, or the name of its author, makes harmless to repeat.
 *
 * @param signal ends the repeating; the last error is thrown then, as is every other kind of error
 */
export async function retryUntilRecorded<T>(
  write: () => Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  for (;;) {
    try {
      return await write();
    } catch (error) {
      if (signal.aborted || !isDatabaseUnavailable(error)) throw error;
    }
    await sleep(everyMs, undefined, { ref: false });
  }
}
