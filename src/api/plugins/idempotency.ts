import { createHash } from 'node:crypto';
import type { Database } from '../../store/database.ts';
import {
  claimIdempotencyKey,
  type IdempotentRequest,
  keepResponse,
  releaseIdempotencyKey,
} from '../../store/idempotency.ts';
import type { Api, Request } from '../api.ts';
import { ApiError, invalid } from '../api-error.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The claim that this request holds. */
    idempotency: IdempotentRequest | undefined;
  }
}

/**
 * A POST with an Idempotency-Key takes effect once: for 24 hours its answer is given again to the
 * same request. Only successes are kept; a refused request may be corrected under the same key.
 */
export function honourIdempotencyKeys(api: Api, db: Database): void {
  api.decorateRequest('idempotency', undefined);

  api.addHook('preHandler', async (request, reply) => {
    const asked = idempotentRequest(request);
    if (!asked) return;
    const claim = await claimIdempotencyKey(db, asked);
    if (claim === 'claimed') {
      request.idempotency = asked;
      return;
    }
    if (claim === 'in_flight') throw inFlight;
    if (claim === 'other_request') throw otherRequest;
    return reply
      .code(claim.status)
      .header('idempotency-replayed', 'true')
      .type('application/json; charset=utf-8')
      .serializer((text: unknown) => String(text))
      .send(claim.response);
  });

  api.addHook('onSend', async (request, reply, payload) => {
    const { idempotency } = request;
    if (!idempotency) return;
    request.idempotency = undefined;
    const succeeded = reply.statusCode < 300 && typeof payload === 'string';
    const settled = succeeded
      ? keepResponse(db, idempotency, { status: reply.statusCode, response: payload })
      : releaseIdempotencyKey(db, idempotency);
    // What was done is done: an answer that could not be kept is given all the same.
    await settled.catch((err) => request.log.error({ err }, 'idempotency key not settled'));
  });
}

function idempotentRequest(request: Request): IdempotentRequest | null {
  const { 'idempotency-key': key } = request.headers;
  const { caller, method } = request;
  if (key === undefined || caller === undefined || method !== 'POST') return null;
  if (typeof key !== 'string' || !/^[\x21-\x7e]{1,255}$/.test(key)) throw badKey;
  const path = request.url.split('?', 1)[0]?.replace(/\/$/, '');
  const fingerprint = createHash('sha256')
    .update(`${method} ${path}\n${JSON.stringify(request.body ?? {})}`)
    .digest();
  return { keyId: caller.id, idempotencyKey: key, fingerprint };
}

const badKey = invalid({
  code: 'invalid_input',
  detail: 'The Idempotency-Key must be 1 to 255 visible ASCII characters.',
  attr: 'Idempotency-Key',
});

const inFlight = new ApiError(409, [
  {
    code: 'conflict',
    detail: 'A request with this Idempotency-Key is in flight.',
    attr: 'Idempotency-Key',
  },
]);

const otherRequest = new ApiError(422, [
  {
    code: 'invalid_input',
    detail: 'This Idempotency-Key was used with another request.',
    attr: 'Idempotency-Key',
  },
]);
