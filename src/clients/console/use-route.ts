import { useCallback, useEffect, useMemo, useRef, useState, useSyncExternalStore } from 'react';
import {
  hrefOf,
  pathIn,
  projectOf,
  type QueryChanges,
  queryIn,
  readRoute,
  type Route,
  withQuery,
} from './route.ts';

function follow(listener: () => void): () => void {
  window.addEventListener('hashchange', listener);
  return () => window.removeEventListener('hashchange', listener);
}

/** The part of the address after #. */
export const useHash = (): string => useSyncExternalStore(follow, () => window.location.hash);

/** @param project the one that was open last: an address without one gets it, so that it can be copied */
export function useRoute(project: string): { readonly route: Route; readonly project: string } {
  const hash = useHash();
  // Before the first link is shown: links begin with the project of the address.
  if (projectOf(hash) === null) nameProject(hash, project);
  const path = pathIn(window.location.hash);
  const last = useRef(path);
  // Another filter of the same list is no other place.
  useEffect(() => {
    if (last.current !== path) window.scrollTo(0, 0);
    last.current = path;
  }, [path]);
  return { route: readRoute(hash), project: projectOf(hash) ?? project };
}

export function goTo(route: Route): void {
  window.location.hash = hrefOf(route);
}

function nameProject(hash: string, project: string): void {
  const named = `${hrefOf(readRoute(hash), project)}${hash.slice(pathIn(hash).length)}`;
  window.history.replaceState(window.history.state, '', named);
}

interface QueryState {
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

/** Time without a key before a search begins. */
const pauseMs = 300;

/** The text of a search field: the parameter `search` after a pause in typing. It follows the address. */
export function useSearchText(): readonly [string, (text: string) => void] {
  const { query, replaceQuery } = useQuery();
  const searchText = query.get('search') ?? '';
  const [text, setText] = useState(searchText);
  const last = useRef(searchText);
  useEffect(() => {
    if (searchText === last.current) return;
    last.current = searchText;
    setText(searchText);
  }, [searchText]);
  useEffect(() => {
    if (text === last.current) return;
    const timer = setTimeout(() => {
      last.current = text;
      replaceQuery({ search: text, from: null });
    }, pauseMs);
    return () => clearTimeout(timer);
  }, [text, replaceQuery]);
  return [text, setText];
}

export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · Sluice`;
  }, [title]);
}

/** Moves the focus. A link to #main would change the route. */
export function focusMain(): void {
  document.getElementById('main')?.focus();
}

/** Moves the focus to a new page, for keyboards and screen readers. @param page the same for all its tabs */
export function useFocusOnPage(page: string): void {
  const last = useRef(page);
  useEffect(() => {
    if (last.current === page) return;
    last.current = page;
    focusMain();
  }, [page]);
}
