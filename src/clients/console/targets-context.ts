import { createContext, useContext } from 'react';
import type { TargetEvent } from './api-types.ts';
import type { createTargetsClient } from './targets-client.ts';

/** What the list of notification targets needs: of a project, or of the installation. */
export interface TargetsContext {
  readonly targets: ReturnType<typeof createTargetsClient>;
  readonly mayWrite: boolean;
  readonly events: readonly TargetEvent[];
  /** Shows a new secret until the reader closes it. */
  readonly showSecret: (name: string, secret: string) => void;
}

export const TargetsContext = createContext<TargetsContext | null>(null);

export function useTargets(): TargetsContext {
  const context = useContext(TargetsContext);
  if (!context) throw new Error('useTargets is used outside a TargetList');
  return context;
}
