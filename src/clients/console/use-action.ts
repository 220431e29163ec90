import { useState } from 'react';
import { announceChange } from './changes.ts';
import type { ApiFailure } from './api.ts';
import { toFailure } from './use-resource.ts';

export interface Action<A extends readonly unknown[]> {
  /** Does nothing while it is busy. */
  readonly run: (...args: A) => Promise<void>;
  /** For `aria-disabled` of its button: one that is disabled would lose the focus. */
  readonly busy: boolean;
  readonly failure: ApiFailure | null;
  readonly clear: () => void;
}

/** An action of the operator: whether it is running, and why it failed. What the page polls is loaded again after it, also if it failed. */
export function useAction<A extends readonly unknown[]>(
  work: (...args: A) => Promise<void>,
): Action<A> {
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<ApiFailure | null>(null);
  const run = async (...args: A) => {
    if (busy) return;
    setBusy(true);
    setFailure(null);
    try {
      await work(...args);
      announceChange();
    } catch (error) {
      const failed = toFailure(error);
      setFailure(failed);
      // The page may show an old state, or the change was made although its answer did not arrive.
      if (failed.status !== 400) announceChange();
    } finally {
      setBusy(false);
    }
  };
  return { run, busy, failure, clear: () => setFailure(null) };
}
