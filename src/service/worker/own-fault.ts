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

/** The same of a function that a destination calls. */
export function namingOwnFaults<Args extends readonly unknown[], T>(
  work: (...args: Args) => Promise<T>,
): (...args: Args) => Promise<T> {
  return (...args) =>
    work(...args).catch((error: unknown) => {
      throw nameOwnFault(error);
    });
}
