import { useEffect, useState } from 'react';
import type { Api, ApiFailure } from './api.ts';
import { appended, type TailEntries } from './log-tail.ts';
import { toFailure } from './use-resource.ts';

const pollMs = 2_000;
/** After a failure. */
const failureMs = 10_000;

export interface TailState {
  /** Oldest first; null before the first answer. */
  readonly entries: TailEntries | null;
  readonly failure: ApiFailure | null;
  /** Whether the run has ended, and all of its log is here. */
  readonly ended: boolean;
}

const unread: TailState = { entries: null, failure: null, ended: false };

/**
 * The log of a run as it is written. It asks again with the cursor of the last answer: after a failure, or while
 * the tab was hidden, it goes on from there and misses nothing. It stops when the run has ended.
 */
export function useLogTail(api: Api, exportId: string, runId: string): TailState {
  const [state, setState] = useState(unread);
  useEffect(() => {
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isAsking = false;
    let cursor: string | null = null;
    let isDone = false;
    setState(unread);

    const ask = async (): Promise<number> => {
      try {
        const tail = await api.get(
          'batch_exports/{batch_export_id}/runs/{run_id}/logs/tail',
          { batch_export_id: exportId, run_id: runId, cursor, limit: 200 },
          abort.signal,
        );
        cursor = tail.cursor;
        isDone = tail.ended && !tail.has_more;
        setState(({ entries }) => ({
          entries: appended(entries ?? [], tail.results),
          failure: null,
          ended: isDone,
        }));
        return tail.has_more ? 0 : pollMs;
      } catch (error) {
        const failure = toFailure(error);
        // The cursor is of another database, as after a restore.
        if (failure.status === 400) cursor = null;
        if (!abort.signal.aborted) setState((last) => ({ ...last, failure }));
        return failureMs;
      }
    };
    const poll = async () => {
      clearTimeout(timer);
      if (document.hidden || isAsking || isDone) return;
      isAsking = true;
      const delay = await ask();
      isAsking = false;
      if (!abort.signal.aborted && !isDone) timer = setTimeout(poll, delay);
    };
    void poll();
    document.addEventListener('visibilitychange', poll);
    return () => {
      abort.abort();
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', poll);
    };
  }, [api, exportId, runId]);
  return state;
}
