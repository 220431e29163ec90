import type { ClientRequest, IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';

export interface StallLimits {
  /** A request that moves less than `leastBytes` in so long is ended. */
  readonly stallTimeoutMs: number;
  /**
   * More than a trickle: a store that takes or gives a byte a second must not hold a slot for
   * hours. 1 where the store keeps a long answer alive by single bytes.
   */
  readonly leastBytes: number;
  /** The whole request, in milliseconds; null for no limit but the stall. */
  readonly totalMs: number | null;
}

/** The request moved no byte, or too few, for too long. */
export class StalledError extends Error {
  constructor() {
    super('The request stalled');
    this.name = 'StalledError';
  }
}

/** Checks in one stall timeout: how late the end of a stalled request can be is a fraction of it. */
const checksPerTimeout = 4;

/**
 * Watches one request from the moment it has a socket, so that waiting for a free one does not
 * count. Ends it with StalledError. A response whose bytes wait for our own reader is not stalled.
 *
 * @param sentBytes of the request's body, handed to the system so far
 * @param giveUp ends a request that has no response yet
 */
export function watchForStall(
  request: ClientRequest,
  sentBytes: () => number,
  limits: StallLimits,
  giveUp: (error: Error) => void,
): void {
  let response: IncomingMessage | undefined;
  request.once('response', (message) => {
    response = message;
  });
  request.once('socket', (socket: Socket) => {
    const moved = () => sentBytes() + socket.bytesRead;
    let mark = moved();
    let quietChecks = 0;
    let checks = 0;
    const timer = setInterval(() => {
      checks += 1;
      const readerIsSlow = (response?.readableLength ?? 0) > 0;
      if (moved() - mark >= limits.leastBytes || readerIsSlow) {
        mark = moved();
        quietChecks = 0;
      } else {
        quietChecks += 1;
      }
      const elapsedMs = (checks * limits.stallTimeoutMs) / checksPerTimeout;
      const overdue = limits.totalMs !== null && elapsedMs >= limits.totalMs;
      if (quietChecks >= checksPerTimeout || overdue) end(new StalledError());
    }, limits.stallTimeoutMs / checksPerTimeout);
    timer.unref();
    const stop = () => clearInterval(timer);
    const end = (error: Error) => {
      stop();
      // Its reader must see the error if there is a response already.
      if (response) response.destroy(error);
      else giveUp(error);
    };
    request.once('close', stop);
  });
}
