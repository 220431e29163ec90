import type { ClientRequest, IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';

export interface StallLimits {
  /** A request that moves less than `minBytes` in this time is ended. */
  readonly stallTimeoutMs: number;
  /** More than a trickle: a byte per second must not hold a slot. 1 if single bytes keep a long answer alive. */
  readonly minBytes: number;
  /** Limit of the whole request, in milliseconds; null for no limit but the stall. */
  readonly totalMs: number | null;
  /** The bytes that a request must move per second after its first `stallTimeoutMs`. Null: it may take its time. */
  readonly minBytesPerSecond: number | null;
}

export class StalledError extends Error {
  constructor() {
    super('The request stalled');
    this.name = 'StalledError';
  }
}

/** Checks per stall timeout: a stalled request ends at most a fraction of the timeout late. */
const checksPerTimeout = 4;

/**
 * Watches one request from the moment it has a socket: waiting for a free socket does not count. Ends a
 * stalled or slow request with StalledError. A response that waits for our own reader is not stalled.
 *
 * @param sentBytes of the request's body, handed to the system so far
 */
export function watchForStall(
  request: ClientRequest,
  sentBytes: () => number,
  limits: StallLimits,
): void {
  let response: IncomingMessage | undefined;
  request.once('response', (message) => {
    response = message;
  });
  request.once('socket', (socket: Socket) => {
    const moved = () => sentBytes() + socket.bytesRead;
    const atStart = moved();
    let mark = atStart;
    let quietChecks = 0;
    let checks = 0;
    /** Checks at which the store was what we waited for. */
    let waitingChecks = 0;
    const timer = setInterval(() => {
      checks += 1;
      const readerIsSlow = (response?.readableLength ?? 0) > 0;
      if (!readerIsSlow) waitingChecks += 1;
      if (moved() - mark >= limits.minBytes || readerIsSlow) {
        mark = moved();
        quietChecks = 0;
      } else {
        quietChecks += 1;
      }
      const msOf = (count: number) => (count * limits.stallTimeoutMs) / checksPerTimeout;
      const { totalMs, minBytesPerSecond } = limits;
      const isSlow =
        minBytesPerSecond !== null &&
        msOf(waitingChecks) >
          limits.stallTimeoutMs + ((moved() - atStart) / minBytesPerSecond) * 1_000;
      const overdue = isSlow || (totalMs !== null && msOf(checks) >= totalMs);
      if (quietChecks >= checksPerTimeout || overdue) end(new StalledError());
    }, limits.stallTimeoutMs / checksPerTimeout);
    timer.unref();
    const stop = () => clearInterval(timer);
    const end = (error: Error) => {
      stop();
      // If there is a response, its reader must see the error.
      (response ?? request).destroy(error);
    };
    request.once('close', stop);
  });
}
