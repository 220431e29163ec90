import type { Config } from '../../foundation/config/config.ts';
import type { Sql } from '../../state/store/database/database.ts';
import { readInstallationState } from '../../state/store/exports/first-day.ts';

/** The steps of docs/operate.md that are not done yet. `sluice doctor` prints them last. */
export async function examineFirstDay(config: Config, db: Sql): Promise<readonly Examined[]> {
  const open = await findOpenSteps(config, db);
  return open.map(([step, remedy]) => ({
    check: 'production',
    result: 'warning',
    detail: `${step}: ${remedy}`,
  }));
}

/** A step of docs/operate.md, by its heading, and what to do. Null: it is done. */
type Step = readonly [step: string, remedy: string | null];
type OpenStep = readonly [step: string, remedy: string];

/** The steps that this installation has not done yet, as far as a program can see, in the order of the page. */
async function findOpenSteps(config: Config, db: Sql): Promise<readonly OpenStep[]> {
  const state = await readInstallationState(db);
  const whenever = (open: boolean, remedy: string) => (open ? remedy : null);
  const steps: readonly Step[] = [
    [
      'Database and roles',
      whenever(
        config.SOURCE_DATABASE_URL === null,
        config.DATABASE_URL === null && config.DATABASE_DIRECT_URL === null
          ? 'DATABASE_URL is not set: the tables of Sluice are in a PostgreSQL of its data folder, which no other machine reaches.'
          : 'SOURCE_DATABASE_URL is not set: rows are read with the role that owns the tables of Sluice.',
      ),
    ],
    [
      'Keys',
      whenever(
        config.ENCRYPTION_KEYS.length === 0,
        'ENCRYPTION_KEYS is not set: Sluice uses a key of its data folder, which no other machine has.',
      ),
    ],
    ['API and workers', workersRemedy(state.workers)],
    ['TLS proxy', proxyRemedy(config)],
    [
      "The operator's key",
      whenever(state.operatorKeys === 0, 'No valid operator key exists. Create one.'),
    ],
    [
      'The first organization',
      whenever(
        state.organizations === 0 || state.projects === 0,
        'No organization with a project exists. Create both.',
      ),
    ],
    [
      'Scrape and alerts',
      whenever(
        config.METRICS_PORT === null || config.WORKER_PORT === null,
        'METRICS_PORT or WORKER_PORT is not set: Prometheus cannot scrape each process.',
      ),
    ],
    ['A notification target', targetRemedy(state)],
    [
      'A nightly proof',
      whenever(
        config.VERIFY_SCHEDULE === null,
        'VERIFY_SCHEDULE is not set: nothing proves the files unless you run `sluice verify`. Set it to a quiet time, such as 03:00.',
      ),
    ],
  ];
  return steps.flatMap(([step, remedy]) => (remedy === null ? [] : [[step, remedy] as const]));
}

function workersRemedy(workers: number): string | null {
  if (workers === 0) return 'No worker has reported in the last minute. Start two.';
  if (workers === 1)
    return 'Only one worker has reported in the last minute. Start another one, so that one may die.';
  return null;
}

function proxyRemedy({ PUBLIC_URL: url, TRUST_PROXY: proxies }: Config): string | null {
  if (url === null) {
    return 'PUBLIC_URL is not set: notifications have no links, and keys may cross the network in plain text. Set it to the https:// address of the proxy.';
  }
  if (!url.startsWith('https://')) {
    return 'PUBLIC_URL is not an https:// address: keys cross the network in plain text. Set it to the address of a proxy with TLS.';
  }
  if (proxies > 0) return null;
  return 'TRUST_PROXY is not set: behind a proxy all clients share the limits of one address. Set it to the number of proxies.';
}

function targetRemedy(state: { readonly targets: number; readonly reachedTargets: number }) {
  if (state.targets === 0) {
    return 'No enabled notification target of the installation exists. Create one and test it.';
  }
  if (state.reachedTargets > 0) return null;
  return 'No notification target of the installation has received a message lately. Test it: `sluice notifications test --installation <target>`.';
}

/** One check of an installation. */
export interface Examined {
  readonly check: string;
  readonly result: 'ok' | 'warning' | 'failed';
  /** The finding; if it is not ok, also the remedy. */
  readonly detail: string;
}

export const ok = (check: string, detail: string): Examined => ({ check, result: 'ok', detail });
export const failed = (check: string, detail: string): Examined => ({
  check,
  result: 'failed',
  detail,
});

/** The message of an error; of the first one if there are many. */
export function reasonOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return reasonOf(error.errors[0]);
  return error instanceof Error ? error.message || error.name : String(error);
}
