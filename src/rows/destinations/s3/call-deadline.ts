/** For all tries of one request of a few bytes, or of a commit's step. */
const callPatienceMs = 10 * 60_000;

/** For a call whose caller has no deadline of its own. */
export function callDeadline(signal?: AbortSignal, ms = callPatienceMs): AbortSignal {
  const deadline = AbortSignal.timeout(ms);
  return signal ? AbortSignal.any([signal, deadline]) : deadline;
}

/** For a call whose answer is worth a while after the run has ended. */
export function delayAbort(signal: AbortSignal, ms: number): AbortSignal {
  const delayed = new AbortController();
  const abort = () => setTimeout(() => delayed.abort(signal.reason), ms).unref();
  if (signal.aborted) delayed.abort(signal.reason);
  else signal.addEventListener('abort', abort, { once: true });
  return delayed.signal;
}
