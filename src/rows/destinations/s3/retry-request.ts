import { setTimeout as wait } from 'node:timers/promises';
import { decideRetry, type RetryPolicy } from '../../../foundation/domain/retry-policy.ts';
import { type Hidden, toDestinationError } from './errors.ts';

/**
 * Transient errors of one request that a retry fixes: one 503 among ten thousand parts must not cost
 * the attempt. The worker retries the rest. It also retries a conflict and a lost upload; the same
 * request would only fail again.
 */
const transient = new Set([
  'destination.unavailable',
  'destination.throttled',
  'destination.stalled',
]);

/**
 * Sends a request until it succeeds, its error is not transient, or the policy is exhausted.
 *
 * @param send must be safe to repeat
 * @throws SluiceError of the last try; at once when `signal` aborts
 */
export async function retryRequest<T>(
  send: () => Promise<T>,
  policy: RetryPolicy,
  hidden: Hidden,
  signal: AbortSignal,
): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await send();
    } catch (caught) {
      const error = toDestinationError(caught, hidden);
      const decision = decideRetry(error, attempt, policy, Math.random());
      if (decision.outcome !== 'retry' || !transient.has(error.code) || signal.aborted) throw error;
      await wait(decision.delayMs, undefined, { signal }).catch(() => {
        throw error;
      });
    }
  }
}
