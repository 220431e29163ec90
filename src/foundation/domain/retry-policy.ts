import { type ErrorCode, errorCatalogue, type SluiceError } from './errors.ts';

export interface RetryPolicy {
  /** Attempts in all, the first included. */
  readonly maxAttempts: number;
  readonly baseMs: number;
  readonly capMs: number;
}

/** Ten attempts, usually over one to two hours: the waits have full jitter, and 92 minutes are their mean. */
export const defaultRetryPolicy: RetryPolicy = {
  maxAttempts: 10,
  baseMs: 30_000,
  capMs: 3_600_000,
};

export type RetryDecision =
  | { readonly outcome: 'retry'; readonly delayMs: number }
  /** The error is permanent, but one more attempt must confirm it. */
  | { readonly outcome: 'doubted'; readonly delayMs: number }
  | { readonly outcome: 'failed' }
  | { readonly outcome: 'exhausted' };

/** Facts that make a permanent error doubtful. */
export interface FailureHistory {
  /** The code that the attempt before ended with; null if there was none. */
  readonly before: ErrorCode | null;
  /** True if this destination has taken an interval of the export. */
  readonly workedBefore: boolean;
}

/**
 * Decides as `decideRetry`, but a permanent error of a destination that worked before ends the run only if
 * two attempts in a row end with the same code: a store, or a proxy before it, may refuse for a
 * moment. An attempt with another permanent code counts as a failed attempt, so the retries end.
 */
export function decideAttempt(
  error: SluiceError,
  attempt: number,
  history: FailureHistory,
  policy: RetryPolicy & { readonly secondOpinionMs: number },
  random: number,
): RetryDecision {
  const decision = decideRetry(error, attempt, policy, random);
  const isDoubtful =
    decision.outcome === 'failed' &&
    error.code.startsWith('destination.') &&
    history.workedBefore &&
    history.before !== error.code;
  if (!isDoubtful) return decision;
  const { before } = history;
  const changedItsMind = before !== null && !errorCatalogue[before].retryable;
  if (!changedItsMind) return { outcome: 'doubted', delayMs: policy.secondOpinionMs };
  return attempt >= policy.maxAttempts
    ? decision
    : { outcome: 'retry', delayMs: policy.secondOpinionMs };
}

/**
 * The last one if all from here on meet transient errors. A shutdown or a worker that died does not count, so each
 * raises it.
 * @param attempt attempts that were begun
 * @param faults those that count
 * @param isUnderWay whether the newest has not ended
 */
export function lastAttempt(
  {
    attempt,
    faults,
    isUnderWay,
  }: { readonly attempt: number; readonly faults: number; readonly isUnderWay: boolean },
  { maxAttempts }: Pick<RetryPolicy, 'maxAttempts'>,
): number {
  const begun = isUnderWay ? attempt - 1 : attempt;
  return Math.max(attempt, begun - faults + maxAttempts);
}

/** Exponential backoff with full jitter. @param attempt that just failed, from 1 @param random in [0, 1) */
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
