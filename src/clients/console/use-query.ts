import { useCallback, useMemo } from 'react';
import { type QueryChanges, queryIn, withQuery } from './route.ts';
import { useHash } from './use-route.ts';

export interface QueryState {
  readonly query: URLSearchParams;
  /** A new entry of the history: "back" undoes it. */
  readonly setQuery: (changes: QueryChanges) => void;
  /** In place of the current entry, for text that is being typed. */
  readonly replaceQuery: (changes: QueryChanges) => void;
}

/** The filters and the page of a list, kept in the address: they can be copied, and survive a reload. */
export function useQuery(): QueryState {
  const hash = useHash();
  const query = useMemo(() => queryIn(hash), [hash]);
  const setQuery = useCallback((changes: QueryChanges) => {
    window.location.hash = withQuery(window.location.hash, changes);
  }, []);
  const replaceQuery = useCallback((changes: QueryChanges) => {
    const hash = withQuery(window.location.hash, changes);
    window.history.replaceState(window.history.state, '', hash);
    window.dispatchEvent(new HashChangeEvent('hashchange'));
  }, []);
  return { query, setQuery, replaceQuery };
}

/** The known values that a parameter has. */
export function chosenOf<T extends string>(
  query: URLSearchParams,
  name: string,
  known: readonly T[],
): readonly T[] {
  const values = query.getAll(name);
  return known.filter((one) => values.includes(one));
}

/** Index of the first result that is shown; the parameter counts from 1. */
export function offsetOf(query: URLSearchParams, name = 'from'): number {
  const from = Number(query.get(name) ?? 1);
  return Number.isSafeInteger(from) && from > 0 ? from - 1 : 0;
}

/** The value of the parameter for an offset; null for the beginning. */
export function fromAt(offset: number): string | null {
  return offset <= 0 ? null : String(offset + 1);
}
