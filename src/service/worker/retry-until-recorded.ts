import { setTimeout as sleep } from 'node:timers/promises';
import { isDatabaseUnavailable } from '../../state/store/database/unavailable.ts';

const everyMs = 500;

/**
 * Repeats a write while Postgres is unreachable. Its result may be unknown, so a fence or the author's name
 * must make it harmless to repeat.
 *
 * @param signal ends the retries; then, as for every other error, the last error is thrown
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
