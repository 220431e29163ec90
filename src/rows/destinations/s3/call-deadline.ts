/** For all tries of one request of a few bytes, or of a commit's step. */
const callPatienceMs = 10 * 60_000;

/** For a call whose caller has no deadline of its own. */
export function callDeadline(signal?: AbortSignal, ms = callPatienceMs): AbortSignal {
  const deadline = AbortSignal.timeout(ms);
  return signal ? AbortSignal.any([signal, deadline]) : deadline;
}

/** For a call whose answer is worth a while after the run has ended. A run makes thousands of them, so nothing of one stays. */
export async function withDelayedAbort<T>(
  given: AbortSignal | undefined,
  ms: number,
  call: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const delayed = new AbortController();
  const abort = () => setTimeout(() => delayed.abort(given?.reason), ms).unref();
  if (given?.aborted) delayed.abort(given.reason);
  else given?.addEventListener('abort', abort, { once: true });
  try {
    return await call(callDeadline(delayed.signal));
  } finally {
    given?.removeEventListener('abort', abort);
  }
}
