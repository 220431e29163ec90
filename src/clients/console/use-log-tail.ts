import { useRef } from 'react';
import type { Api } from './api.ts';
import { ApiFailure } from './api.ts';
import { appended, type TailEntries } from './log-tail.ts';
import { type Resource, useResource } from './use-resource.ts';

interface Tail {
  readonly id: string;
  readonly cursor: string | null;
  /** Oldest first. */
  readonly entries: TailEntries;
}

/**
 * The log of a run as it is written. It asks again with the cursor of the last answer: after a failure, or while the tab was
 * hidden, it goes on from there and misses nothing. It stops when the run has ended.
 */
export function useLogTail(api: Api, exportId: string, runId: string) {
  const read = useRef<Tail>({ id: runId, cursor: null, entries: [] });
  const resource: Resource<Tail & { readonly waitMs: number | null }> = useResource({
    key: runId,
    load: async (signal) => {
      const before = read.current;
      const { cursor, entries } = before.id === runId ? before : { cursor: null, entries: [] };
      const run = { batch_export_id: exportId, run_id: runId };
      const tail = await api
        .get(
          'batch_exports/{batch_export_id}/runs/{run_id}/logs/tail',
          { ...run, cursor, limit: 200 },
          signal,
        )
        .catch((error: unknown) => {
          // The cursor is of another database, as after a restore.
          if (error instanceof ApiFailure && error.status === 400) {
            read.current = { id: runId, cursor: null, entries };
          }
          throw error;
        });
      read.current = {
        id: runId,
        cursor: tail.cursor,
        entries: appended(entries, tail.results),
      };
      return { ...read.current, waitMs: tail.has_more ? 0 : tail.ended ? null : 2_000 };
    },
    pollMs: (data) => (data === null ? 2_000 : data.waitMs),
  });
  return { entries: resource.data?.entries ?? null, failure: resource.failure };
}
