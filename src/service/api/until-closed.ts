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
