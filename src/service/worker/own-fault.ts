import { setTimeout as sleep } from 'node:timers/promises';
import { SluiceError } from '../../foundation/domain/errors.ts';
import { isDatabaseUnavailable } from '../../state/store/database/unavailable.ts';

/**
 * Names what our own database throws while it is unavailable. Sources and destinations throw SluiceErrors, so a bare error of a
 * database is of our own. Destinations call the worker, and their errors pass through: they must not take such an error for one
 * of the store, whose exports would wait for it then.
 */
export function nameOwnFault(error: unknown): unknown {
  return isDatabaseUnavailable(error)
    ? new SluiceError('internal.database_unavailable', undefined, error)
    : error;
}

type AsyncFunctions<T> = { readonly [Name in keyof T]: (...args: never[]) => Promise<unknown> };

/** Gives functions that a destination calls. What they throw is named in this way. */
export function namingOwnFaults<T extends AsyncFunctions<T>>(calls: T): T {
  const named = Object.entries<(...args: never[]) => Promise<unknown>>(calls).map(
    ([name, call]) => [
      name,
      (...args: never[]) =>
        call(...args).catch((error: unknown) => {
          throw nameOwnFault(error);
        }),
    ],
  );
  return Object.fromEntries(named) as T;
}

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
