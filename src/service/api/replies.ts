import { SluiceError } from '../../foundation/domain/errors.ts';
import { Throttled } from '../../foundation/domain/problem.ts';
import type { Reply } from './api.ts';
import { malformed } from './errors.ts';

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

/** Looks at the source or the store of an export before it is accepted. If they cannot be asked now, it is accepted with a warning. */
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

export function sendText(reply: Reply, type: string, text: string): never {
  const typed = reply.type(`${type}; charset=utf-8`);
  return typed.serializer((sent) => String(sent)).send(text) as never;
}

export function addWarnings(reply: Reply, warnings: readonly string[]): void {
  if (warnings.length === 0) return;
  // A header holds visible ASCII.
  const shown = warnings.map((text) => text.replace(/[^\x20-\x7e]/g, '?').slice(0, 500));
  const before = reply.getHeader('sluice-warning');
  reply.header('sluice-warning', [before, ...shown].filter((text) => text !== undefined).join(' '));
}
