import type { SluiceError } from './errors.ts';

/** When a failed attempt is followed by another. */
export interface RetryPolicy {
  /** Attempts in all, the first included. */
  readonly maxAttempts: number;
  readonly baseMs: number;
  readonly capMs: number;
}

/** Ten attempts over about two hours. */
export const defaultRetryPolicy: RetryPolicy = {
  maxAttempts: 10,
  baseMs: 30_000,
  capMs: 3_600_000,
};

export type RetryDecision =
  | { readonly outcome: 'retry'; readonly delayMs: number }
  | { readonly outcome: 'failed' }
  | { readonly outcome: 'exhausted' };

/**
 * Exponential backoff with full jitter (AWS Architecture Blog, "Exponential Backoff And Jitter").
 *
 * @param attempt the attempt that just failed, 1 for the first
 * @param random in [0, 1)
 */
export function decideRetry(
  error: SluiceError,
  attempt: number,
  policy: RetryPolicy,
  random: number,
): RetryDecision {
  if (!error.spec.retryable) return { outcome: 'failed' };
  if (attempt >= policy.maxAttempts) return { outcome: 'exhausted' };
  const ceilingMs = Math.min(policy.capMs, policy.baseMs * 2 ** (attempt - 1));
  return { outcome: 'retry', delayMs: Math.round(ceilingMs * random) };
}
