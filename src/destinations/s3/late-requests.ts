import type { ClientRequest } from 'node:http';

/** A store that answers later than this has most likely lost the request. */
const patienceMs = 10 * 60_000;

/** Each holds a socket; a store that answers nothing must not collect them without end. */
const maxKept = 64;

/**
 * Requests that were given up and are still listened to: their answers may name what they made. They
 * do not keep the process alive.
 */
class LateRequests {
  #kept = 0;

  /** @returns false if the request cannot be answered any more, or too many are kept */
  keep(request: ClientRequest): boolean {
    const { socket } = request;
    if (!socket || socket.connecting || request.destroyed || this.#kept >= maxKept) return false;
    this.#kept += 1;
    socket.unref();
    const timer = setTimeout(() => request.destroy(), patienceMs);
    timer.unref();
    request.once('close', () => {
      clearTimeout(timer);
      this.#kept -= 1;
    });
    return true;
  }
}

/** One for the process: it bounds the sockets of all destinations. */
export const lateRequests = new LateRequests();
