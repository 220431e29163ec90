import { useState } from 'react';
import type { ApiFailure } from './client.ts';
import { toFailure } from './use-resource.ts';

export interface Action<A extends readonly unknown[]> {
  readonly run: (...args: A) => Promise<void>;
  readonly busy: boolean;
  readonly failure: ApiFailure | null;
  readonly clear: () => void;
}

/** An action of the operator: whether it is running, and why it failed. */
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
    } catch (error) {
      setFailure(toFailure(error));
    } finally {
      setBusy(false);
    }
  };
  return { run, busy, failure, clear: () => setFailure(null) };
}
