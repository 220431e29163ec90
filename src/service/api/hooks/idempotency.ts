import { createHash } from 'node:crypto';
import type { RouteHandlerMethod, RouteOptions } from 'fastify';
import { invalid, Refusal } from '../../../foundation/domain/problem.ts';
import {
  findKeptResponse,
  type IdempotentRequest,
  keepResponse,
  lockIdempotencyKey,
} from '../../../state/store/tenants/idempotency.ts';
import { inOneTransaction } from '../../use-cases/context.ts';
import type { Api, Reply, Request } from '../api.ts';
import { ApiError } from '../errors.ts';

/**
 * A POST with an Idempotency-Key takes effect once: for 24 hours, the same request gets the same answer. The answer is stored in the
 * transaction of the effect. Only successes are stored. Call it before adding routes.
 */
export function honourIdempotencyKeys(api: Api): void {
  api.addHook('onRoute', (route) => {
    if (!takesIdempotencyKey(route)) return;
    const { handler } = route;
    route.handler = async function (request, reply) {
      const claimed = idempotentRequest(request);
      const handle = async () => handler.call(this, request, reply);
      return claimed ? once(claimed, handle, request, reply) : handle();
    } satisfies RouteHandlerMethod;
  });
}

export function takesIdempotencyKey({
  config,
  method,
}: Pick<RouteOptions, 'config' | 'method'>): boolean {
  const { scope, changesNothing } = config ?? {};
  return scope !== undefined && !changesNothing && [method].flat().includes('POST');
}

async function once(
  asked: IdempotentRequest,
  handle: () => Promise<unknown>,
  request: Request,
  reply: Reply,
): Promise<Reply> {
  const answer = await inOneTransaction(request.context, async (context) => {
    const { db } = context;
    if (!(await lockIdempotencyKey(db, asked))) throw inFlight;
    const earlier = await findKeptResponse(db, asked);
    if (earlier?.same === false) throw otherRequest;
    if (earlier) return { ...earlier, replayed: true };
    request.context = context;
    const response = String(reply.serialize(await handle()));
    const fresh = { status: reply.statusCode, response };
    const keptResponse = withoutSecret(response, request.routeOptions.config.shownOnce);
    await keepResponse(db, asked, { ...fresh, response: keptResponse });
    return { ...fresh, replayed: false };
  });
  if (answer.replayed) reply.header('idempotency-replayed', 'true');
  return reply
    .code(answer.status)
    .type('application/json; charset=utf-8')
    .serializer((text: unknown) => String(text))
    .send(answer.response);
}

/** The answers are stored as they are: a secret that is encrypted elsewhere must not be among them. */
function withoutSecret(response: string, field: string | undefined): string {
  if (field === undefined) return response;
  return JSON.stringify({ ...(JSON.parse(response) as object), [field]: null });
}

function idempotentRequest(request: Request): IdempotentRequest | null {
  const { 'idempotency-key': key } = request.headers;
  const { caller, method } = request;
  if (key === undefined || caller === undefined) return null;
  if (typeof key !== 'string' || !/^[\x21-\x7e]{1,255}$/.test(key)) throw badKey;
  const path = request.url.split('?', 1)[0]?.replace(/\/$/, '');
  const fingerprint = createHash('sha256')
    .update(`${method} ${path}\n${JSON.stringify(request.body ?? {})}`)
    .digest();
  return { keyId: caller.id, idempotencyKey: key, fingerprint };
}

const attr = 'Idempotency-Key';
const isRunning = 'A request with this Idempotency-Key is still running. Try again later.';
const badKey = new Refusal(
  invalid(attr, 'The Idempotency-Key must be 1 to 255 visible ASCII characters.'),
);
const inFlight = new Refusal({ code: 'conflict', detail: isRunning, attr });
const otherRequest = new ApiError(
  422,
  invalid(attr, 'This Idempotency-Key was used with another request. Use a new key.'),
);
