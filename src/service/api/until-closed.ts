import { SluiceError } from '../../foundation/domain/errors.ts';
import { Throttled } from '../../foundation/domain/problem.ts';
import type { Reply } from './api.ts';
import { malformed } from './api-error.ts';

/** Aborts if the client closes its connection before it has the answer. */
export function untilClosed({ raw }: Reply): AbortSignal {
  const closed = new AbortController();
  raw.once('close', () => {
    if (!raw.writableFinished) closed.abort(malformed('The client closed the connection.'));
  });
  return closed.signal;
}

/** A request waits for the look. */
const patienceMs = 8_000;

/**
 * Looks at the source or the store of an export before it is accepted. If they cannot be asked now, it is accepted
 * with a warning: its runs will say what is wrong.
 *
 * @param unchecked how each warning begins
 * @param explain how the warning about an error ends
 * @returns warnings for the export's owner
 */
export async function lookPatiently(
  reply: Reply,
  unchecked: string,
  look: (signal: AbortSignal) => Promise<readonly string[]>,
  explain: (error: SluiceError) => string,
): Promise<readonly string[]> {
  const closed = untilClosed(reply);
  const tooLong = AbortSignal.timeout(patienceMs);
  try {
    return await look(AbortSignal.any([closed, tooLong]));
  } catch (error) {
    closed.throwIfAborted();
    if (tooLong.aborted) return [`${unchecked}: it took too long.`];
    if (error instanceof Throttled) {
      return [`${unchecked}: there were too many checks and previews.`];
    }
    if (!(error instanceof SluiceError)) throw error;
    return [`${unchecked}: ${explain(error)}`];
  }
}
