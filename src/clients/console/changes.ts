const target = new EventTarget();

/** To be called after an action of the reader: what the page polls is loaded again at once. */
export function announceChange(): void {
  target.dispatchEvent(new Event('change'));
}

/** @returns a function that ends it */
export function onChange(listener: () => void): () => void {
  target.addEventListener('change', listener);
  return () => target.removeEventListener('change', listener);
}
