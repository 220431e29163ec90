import { createContext, useContext } from 'react';
import type { TargetEvent } from './api-types.ts';
import type { Api } from './api.ts';

/** Whose exports the targets of a list hear of. */
export interface TargetReach {
  readonly projectId: number;
  readonly organization: string;
}

/** The needs of the list of notification targets: of a project, or of the installation. */
export interface TargetsContext {
  readonly api: Api;
  /** The path of the list. Those of a project, of its organization and of the installation have the same operations. */
  readonly base: 'notification_targets';
  readonly mayWrite: boolean;
  /** Null: these targets hear of the same exports. Otherwise a new one hears of the project, or of all projects. */
  readonly reach: TargetReach | null;
  /** The events that these targets can ask for. */
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

const project = 'notification_targets' as const;
export const targetPaths = {
  project,
  organization: `/api/organizations/{organization_id}/${project}` as unknown as typeof project,
  installation: `/api/admin/${project}` as unknown as typeof project,
} as const;
