import type { Api, Request } from '../api.ts';
import { Throttled } from '../../../foundation/domain/problem.ts';
import { networkOf } from '../network-of.ts';

/** Bytes that clients make this process keep: bodies that are not complete, and answers that are not taken. */
export interface HeldLimits {
  /** The limit of one organization; without a key, of one address. */
  readonly perOwner: number;
  readonly inAll: number;
}

const mebibyte = 2 ** 20;
const usual: HeldLimits = { perOwner: 24 * mebibyte, inAll: 96 * mebibyte };

/** The largest body, and so what is kept for one that does not announce its length. */
const maxBody = mebibyte;

/**
 * Bounds the memory of requests that do not end and of answers that their clients do not read. What a request has
 * changed is always answered: if an organization holds too much already, its requests are refused before they change
 * anything.
 */
export function boundHeldBytes(api: Api, limits: HeldLimits = usual): void {
  const held = new Map<string, number>();
  const releases = new WeakMap<Request, () => void>();
  let all = 0;
  const count = (owner: string, bytes: number) => {
    all += bytes;
    const own = (held.get(owner) ?? 0) + bytes;
    if (own === 0) held.delete(owner);
    else held.set(owner, own);
  };
  /** @throws Throttled; one body or answer of an owner is always taken */
  const hold = (request: Request, bytes: number, mayRefuse: boolean) => {
    releases.get(request)?.();
    const owner = ownerOf(request);
    const own = held.get(owner) ?? 0;
    const isTooMuch = own + bytes > limits.perOwner || all + bytes > limits.inAll;
    if (isTooMuch && own > 0 && mayRefuse) throw tooMuch();
    count(owner, bytes);
    const release = () => {
      if (releases.get(request) !== release) return;
      releases.delete(request);
      count(owner, -bytes);
    };
    releases.set(request, release);
  };

  api.addHook('onRequest', (request, reply, done) => {
    reply.raw.once('close', () => releases.get(request)?.());
    const bytes = announcedBytes(request);
    const isFull = (held.get(ownerOf(request)) ?? 0) >= limits.perOwner;
    if (isFull) return done(tooMuch());
    if (bytes > 0) hold(request, bytes, true);
    done();
  });
  api.addHook('preValidation', (request, _reply, done) => {
    releases.get(request)?.();
    done();
  });
  api.addHook('onSend', (request, reply, payload, done) => {
    // Buffers of ours are prepared once, for all their clients.
    if (typeof payload !== 'string') return done(null, payload);
    const { method, raw, routeOptions } = request;
    if (raw.socket.destroyed) return done(null, payload);
    const changesNothing = method === 'GET' || routeOptions.config.changesNothing === true;
    hold(request, Buffer.byteLength(payload), changesNothing && reply.statusCode < 400);
    done(null, payload);
  });
}

const ownerOf = ({ caller, ip }: Request): string => caller?.organizationId ?? networkOf(ip);

/** A body over the limit is refused unread. */
function announcedBytes({ headers }: Request): number {
  const { 'content-length': length, 'transfer-encoding': encoding } = headers;
  if (encoding !== undefined) return maxBody;
  const announced = Number(length ?? 0);
  return announced <= maxBody ? announced : 0;
}

const tooMuch = () =>
  new Throttled(
    'Too many answers are not read yet, or too many bodies are not complete. Read the answers, send the bodies, or ask for smaller pages.',
    5_000,
  );
