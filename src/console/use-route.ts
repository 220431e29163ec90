import { useEffect, useState } from 'react';
import { hrefOf, type Route, readRoute } from './route.ts';

/** The current route. */
export function useRoute(): Route {
  const [hash, setHash] = useState(() => window.location.hash);
  useEffect(() => {
    const follow = () => {
      setHash(window.location.hash);
      window.scrollTo(0, 0);
    };
    window.addEventListener('hashchange', follow);
    return () => window.removeEventListener('hashchange', follow);
  }, []);
  return readRoute(hash);
}

export function goTo(route: Route): void {
  window.location.hash = hrefOf(route);
}
