import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Api } from '../api.ts';
import { ApiError } from '../api-error.ts';

export interface UnsentLimits {
  /** Bytes of large answers that clients have not taken yet: of one organization, and of all. */
  readonly perOrganization: number;
  readonly inAll: number;
  /** Maximum time in which a client takes an answer. Then it is disconnected. */
  readonly takeMs: number;
}

const mebibyte = 2 ** 20;
const defaults: UnsentLimits = {
  perOrganization: 24 * mebibyte,
  inAll: 96 * mebibyte,
  takeMs: 60_000,
};

/** A smaller answer fits into the buffers of a connection. */
const largeBytes = 64 * 1024;

/**
 * Bounds the memory of answers that clients do not read. An answer waits in this process until its client
 * takes it, and a client may ask again and again and take none. Only reading is refused: what a request
 * has changed is always answered.
 */
export function boundUnsentAnswers(api: Api, limits: UnsentLimits = defaults): void {
  const held = new Map<string, number>();
  let all = 0;
  const count = (organizationId: string, bytes: number) => {
    all += bytes;
    const own = (held.get(organizationId) ?? 0) + bytes;
    if (own === 0) held.delete(organizationId);
    else held.set(organizationId, own);
  };
  api.addHook('onSend', async (request, reply, payload) => {
    const isKnown = typeof payload === 'string' || Buffer.isBuffer(payload);
    const bytes = isKnown ? Buffer.byteLength(payload) : 0;
    const { caller, method, raw } = request;
    if (bytes < largeBytes || !caller) return payload;
    const { organizationId } = caller;
    const own = held.get(organizationId) ?? 0;
    const isTooMuch = own + bytes > limits.perOrganization || all + bytes > limits.inAll;
    // One answer alone is always sent.
    if (isTooMuch && own > 0 && method === 'GET') throw tooMuch();
    count(organizationId, bytes);
    const late = setTimeout(() => raw.socket.destroy(), limits.takeMs).unref();
    onEnd(raw.socket, reply.raw, () => {
      clearTimeout(late);
      count(organizationId, -bytes);
    });
    return payload;
  });
}

/** Per connection: what to do when it closes. */
const endings = new WeakMap<Socket, Set<() => void>>();

/** Calls `done` once: when the answer is taken, or its connection closes before. */
function onEnd(socket: Socket, answer: ServerResponse, done: () => void): void {
  const known = endings.get(socket);
  const open = known ?? new Set();
  if (!known) {
    endings.set(socket, open);
    // An answer behind another one on its connection has no event of its own.
    socket.once('close', () => {
      for (const end of [...open]) end();
    });
  }
  const end = () => {
    if (open.delete(end)) done();
  };
  open.add(end);
  answer.once('close', end);
}

const tooMuch = () => {
  const detail = 'Too many answers are not read yet. Read them, or ask for smaller pages.';
  return new ApiError(429, { code: 'throttled', detail, attr: null }, { 'retry-after': '5' });
};
