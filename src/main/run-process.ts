import { closeSync, openSync } from 'node:fs';
import { devNull } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { isatty } from 'node:tty';
import closeWithGrace from 'close-with-grace';
import { type Config, ConfigError, readConfig } from '../foundation/config/config.ts';
import { findUnknownSettings } from '../foundation/config/unknown-settings.ts';
import { createLogger } from '../foundation/telemetry/logger.ts';
import { checkReadiness } from '../service/use-cases/installation/check-readiness.ts';
import { QueueSchemaError } from '../state/queue/postgres-backend.ts';
import { ServerError } from '../state/store/database/check-server.ts';
import { SchemaError } from '../state/store/database/migrate.ts';
import { PoolerError } from '../state/store/database/sessions.ts';
import { findFileRootFault } from './check-folders.ts';
import { findTightLimits } from './connections.ts';
import { explainStart } from './explain-start.ts';
import { type Foundation, openFoundation } from './foundation.ts';
import { StartError, waitForDatabase } from './wait-for-database.ts';
import { serveWorkerHealth } from './worker-health.ts';

export interface Part {
  close(): Promise<void>;
}

/** Registers a part to be closed at the end of the process; the last one registered is closed first. */
export type Keep = <P extends Part>(part: P) => P;

/** Time after which unfinished work is given up, if the process is ended while it starts. */
const giveUpMs = 3_000;

/** Serves until a signal. A second SIGINT or the end of the grace period ends it at once; a second SIGTERM, which supervisors send, does not. */
export async function runProcess(
  role: string,
  config: Config,
  port: number | null,
  start: (foundation: Foundation, keep: Keep, end: () => Promise<void>) => Promise<void>,
): Promise<void> {
  leaveTerminal();
  const parts: Part[] = [];
  const closeParts = async () => {
    for (const part of parts.splice(0).toReversed()) await part.close();
  };
  const logger = createLogger(config.LOG_LEVEL, { role });
  for (const { name, nearest } of findUnknownSettings()) {
    const remedy = nearest === null ? '.env.example has all' : `Did you mean ${nearest}?`;
    logger.warn(`${name} is not a setting. ${remedy}`);
  }
  const giveUp = new AbortController();
  let opening: Promise<Foundation> | null = null;
  const closing = closeWithGrace(
    { delay: config.SHUTDOWN_GRACE_SECONDS * 1_000, logger },
    async ({ err, signal }) => {
      process.removeAllListeners('SIGTERM').on('SIGTERM', () => {});
      if (err) logger.fatal({ err }, 'an error ended the process');
      else if (signal) logger.info({ signal }, 'shutting down');
      giveUp.abort();
      const opened = opening?.catch(() => {});
      // An embedded server that is starting must be stopped again; everything else ends by itself.
      await (config.DATABASE_URL === null ? opened : Promise.race([opened, sleep(giveUpMs)]));
      await closeParts();
    },
  );
  const keep: Keep = (part) => {
    parts.push(part);
    return part;
  };
  try {
    const probes = await answerProbes(config.HOST, port);
    try {
      const { onWait } = probes;
      opening = openFoundation(config, role, { logger, signal: giveUp.signal, onWait }).then(keep);
      const foundation = await opening;
      const waiting = { logger, signal: giveUp.signal, onWait };
      await waitForDatabase(() => checkSourceRoles(foundation), waiting);
      const rootFault = await findFileRootFault(config);
      if (rootFault !== null) logger.error(rootFault);
      await probes.close();
      giveUp.signal.throwIfAborted();
      await start(foundation, keep, async () => {
        closing.uninstall();
        await closeParts();
      });
      await warnOfConnections(foundation);
    } finally {
      await probes.close();
    }
  } catch (error) {
    // The signal that ended the start ends the process too.
    if (giveUp.signal.aborted) return;
    const text = explainStart(error, config) ?? describeFault(error);
    process.stderr.write(`sluice ${role}: ${text}\n`);
    process.exitCode = 1;
    await closeParts();
    process.exit();
  }
}

/** As a daemon's does: if its terminal were closed, Node would abort at the end, or never end (nodejs/node#51519). */
function leaveTerminal(): void {
  const standardInput = 0;
  if (!isatty(standardInput)) return;
  closeSync(standardInput);
  // Takes the lowest number that is free.
  openSync(devNull, 'r');
}

/** Answers the probes while the process starts. */
async function answerProbes(host: string, port: number | null) {
  let reason: string | null = 'starting';
  // If the port is taken, the part that serves at it reports that.
  const health = port
    ? await serveWorkerHealth({
        host,
        port,
        metrics: null,
        readiness: () =>
          checkReadiness({
            databaseFault: async () => reason,
            queueFault: async () => null,
            holdReason: async () => null,
          }),
      }).catch(() => null)
    : null;
  return {
    onWait: (waitsFor: string | null) => {
      reason = waitsFor ?? 'starting';
    },
    close: async () => health?.close(),
  };
}

const selfExplaining = [ConfigError, PoolerError, QueueSchemaError, SchemaError, ServerError];

/** The server's own words, such as those about a statement of a migration that it refuses. Null for any other error. */
function saidByPostgres(error: unknown): string | null {
  if (!(error instanceof Error)) return null;
  const { code = '', severity } = error as Error & { code?: string; severity?: string };
  return severity !== undefined && /^[0-9A-Z]{5}$/.test(code)
    ? `DATABASE_URL: PostgreSQL refuses a statement of the start: ${error.message} (${code}). Correct it, then start again.`
    : null;
}

/** For standard error. A configuration fault needs no stack; other faults show theirs. */
export function describeFault(error: unknown): string {
  if (error instanceof StartError) return error.message;
  if (selfExplaining.some((kind) => error instanceof kind)) return (error as Error).message;
  const said = saidByPostgres(error);
  if (said !== null) return said;
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

/** Reads the configuration, or prints every fault on standard error and exits. */
export function readConfigOrExit(role: string): Config {
  try {
    return readConfig();
  } catch (error) {
    process.stderr.write(`sluice ${role}: ${describeFault(error)}\n`);
    process.exit(1);
  }
}

/** Never fails. */
async function warnOfConnections({
  config,
  databases: { directUrl, sourceUrl },
  db,
  logger,
  models,
}: Foundation): Promise<void> {
  try {
    const addresses = { directUrl, sourceUrl, models };
    const { tight } = await findTightLimits(config, db, addresses);
    for (const detail of tight) logger.warn(detail);
  } catch (error) {
    logger.debug({ err: error }, 'the limits of connections could not be read');
  }
}

/** A source that takes longer to answer is not checked. */
const patienceMs = 10_000;

/** In production excess rights stop the start, else they are a warning; so is an unreachable source. @throws StartError */
async function checkSourceRoles({
  config,
  logger,
  models,
  sourceOf,
}: Pick<Foundation, 'config' | 'logger' | 'models' | 'sourceOf'>): Promise<void> {
  const sources = new Map(models.map(({ model }) => [sourceOf(model.name), model.name]));
  const checks = [...sources].map(async ([source, model]) => {
    try {
      const rights = await source.findExcessRights(AbortSignal.timeout(patienceMs));
      return rights.length === 0
        ? []
        : [`The source role of model ${model} ${rights.join(' and ')}.`];
    } catch (error) {
      logger.warn({ err: error, model }, 'the rights of the source role could not be checked');
      return [];
    }
  });
  const faults = (await Promise.all(checks)).flat();
  if (faults.length === 0) return;
  const remedy =
    'Set SOURCE_DATABASE_URL to a role that may only read what is exported; docs/security.md shows how.';
  const text = `${faults.join(' ')} ${remedy}`;
  if (config.NODE_ENV !== 'production') {
    logger.warn(text);
    return;
  }
  throw new StartError(`${text} Without NODE_ENV=production, Sluice only warns.`);
}
