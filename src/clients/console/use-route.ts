import { useEffect, useRef, useSyncExternalStore } from 'react';
import { hrefOf, pathIn, projectOf, type Route, readRoute } from './route.ts';

function follow(listener: () => void): () => void {
  window.addEventListener('hashchange', listener);
  return () => window.removeEventListener('hashchange', listener);
}

/** The part of the address after #. */
export const useHash = (): string => useSyncExternalStore(follow, () => window.location.hash);

/**
 * The current route and project. An address without a project gets `project`, so that it can be copied.
 *
 * @param project id of the one that was open last
 */
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
