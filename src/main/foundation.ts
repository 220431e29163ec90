import { ownSteps } from '../extensions/own-plugins/own-plugins.ts';
import type { Config } from '../foundation/config/config.ts';
import type { SourcedModel } from '../foundation/config/models-file.ts';
import { SluiceError } from '../foundation/domain/errors.ts';
import { failpoint } from '../foundation/failpoints/failpoint.ts';
import { createLogger, type Logger, screenLines } from '../foundation/telemetry/logger.ts';
import { createMetrics, type Metrics } from '../foundation/telemetry/metrics.ts';
import { type Dependency, Outages } from '../foundation/telemetry/outages.ts';
import { ConnectionLimit, type SourceRole } from '../rows/sources/index.ts';
import type { Context, Doorbell } from '../service/use-cases/context.ts';
import { ensureSigningKey, openSigner } from '../service/use-cases/installation/signing.ts';
import { startEmbeddedPostgres } from '../state/embedded-postgres/start.ts';
import { connectQueues, type QueueConnection } from '../state/queue/connection.ts';
import { openProducer, type Producer } from '../state/queue/producer.ts';
import { checkServer } from '../state/store/database/check-server.ts';
import {
  type Database,
  type DatabaseOptions,
  openDatabase,
  openQueuePool,
} from '../state/store/database/database.ts';
import { currentEra, findHold, listEras } from '../state/store/database/eras.ts';
import { checkSchema } from '../state/store/database/migrate.ts';
import { isSameDatabase } from '../state/store/database/sessions.ts';
import { registerEncryptionKeys } from '../state/store/tenants/sealed-secrets.ts';
import { divideConnections, previewConnections } from './connections.ts';
import { openSecretBox } from './encryption-keys.ts';
import {
  ensureSourceRole,
  findOfferedModels,
  joinSources,
  loadModels,
  type SourceOf,
} from './models.ts';
import { policyOf } from './policy.ts';
import { prepareSchemas, requireQueueSession } from './prepare-schemas.ts';
import { watchDependencies } from './service-metrics.ts';
import { type Start, StartError, waitForDatabase } from './wait-for-database.ts';

export interface Foundation {
  readonly config: Config;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly databases: Databases;
  readonly models: readonly SourcedModel[];
  readonly sourceOf: SourceOf;
  /** Of previews and checks, to all sources. */
  readonly sourceConnections: ConnectionLimit;
  readonly db: Database;
  readonly queues: QueueConnection;
  readonly producer: Producer;
  readonly context: Context;
  readonly outages: Outages;
  close(): Promise<void>;
}

const endless = new AbortController().signal;
/** The wait of a check of a source for a connection, if it has as many as it may. */
const roomMs = 5_000;

/**
 * While our database is unreachable it waits, even in the middle of a migration. Source and Redis may be
 * unreachable: their users retry.
 * @throws StartError if the database refuses its address; ServerError if it cannot hold our tables; PoolerError;
 *   SchemaError if the schemas are not up to date and AUTO_MIGRATE is off
 */
export async function openFoundation(
  config: Config,
  role: string,
  start: Partial<Start> = {},
): Promise<Foundation> {
  const { logger = createLogger(config.LOG_LEVEL, { role }), signal = endless } = start;
  const waiting = { logger, signal, onWait: start.onWait ?? (() => {}) };
  const declared = loadModels(config);
  const databases = await openDatabases(config, (message) => logger.info(message));
  const onError = (error: Error) => logger.warn({ err: error }, 'a connection failed');
  try {
    await prepareDatabases(config, databases, declared, waiting);
    const models = await findOfferedModels(config, declared, databases.sourceUrl);
    const secrets = await openSecretBox(config);
    const { pool, queuePool } = poolsOf(config, role, databases, onError);
    const db = openDatabase(pool);
    await waitForDatabase(() => registerEncryptionKeys(db, secrets.keyIds), waiting);
    await waitForDatabase(() => prepareSigning({ db, secrets }, logger), waiting);
    const era = await waitForDatabase(() => watchEra(db, logger), waiting);
    const { queues, closePool } = openQueues(config, queuePool);
    const producer = openProducer(queues, onError);
    const outages = new Outages(
      logger,
      dependenciesOf(db, config.REDIS_URL === null ? null : queues),
    );
    screenLines(logger, outages);
    const metrics = createMetrics();
    watchDependencies(metrics, outages);
    const context: Context = {
      db,
      policy: policyOf(config, declared),
      secrets,
      doorbell: createDoorbell(producer, logger),
      ownSteps,
    };
    const connections = new ConnectionLimit(previewConnections);
    return {
      config,
      logger,
      metrics,
      databases,
      models,
      sourceOf: joinSources(config, models, databases.sourceUrl, { connections, roomMs }),
      sourceConnections: connections,
      db,
      queues,
      producer,
      context,
      outages,
      async close() {
        outages.close();
        era.close();
        await producer.close();
        await queues.close();
        await closePool();
        await db.close();
        await databases.stop();
      },
    };
  } catch (error) {
    await databases.stop();
    throw error;
  }
}

/** Brings the schemas up to date, or checks that they are, each step as soon as the database can be reached. */
async function prepareDatabases(
  config: Config,
  databases: Databases,
  models: readonly SourcedModel[],
  waiting: Start,
): Promise<void> {
  await waitForDatabase(() => checkServer(databases.directUrl), waiting);
  await waitForDatabase(() => checkDirectUrl(databases), waiting);
  if (config.REDIS_URL === null) {
    await waitForDatabase(() => requireQueueSession(databases.directUrl), waiting);
  }
  if (config.AUTO_MIGRATE) {
    const done = await waitForDatabase(() => prepareSchemas(config, databases.directUrl), waiting);
    if (done.length > 0) waiting.logger.info({ migrations: done }, 'migrated');
  }
  await waitForDatabase(() => checkSchema(databases.directUrl), waiting);
  const { sourceRole } = databases;
  if (sourceRole) {
    await waitForDatabase(() => ensureSourceRole(databases.url, sourceRole, models), waiting);
  }
}

function poolsOf(
  config: Config,
  role: string,
  { url, directUrl }: Databases,
  onError: DatabaseOptions['onError'],
): { readonly pool: DatabaseOptions; readonly queuePool: DatabaseOptions } {
  const { usual, queue } = divideConnections(config);
  const applicationName = `sluice-${role}`;
  return {
    pool: { connectionString: url, applicationName, maxConnections: usual, writes: true, onError },
    queuePool: {
      connectionString: directUrl,
      applicationName: `${applicationName}-queue`,
      maxConnections: queue,
      onError,
    },
  };
}

/** The queues: in Redis, or in our database with connections of their own. */
function openQueues(
  { REDIS_URL: redis }: Config,
  pool: DatabaseOptions,
): { readonly queues: QueueConnection; closePool(): Promise<void> } {
  const { onError } = pool;
  if (redis !== null) {
    const queues = connectQueues({ kind: 'redis', url: redis }, onError);
    return { queues, closePool: async () => {} };
  }
  const own = openQueuePool(pool);
  const queues = connectQueues({ kind: 'postgres', pool: own.pool }, onError);
  return { queues, closePool: () => own.close() };
}

/** The needs of this process. @param redis null: the queue is in PostgreSQL */
function dependenciesOf(db: Database, redis: QueueConnection | null): readonly Dependency[] {
  const postgres: Dependency = {
    name: 'postgres',
    setting: 'DATABASE_URL',
    effect: 'Nothing is lost: requests are refused with 503, and runs go on when it is reachable.',
    probe: () => db.query('select 1'),
  };
  if (redis === null) return [postgres];
  return [
    postgres,
    {
      name: 'redis',
      setting: 'REDIS_URL',
      effect: 'Nothing is lost: work is recorded in PostgreSQL and starts when Redis serves it.',
      probe: () => redis.inspect(),
      refusal: () => redis.findRefusal(),
    },
  ];
}

/** @throws StartError if the two addresses of our own tables lead to different databases */
async function checkDirectUrl({ url, directUrl }: Databases): Promise<void> {
  if (directUrl === url || (await isSameDatabase(url, directUrl))) return;
  throw new StartError(
    'DATABASE_DIRECT_URL leads to another database than DATABASE_URL. Set it to the address of the same one, without the pooler.',
  );
}

/** Notifies through the queue. If that fails, the next tick does the work. */
function createDoorbell(producer: Producer, logger: Logger): Doorbell {
  const notify = async (what: string, send: () => Promise<void>) => {
    try {
      await failpoint('before_enqueue');
      await send();
    } catch (error) {
      logger.debug({ err: error }, `${what}: the queue is unreachable`);
    }
  };
  return {
    runsWaiting: () => void notify('dispatch-runs', () => producer.add('dispatch-runs', {})),
    backfillWaiting: (backfillId) =>
      void notify('advance-backfill', () => producer.add('advance-backfill', { backfillId })),
  };
}

export interface Databases {
  readonly url: string;
  readonly directUrl: string;
  readonly sourceUrl: string;
  /** The role in `sourceUrl`, if this process keeps it up to date. */
  readonly sourceRole: Pick<SourceRole, 'name' | 'password'> | null;
  /** Publishes the address of this service to a second one on the same data folder. */
  publish(address: string): Promise<void>;
  /** Stops what was started here. */
  stop(): Promise<void>;
}

/** Uses DATABASE_URL. Without it, starts the embedded PostgreSQL. @throws StartError if another process owns that */
export async function openDatabases(
  config: Config,
  log: (message: string) => void,
): Promise<Databases> {
  if (config.DATABASE_URL !== null) {
    const url = config.DATABASE_URL;
    const directUrl = config.DATABASE_DIRECT_URL ?? url;
    return {
      url,
      directUrl,
      sourceUrl: config.SOURCE_DATABASE_URL ?? directUrl,
      sourceRole: null,
      publish: async () => {},
      stop: async () => {},
    };
  }
  const postgres = await startEmbeddedPostgres({ dataDir: config.SLUICE_DATA_DIR, log }).catch(
    (error: unknown) => {
      // Its own errors say what to do; those of the operating system have a code.
      const isAdvice = error instanceof Error && error.constructor === Error && !('code' in error);
      throw isAdvice ? new StartError(error.message) : error;
    },
  );
  return {
    url: postgres.url,
    directUrl: postgres.url,
    sourceUrl: config.SOURCE_DATABASE_URL ?? postgres.sourceUrl,
    publish: (address) => postgres.publish(address),
    sourceRole: config.SOURCE_DATABASE_URL === null ? postgres.sourceRole : null,
    stop: () => postgres.stop(),
  };
}

/** Makes the first key that signs. If the private part of the newest one is lost, no run delivers, and the log says so. */
async function prepareSigning(
  keeper: Pick<Context, 'db' | 'secrets'>,
  logger: Logger,
): Promise<void> {
  await ensureSigningKey(keeper);
  await openSigner(keeper.db, keeper.secrets).catch((error: unknown) => {
    if (!(error instanceof SluiceError)) throw error;
    logger.error({ err: error }, `${error.spec.means} ${error.spec.remedy}`);
  });
}

const everyMs = 60_000;

/** Now and every minute: reports a new era once, and a held one each time. */
async function watchEra(db: Database, logger: Logger): Promise<{ close(): void }> {
  let lastEra = (await listEras(db)).at(-1)?.number ?? null;
  const look = async () => {
    const { number } = await currentEra(db);
    if (lastEra !== null && number !== lastEra) {
      const begun = (await listEras(db)).filter((era) => era.number > (lastEra ?? 0));
      for (const { number: era, reason } of begun)
        logger.warn({ era }, `A new era began. ${reason}`);
    }
    lastEra = number;
    const hold = await findHold(db);
    if (hold !== null) logger.warn({ era: number }, `The service is held. ${hold}`);
  };
  await look();
  const timer = setInterval(
    () => void look().catch((error) => logger.debug({ err: error }, 'the era could not be read')),
    everyMs,
  );
  timer.unref();
  return { close: () => clearInterval(timer) };
}
