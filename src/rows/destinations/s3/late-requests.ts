import type { ClientRequest } from 'node:http';

/** A store that has not answered by then has most likely lost the request. */
const patienceMs = 10 * 60_000;

/** Each holds a socket. The limit keeps a silent store from collecting them without end. */
const maxKept = 64;

/**
 * Requests that were given up but may still be answered: an answer may name an upload. They do not keep
 * the process alive.
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

/** One per process: it limits the sockets of all destinations. */
export const lateRequests = new LateRequests();
