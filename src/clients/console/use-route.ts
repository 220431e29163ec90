import { useEffect, useState } from 'react';
import { hrefOf, pathIn, projectOf, type Route, readRoute } from './route.ts';

/**
 * The current route and project. An address without a project gets `project`, so that it can be copied.
 *
 * @param project id of the one that was open last
 */
export function useRoute(project: string): { readonly route: Route; readonly project: string } {
  const [hash, setHash] = useState(() => nameProject(project));
  useEffect(() => {
    let path = pathIn(window.location.hash);
    const follow = () => {
      const named = nameProject(project);
      setHash(named);
      // Another filter of the same list is no other place.
      if (pathIn(named) !== path) window.scrollTo(0, 0);
      path = pathIn(named);
    };
    window.addEventListener('hashchange', follow);
    return () => window.removeEventListener('hashchange', follow);
  }, [project]);
  return { route: readRoute(hash), project: projectOf(hash) ?? project };
}

export function goTo(route: Route): void {
  window.location.hash = hrefOf(route);
}

/** @returns the address's part after #, with a project */
function nameProject(project: string): string {
  const { hash } = window.location;
  if (projectOf(hash) !== null) return hash;
  const named = `${hrefOf(readRoute(hash), project)}${hash.slice(pathIn(hash).length)}`;
  window.history.replaceState(window.history.state, '', named);
  return named;
}
