import { useEffect } from 'react';

const canHaveFocus = 'a[href], button, input, select, textarea, [tabindex]';

/** If the element with the focus goes, such as the button of a row that is deleted, what is nearest to it gets the focus. */
export function useKeptFocus(): void {
  useEffect(() => {
    /** The element that has the focus, and what it is in. */
    let path: readonly Element[] = [];
    const note = ({ target }: FocusEvent) => {
      path = target instanceof Element ? withParents(target) : [];
    };
    const forget = () =>
      setTimeout(() => {
        // The reader clicked beside it.
        if (document.activeElement === document.body && path[0]?.isConnected) path = [];
      });
    const keep = () => {
      if (document.activeElement !== document.body) return;
      const [gone] = path;
      if (!gone || gone.isConnected) return;
      const near = path.find((element) => element.isConnected);
      path = [];
      const main = document.getElementById('main');
      const inside = near !== main && main?.contains(near ?? null);
      const next = inside ? near?.querySelector<HTMLElement>(canHaveFocus) : null;
      (next ?? main)?.focus({ preventScroll: true });
    };
    const observer = new MutationObserver(keep);
    observer.observe(document.body, { childList: true, subtree: true });
    document.addEventListener('focusin', note);
    document.addEventListener('focusout', forget);
    return () => {
      observer.disconnect();
      document.removeEventListener('focusin', note);
      document.removeEventListener('focusout', forget);
    };
  }, []);
}

function withParents(element: Element): readonly Element[] {
  const path: Element[] = [];
  for (let at: Element | null = element; at; at = at.parentElement) path.push(at);
  return path;
}
