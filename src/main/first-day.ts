import type { Config } from '../foundation/config/config.ts';
import { readInstallationState } from '../state/store/exports/first-day.ts';
import type { Sql } from '../state/store/database/database.ts';

/** A step of docs/production.md, by its heading, and what to do. */
export interface OpenStep {
  readonly step: string;
  readonly remedy: string;
}

/** The steps of docs/production.md that this installation has not done yet, as far as a program can see, in their order. */
export async function findOpenSteps(config: Config, db: Sql): Promise<readonly OpenStep[]> {
  const state = await readInstallationState(db);
  const isOpen: readonly (readonly [boolean, string, string])[] = [
    [
      config.ENCRYPTION_KEYS.length === 0,
      'Keys',
      'ENCRYPTION_KEYS is not set: Sluice uses a key of its data folder, which no other machine has.',
    ],
    [
      config.SOURCE_DATABASE_URL === null,
      'Database and roles',
      'SOURCE_DATABASE_URL is not set: rows are read with the role that owns the tables of Sluice.',
    ],
    [
      state.workers === 0,
      'API and workers',
      'No worker has reported in the last minute. Start one.',
    ],
    [
      config.PUBLIC_URL === null || !config.PUBLIC_URL.startsWith('https://'),
      'TLS proxy',
      'PUBLIC_URL is not an https:// address: keys would cross the network in plain text, and notifications have no links.',
    ],
    [state.operatorKeys === 0, "The operator's key", 'No valid operator key exists. Create one.'],
    [
      state.organizations === 0 || state.projects === 0,
      'The first organization',
      'No organization with a project exists. Create both.',
    ],
    [
      config.METRICS_PORT === null || config.WORKER_PORT === null,
      'Scrape and alerts',
      'METRICS_PORT or WORKER_PORT is not set: Prometheus cannot scrape each process.',
    ],
    [
      state.notificationTargets === 0,
      'A notification target',
      'No enabled notification target exists. Create one and test it.',
    ],
    [
      config.VERIFY_SCHEDULE === null,
      'A nightly proof',
      'VERIFY_SCHEDULE is not set: nothing proves the files unless you run `sluice verify`. Set it to a quiet time, such as 03:00.',
    ],
  ];
  return isOpen.flatMap(([open, step, remedy]) => (open ? [{ step, remedy }] : []));
}
