import type { Sql } from '../../store/database.ts';
import { type RateLimit, type Reservation, reserveRequests } from '../../store/rate-limits.ts';
import type { Api, Reply } from '../api.ts';
import { ApiError } from '../api-error.ts';

/** Requests that this process may let through for one key, until their window ends. */
interface Budget {
  held: number;
  reservation: Reservation;
  /** On this process' steady clock, milliseconds. */
  minuteEndsAt: number;
  hourEndsAt: number;
}

/** Counts one request of a key and sets the headers of its limit. @throws ApiError 429 */
export type TakeRequest = (keyId: string, reply: Reply) => Promise<void>;

/** Limits the requests of each key on routes with a scope. */
export function limitRequests(api: Api, takeRequest: TakeRequest): void {
  api.addHook('onRequest', async ({ caller }, reply) => {
    if (caller !== undefined) await takeRequest(caller.id, reply);
  });
}

/**
 * Counts the requests of each key, over all API processes. Each process reserves blocks of requests
 * from a shared window and allows no more than it reserved. Refusing a request costs no query.
 */
export function createRequestLimit(db: Sql, limit: RateLimit): TakeRequest {
  const budgets = new Map<string, Budget>();
  const pending = new Map<string, Promise<Budget>>();

  const refill = async (keyId: string): Promise<Budget> => {
    const reservation = await reserveRequests(db, keyId, limit);
    const now = performance.now();
    const budget: Budget = {
      held: reservation.granted,
      reservation,
      minuteEndsAt: now + reservation.minuteEndsInMs,
      hourEndsAt: now + reservation.hourEndsInMs,
    };
    budgets.set(keyId, budget);
    return budget;
  };

  /** Concurrent requests wait for one refill. */
  const refillOnce = (keyId: string): Promise<Budget> => {
    const running = pending.get(keyId) ?? refill(keyId).finally(() => pending.delete(keyId));
    pending.set(keyId, running);
    return running;
  };

  const usable = (keyId: string): Budget | undefined => {
    const budget = budgets.get(keyId);
    if (!budget) return undefined;
    if (budget.held > 0 && performance.now() < budget.minuteEndsAt) return budget;
    return retryAfterMs(budget) > 0 && isSpent(budget) ? budget : undefined;
  };

  return async (keyId, reply) => {
    let budget = usable(keyId);
    while (!budget || (budget.held === 0 && !isSpent(budget))) budget = await refillOnce(keyId);
    if (budget.held > 0) budget.held -= 1;
    else throw throttled(budget, limit);
    reply.headers(headersOf(budget, limit));
  };
}

/** Nothing was granted: a window is used up. */
function isSpent({ held, reservation }: Budget): boolean {
  return held === 0 && reservation.granted === 0;
}

function retryAfterMs({ reservation, minuteEndsAt, hourEndsAt }: Budget): number {
  return (reservation.hourLeft <= 0 ? hourEndsAt : minuteEndsAt) - performance.now();
}

const seconds = (ms: number): string => String(Math.max(1, Math.ceil(ms / 1_000)));

function throttled(budget: Budget, limit: RateLimit): ApiError {
  const retryAfter = seconds(retryAfterMs(budget));
  const detail = `Too many requests. Try again in ${retryAfter} ${retryAfter === '1' ? 'second' : 'seconds'}.`;
  const headers = { ...headersOf(budget, limit), 'retry-after': retryAfter };
  return new ApiError(429, [{ code: 'throttled', detail, attr: null }], headers);
}

/** The fields of the IETF draft `ratelimit-headers`, version 6. */
function headersOf(budget: Budget, { perMinute, perHour }: RateLimit): Record<string, string> {
  const { held, reservation } = budget;
  const left = Math.min(reservation.minuteLeft, reservation.hourLeft) + held;
  return {
    'ratelimit-limit': String(perMinute),
    'ratelimit-remaining': String(Math.max(0, left)),
    'ratelimit-reset': seconds(retryAfterMs(budget)),
    'ratelimit-policy': `${perMinute};w=60, ${perHour};w=3600`,
  };
}
