import { useCallback, useEffect, useRef, useState } from 'react';
import { onChange } from './changes.ts';
import { ApiFailure } from './api.ts';

export interface Resource<T> {
  /** The last answer; it stays until the next one. Null before the first, and if the thing does not exist. */
  readonly data: T | null;
  /** Why the last request failed; null after a success. */
  readonly failure: ApiFailure | null;
  /** Loads again immediately. */
  readonly reload: () => void;
}

interface Options<T> {
  readonly load: (signal: AbortSignal) => Promise<T>;
  /** Identifies the resource. A new key drops the old answer. */
  readonly key: string;
  /** A change loads it again, and keeps the old answer until then. */
  readonly version?: string;
  /** Milliseconds until it is loaded again; null: never. */
  readonly pollMs?: (data: T | null) => number | null;
}

interface State<T> {
  readonly key: string;
  readonly data: T | null;
  readonly failure: ApiFailure | null;
}

/** After an action its effect shows at once, although a worker has to do something first. */
const soonMs = 2_000;
const soonTimes = 3;
/** Minimum delay after a failure, so that the page does not burden a service in trouble. */
const failureMs = 10_000;

/** Loads a resource of the API, and polls it while the page is visible. What is polled is also loaded again after each action. */
export function useResource<T>({
  load,
  key,
  version,
  pollMs = () => null,
}: Options<T>): Resource<T> {
  const [state, setState] = useState<State<T>>({ key, data: null, failure: null });
  const [asked, setAsked] = useState(0);
  const latest = useRef({ load, pollMs });
  latest.current = { load, pollMs };
  const soon = useRef(0);
  const reload = useCallback(() => setAsked((count) => count + 1), []);

  // biome-ignore lint/correctness/useExhaustiveDependencies: a change of `asked` or `version` loads again.
  useEffect(() => {
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let data: T | null = null;
    let failed = false;

    const wait = () => {
      const delay = latest.current.pollMs(data);
      if (delay === null || abort.signal.aborted) return;
      const polls = soon.current > 0 ? Math.min(delay, soonMs) : delay;
      soon.current = Math.max(0, soon.current - 1);
      timer = setTimeout(ask, failed ? Math.max(delay, failureMs) : polls);
    };
    const ask = () => {
      clearTimeout(timer);
      if (document.hidden) return;
      latest.current
        .load(abort.signal)
        .then((answer) => {
          if (abort.signal.aborted) return;
          data = answer;
          failed = false;
          setState({ key, data, failure: null });
        })
        .catch((error: unknown) => {
          if (abort.signal.aborted) return;
          failed = true;
          const failure = toFailure(error);
          // A thing that does not exist any more is not shown, with buttons for it.
          const keeps = failure.status !== 404;
          setState((last) => ({
            key,
            data: keeps && last.key === key ? last.data : null,
            failure,
          }));
        })
        .finally(wait);
    };
    ask();
    document.addEventListener('visibilitychange', ask);
    const unfollow = onChange(() => {
      if (latest.current.pollMs(data) === null) return;
      soon.current = soonTimes;
      reload();
    });
    return () => {
      unfollow();
      abort.abort();
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', ask);
    };
  }, [key, version, asked, reload]);

  const isCurrent = state.key === key;
  return {
    data: isCurrent ? state.data : null,
    failure: isCurrent ? state.failure : null,
    reload,
  };
}

/** Turns anything thrown into a failure to show. */
export function toFailure(error: unknown): ApiFailure {
  if (error instanceof ApiFailure) return error;
  const detail = error instanceof Error ? error.message : String(error);
  return new ApiFailure(0, [{ code: 'error', detail, attr: null }], null);
}
