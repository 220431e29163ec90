import type { Sql } from '../../../state/store/database/database.ts';
import { type Taken, reserveFromBudget } from '../../../state/store/tenants/budgets.ts';
import type { Api, Reply, Request } from '../api.ts';
import { ApiError } from '../api-error.ts';

interface RateLimit {
  readonly perMinute: number;
  readonly perHour: number;
}

/** A process takes this share of what is left of a key's windows. */
const share = 1 / 16;

/** Requests that this process may let through for one key, until their window ends. */
interface Budget {
  held: number;
  reservation: Taken<'minute' | 'hour'>;
  /** On this process' steady clock, milliseconds. */
  minuteEndsAt: number;
  hourEndsAt: number;
}

/**
 * Counts a request of a key, as the number of requests that it costs (default 1), and sets the headers of the key's
 * limit. @throws ApiError 429
 */
export type TakeRequest = (keyId: string, reply: Reply, cost?: number) => Promise<void>;

/** So many bytes of a body cost as much as a request. */
const bytesPerRequest = 16 * 1024;
/** So many results of a page are included in a request; so many more cost another one. */
const resultsIncluded = 100;
const resultsPerRequest = 250;

/**
 * Limits the requests of each key on routes with a scope. One that costs the service more counts as several: by
 * its route, the size of its body and of the page that it asks for.
 */
export function limitRequests(api: Api, takeRequest: TakeRequest): void {
  api.decorateRequest('bodyBytes', 0);
  api.addHook('onRequest', async (request, reply) => {
    const { caller, routeOptions } = request;
    if (caller === undefined) return;
    const cost = (routeOptions.config.cost ?? 1) + costOfBytes(announcedBytes(request));
    await takeRequest(caller.id, reply, cost + costOfPage(request));
  });
  api.addHook('preValidation', async (request, reply) => {
    const { caller, bodyBytes } = request;
    // Only a body whose length was not announced.
    const cost = costOfBytes(bodyBytes) - costOfBytes(announcedBytes(request));
    if (caller !== undefined && cost > 0) await takeRequest(caller.id, reply, cost);
  });
}

const costOfBytes = (bytes: number): number => Math.floor(bytes / bytesPerRequest);

/** A body of more than 1 MiB is refused unread. */
function announcedBytes({ headers }: Request): number {
  const announced = Number(headers['content-length'] ?? 0);
  return announced <= 1_048_576 ? announced : 0;
}

function costOfPage({ query }: Request): number {
  const limit = Number((query as { limit?: string }).limit ?? 0);
  const more = Math.min(limit, 1_000) - resultsIncluded;
  return more > 0 ? Math.ceil(more / resultsPerRequest) : 0;
}

/**
 * Counts the requests of each key, over all API processes. Each process reserves blocks of requests
 * from a shared window and allows no more than it reserved. Refusing a request costs no query. A request that costs more
 * than a whole window costs the whole window.
 */
export function createRequestLimit(db: Sql, limit: RateLimit): TakeRequest {
  const budgets = new Map<string, Budget>();
  const pending = new Map<string, Promise<Budget>>();
  const windows = { minute: limit.perMinute, hour: limit.perHour };

  const refill = async (keyId: string, cost: number): Promise<Budget> => {
    const remaining = leftOf(budgets.get(keyId));
    const needed = Math.max(1, cost - remaining);
    const reservation = await reserveFromBudget(db, keyId, windows, needed, share);
    const now = performance.now();
    const budget: Budget = {
      // Requests that came meanwhile may have used some.
      held: leftOf(budgets.get(keyId)) + reservation.granted,
      reservation,
      minuteEndsAt: now + reservation.minute.endsInMs,
      hourEndsAt: now + reservation.hour.endsInMs,
    };
    budgets.set(keyId, budget);
    return budget;
  };

  /** Concurrent requests wait for one refill. */
  const refillOnce = (keyId: string, cost: number): Promise<Budget> => {
    const running = pending.get(keyId) ?? refill(keyId, cost).finally(() => pending.delete(keyId));
    pending.set(keyId, running);
    return running;
  };

  const usable = (keyId: string, cost: number): Budget | undefined => {
    const budget = budgets.get(keyId);
    if (!budget) return undefined;
    if (budget.held >= cost && performance.now() < budget.minuteEndsAt) return budget;
    return isSpent(budget, cost) && retryAfterMs(budget, cost) > 0 ? budget : undefined;
  };

  return async (keyId, reply, asked = 1) => {
    const cost = Math.min(asked, limit.perMinute, limit.perHour);
    let budget = usable(keyId, cost);
    while (!budget || (budget.held < cost && !isSpent(budget, cost))) {
      budget = await refillOnce(keyId, cost);
    }
    if (budget.held >= cost) budget.held -= cost;
    else throw throttled(budget, limit, cost);
    reply.headers(headersOf(budget, limit, cost));
  };
}

/** The requests of the current window that this process still holds. */
function leftOf(budget: Budget | undefined): number {
  return budget && performance.now() < budget.minuteEndsAt ? budget.held : 0;
}

const leftIn = ({ minute, hour }: Budget['reservation']): number =>
  Math.min(minute.left, hour.left);

/** Nothing was granted, because a window has less left than the request costs. */
function isSpent({ held, reservation }: Budget, cost: number): boolean {
  return held < cost && reservation.granted === 0 && held + leftIn(reservation) < cost;
}

function retryAfterMs({ held, reservation, minuteEndsAt, hourEndsAt }: Budget, cost: number) {
  return (held + reservation.hour.left < cost ? hourEndsAt : minuteEndsAt) - performance.now();
}

const seconds = (ms: number): string => String(Math.max(1, Math.ceil(ms / 1_000)));

function throttled(budget: Budget, limit: RateLimit, cost: number): ApiError {
  const retryAfter = seconds(retryAfterMs(budget, cost));
  const detail = `Too many requests. Try again in ${retryAfter} ${retryAfter === '1' ? 'second' : 'seconds'}.`;
  const headers = { ...headersOf(budget, limit, cost), 'retry-after': retryAfter };
  return new ApiError(429, [{ code: 'throttled', detail, attr: null }], headers);
}

/** The fields of the IETF draft `ratelimit-headers`, version 6. */
function headersOf(
  budget: Budget,
  { perMinute, perHour }: RateLimit,
  cost: number,
): Record<string, string> {
  const { held, reservation } = budget;
  const available = leftIn(reservation) + held;
  return {
    'ratelimit-limit': String(perMinute),
    'ratelimit-remaining': String(Math.max(0, available)),
    'ratelimit-reset': seconds(retryAfterMs(budget, cost)),
    'ratelimit-policy': `${perMinute};w=60, ${perHour};w=3600`,
  };
}
