import type { Config } from '../foundation/config/config.ts';
import type { SourcedModel } from '../foundation/config/models-file.ts';
import { type ConnectionRoom, readConnectionRoom } from '../rows/sources/index.ts';
import type { Sql } from '../state/store/database/database.ts';
import { countWorkersAndExports } from '../state/store/runs/workers.ts';
import { addressNamesOf } from './models.ts';

type Sizes = Pick<Config, 'DATABASE_POOL_SIZE' | 'REDIS_URL'>;

/** The parts into which a process divides DATABASE_POOL_SIZE. */
export function divideConnections({ DATABASE_POOL_SIZE: all, REDIS_URL: redis }: Sizes) {
  const leases = 1;
  const queue = redis === null ? Math.max(2, Math.floor(all / 3)) : 0;
  return { leases, queue, usual: Math.max(1, all - leases - queue) };
}

/** Connections of previews and checks of a process to all sources: as many as there are at a time. */
export const previewConnections = 8;

/** The number of small runs that have a connection to a source at a time. Most share one for a moment, and then have none. */
export function smallOpensOf({ WORKER_SMALL_RUNS: most }: Pick<Config, 'WORKER_SMALL_RUNS'>) {
  return {
    together: Math.max(1, Math.ceil(most / 8)),
    alone: Math.max(1, Math.ceil(most / 4)),
  };
}

/** `use-cases/runs/look-back.ts` and `worker/run-sample-jobs.ts`: as many as they have lanes. One more waits for transactions. */
const besideRuns = 4 + 2 + 1;

/** Maximum connections of one worker to a source. A large run counts its rows over a second one. */
function sourceConnectionsOf(config: Config): number {
  const { together, alone } = smallOpensOf(config);
  const small = config.WORKER_SMALL_RUNS === 0 ? 0 : together + alone;
  return 2 * config.WORKER_CONCURRENCY + small + besideRuns;
}

interface Demand {
  readonly setting: string;
  readonly connections: number;
  readonly room: readonly ConnectionRoom[];
}

interface Addresses {
  readonly directUrl: string;
  /** Of the models without an address of their own. */
  readonly sourceUrl: string;
  readonly models: readonly SourcedModel[];
}

const patienceMs = 5_000;

/** Of an API and the workers that report. @returns a sentence for each limit of a server, database or role that is too low */
export async function findTightLimits(
  config: Config,
  db: Sql,
  { directUrl, sourceUrl, models }: Addresses,
): Promise<{ readonly tight: readonly string[]; readonly unread: readonly string[] }> {
  const workers = Math.max(1, (await countWorkersAndExports(db)).workers);
  const sources = new Map(
    models.map((model) => [model.sourceUrl ?? sourceUrl, addressNamesOf(model).addressName]),
  );
  const ofSources = previewConnections + 1 + workers * sourceConnectionsOf(config);
  // Behind a pooler only the queue has connections of its own.
  const { DATABASE_POOL_SIZE: all, DATABASE_DIRECT_URL: direct } = config;
  const ofOneProcess = direct === null ? all : divideConnections(config).queue;
  const needs = [
    { address: directUrl, setting: 'DATABASE_URL', connections: (1 + workers) * ofOneProcess },
    ...[...sources].map(([address, setting]) => ({ address, setting, connections: ofSources })),
  ];
  const demands = await Promise.all(
    needs.map(async ({ address, ...demand }): Promise<Demand> => {
      const roomMs = patienceMs / 2;
      const options = { applicationName: 'sluice-start', connectTimeoutMs: patienceMs, roomMs };
      const room = await readConnectionRoom(
        { ...options, connectionString: address },
        AbortSignal.timeout(patienceMs),
      ).catch(() => []);
      return { ...demand, room };
    }),
  );
  const unread = demands.flatMap(({ room, setting }) => (room.length === 0 ? [setting] : []));
  return { tight: describeTight(demands, workers), unread };
}

function describeTight(demands: readonly Demand[], workers: number): readonly string[] {
  const rooms = new Map(demands.flatMap(({ room }) => room.map((one) => [one.key, one] as const)));
  return [...rooms].flatMap(([key, { of, most, remedy }]) => {
    const inside = demands.filter(({ room }) => room.some((one) => one.key === key));
    const sum = inside.reduce((total, { connections }) => total + connections, 0);
    if (sum <= most) return [];
    const parts = inside.map(({ setting, connections }) => `${connections} to ${setting}`);
    return [
      `An API and ${workers === 1 ? 'one worker' : `${workers} workers`} open up to ${sum} connections (${parts.join(', ')}), ` +
        `and ${of} has room for ${most}. With fewer everything becomes slow: raise it (${remedy}), ` +
        'or lower DATABASE_POOL_SIZE, WORKER_CONCURRENCY or WORKER_SMALL_RUNS.',
    ];
  });
}
