import { setTimeout as wait } from 'node:timers/promises';
import { decideRetry, type RetryPolicy } from '../../domain/retry-policy.ts';
import { toDestinationError } from './errors.ts';

/**
 * Faults of one request among many that a repeat mends: one part in ten thousand that meets a 503
 * must not cost the attempt. What stays is the worker's to repeat. A conflict and a lost upload are
 * retryable for the worker, but the same request would only meet them again.
 */
const passing = new Set([
  'destination.unavailable',
  'destination.throttled',
  'destination.stalled',
]);

/**
 * Sends a request until it succeeds, its fault is not a passing one, or the policy is spent.
 *
 * @param send must be safe to repeat
 * @throws SluiceError of the last try; at once when `signal` aborts
 */
export async function retryRequest<T>(
  send: () => Promise<T>,
  policy: RetryPolicy,
  secrets: readonly string[],
  signal?: AbortSignal,
): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await send();
    } catch (caught) {
      const error = toDestinationError(caught, secrets);
      const decision = decideRetry(error, attempt, policy, Math.random());
      if (decision.outcome !== 'retry' || !passing.has(error.code) || signal?.aborted) throw error;
      await wait(decision.delayMs, undefined, { signal }).catch(() => {
        throw error;
      });
    }
  }
}
