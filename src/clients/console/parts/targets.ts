import { createContext, useContext } from 'react';
import type { TargetEvent } from '../api-types.ts';
import { useConsole } from '../use-api.ts';

/** Whose exports the targets of a list hear of. */
interface TargetReach {
  readonly projectId: number;
  readonly organization: string;
}

/** The list of notification targets: of a project, or of the installation. */
export interface TargetsContext {
  /** The path of the list. Those of a project, of its organization and of the installation have the same operations. */
  readonly base: 'notification_targets';
  /** Null: these targets hear of the same exports. Otherwise a new one hears of the project, or of all projects. */
  readonly reach: TargetReach | null;
  /** Shows a new secret until the reader closes it. */
  readonly showSecret: (name: string, secret: string) => void;
}

export const TargetsContext = createContext<TargetsContext | null>(null);

export function useTargets() {
  const { api } = useConsole();
  const context = useContext(TargetsContext);
  if (!context) throw new Error('useTargets is used outside a TargetList');
  return { api, mayWrite: useMayWrite(context.base), ...context };
}

export const useMayWrite = (base: string): boolean =>
  useConsole().may(base === targetPaths.installation ? 'operator:write' : 'batch_export:write');

const project = 'notification_targets' as const;
export const targetPaths = {
  project,
  organization: `/api/organizations/{organization_id}/${project}` as unknown as typeof project,
  installation: `/api/admin/${project}` as unknown as typeof project,
} as const;

/** When each event comes. The compiler reports a missing name. */
export const eventTexts: Readonly<Record<TargetEvent, string>> = {
  'export.failing': 'a run failed, after the ones before it succeeded',
  'export.retries_exhausted': 'a run used up its attempts',
  'export.paused': 'Sluice paused an export',
  'export.recovered': 'a run succeeded after failures',
  'export.late': 'data is late',
  'export.on_time': 'data is no longer late',
  'export.incomplete': 'for an hour intervals have had no data',
  'export.complete': 'no interval lacks data any more',
  'healing.started': 'something has kept exports from their data for a minute',
  'healing.ended': 'that is over',
  'interval.at_risk': 'intervals are about to miss their deadline',
  'interval.missed': 'intervals missed their deadline',
  'interval.delivered_late': 'they have arrived',
  'load.differs': 'the receiver says it has loaded another number of rows than were delivered',
  'load.agrees': 'it has loaded what was delivered',
  'verify.failed': 'the nightly verification did not prove an export',
  'verify.passed': 'it proves the export again',
  'backfill.completed': 'all runs of a backfill have ended',
  'installation.no_workers': 'no worker has reported for 30 seconds',
  'installation.no_workers_over': 'a worker reports again',
};

/** The events that targets at a path can ask for. */
export const eventsOf = (base: string): readonly TargetEvent[] =>
  (Object.keys(eventTexts) as TargetEvent[]).filter(
    (name) => base === targetPaths.installation || !name.startsWith('installation.'),
  );
