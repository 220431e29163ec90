import type { TargetEvent } from './api-types.ts';

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

/** The events that a target of the installation can ask for. */
export const installationEvents = Object.keys(eventTexts) as TargetEvent[];
/** The events that a target of a project can ask for. */
export const projectEvents = installationEvents.filter((name) => !name.startsWith('installation.'));
