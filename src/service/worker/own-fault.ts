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
 * @param patience a signal, or milliseconds: then, as for every other error, the last error is thrown
 */
export async function retryUntilRecorded<T>(
  write: () => Promise<T>,
  patience: AbortSignal | number,
): Promise<T> {
  const signal = typeof patience === 'number' ? AbortSignal.timeout(patience) : patience;
  for (;;) {
    try {
      return await write();
    } catch (error) {
      if (signal.aborted || !isDatabaseUnavailable(error)) throw error;
    }
    await sleep(everyMs, undefined, { ref: false });
  }
}
