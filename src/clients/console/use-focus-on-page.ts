import { useEffect, useRef } from 'react';

/** Moves the focus. A link to #main would change the route. */
export function focusMain(): void {
  document.getElementById('main')?.focus();
}

/**
 * Moves the focus to a new page, for keyboards and screen readers.
 *
 * @param page names the page and what it is about; a new tab of the same page has the same name
 */
export function useFocusOnPage(page: string): void {
  const last = useRef(page);
  useEffect(() => {
    if (last.current === page) return;
    last.current = page;
    focusMain();
  }, [page]);
}
