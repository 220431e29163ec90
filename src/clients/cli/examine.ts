import { tmpdir } from 'node:os';
import type { Config } from '../../foundation/config/config.ts';
import { systemClock } from '../../foundation/domain/clock.ts';
import { describeError } from '../../foundation/domain/describe-error.ts';
import { toSluiceError } from '../../foundation/domain/errors.ts';
import { openSigner } from '../../service/use-cases/installation/signing.ts';
import { counted } from '../../service/verify/finding.ts';
import { connectQueues, within } from '../../state/queue/connection.ts';
import { checkServer, ServerError } from '../../state/store/database/check-server.ts';
import { type Database, openDatabase, openQueuePool } from '../../state/store/database/database.ts';
import { findSigningKey } from '../../state/store/database/signing-keys.ts';
import { findHold } from '../../state/store/database/eras.ts';
import { checkSchema } from '../../state/store/database/migrate.ts';
import {
  alterRoleSql,
  isComplete,
  readRoleSettings,
} from '../../state/store/database/role-settings.ts';
import { findPoolMode } from '../../state/store/database/sessions.ts';
import { findRefusal } from '../../state/store/database/unavailable.ts';
import { isModelExported } from '../../state/store/exports/exports.ts';
import { listWorkSetAside } from '../../state/store/files/guarded-work.ts';
import { countWorkersAndExports } from '../../state/store/runs/workers.ts';
import { listTenantKeys } from '../../state/store/tenants/tenants.ts';
import { checkModels } from './check-models.ts';
import { findTemporaryFault } from '../../main/check-folders.ts';
import { findTightLimits } from '../../main/connections.ts';
import { openSecretBox } from '../../main/encryption-keys.ts';
import {
  type Examined,
  examineDestinations,
  failed,
  ok,
  reasonOf,
  warning,
} from './examine-destinations.ts';
import { findOfferedModels, findSourceUrl, loadModels } from '../../main/models.ts';
import { findMailFault } from '../../main/notifications.ts';

const queuePatienceMs = 5_000;

/**
 * Examines the database, its schema, the queue, the clocks and the destinations. Never throws.
 *
 * @param onlyInstallation whether a fault that a customer must fix is a warning
 */
export async function examineInstallation(
  config: Config,
  url: string,
  onlyInstallation: boolean,
): Promise<readonly Examined[]> {
  const db = openDatabase({
    connectionString: url,
    applicationName: 'sluice-doctor',
    maxConnections: 2,
    onError: () => {},
  });
  try {
    const database = await examineDatabase(url, config.DATABASE_URL ?? url);
    if (database.result === 'failed') {
      // Without Redis the queue is in the same database.
      return config.REDIS_URL === null ? [database] : [database, await examineQueue(config, url)];
    }
    const migrations = await examineSchema(url);
    const rest = [
      await examineQueue(config, url),
      await examineClock(db),
      await examineTemporaryFolder(),
    ];
    const examined = [database, migrations, ...rest];
    return migrations.result === 'ok'
      ? [
          ...examined,
          await examineEra(db),
          await examineSigning(config, db),
          await examineWorkers(db),
          await examineSetAside(db),
          ...(await examineMail(config)),
          ...(await examineDestinations(config, db, onlyInstallation)),
          ...(await examineModels(config, db, url)),
          ...(await examineConnections(config, db, url)),
        ]
      : examined;
  } finally {
    await db.close();
  }
}

/** A check; if it fails with an error, that is its finding. */
const attempt = (check: string, look: () => Promise<Examined>): Promise<Examined> =>
  look().catch((error: unknown) => failed(check, reasonOf(error)));

async function examineDatabase(url: string, address: string): Promise<Examined> {
  try {
    const version = `PostgreSQL ${await checkServer(url)}`;
    if ((await findPoolMode(address)) === 'session') return ok('database', version);
    const settings = await readRoleSettings(address);
    const { role } = settings;
    return isComplete(settings)
      ? ok(
          'database',
          `${version}, behind a pooler; the role ${role} has the settings of our sessions`,
        )
      : failed(
          'database',
          `DATABASE_URL: behind a pooler in transaction mode the role ${role} needs settings that it lacks. Set DATABASE_DIRECT_URL and run \`sluice migrate\`, or run: ${alterRoleSql(settings)}`,
        );
  } catch (error) {
    if (error instanceof ServerError) return failed('database', error.message);
    const refusal = findRefusal(error);
    const detail =
      refusal === null
        ? `DATABASE_URL: unreachable: ${reasonOf(error)}. Start it, or correct the address.`
        : `DATABASE_URL: ${refusal}.`;
    return failed('database', detail);
  }
}

const examineSchema = (url: string): Promise<Examined> =>
  attempt('migrations', async () => {
    await checkSchema(url);
    return ok('migrations', 'up to date');
  });

/** Without the private part of the newest key nothing is delivered. */
async function examineSigning(config: Config, db: Database): Promise<Examined> {
  try {
    if ((await findSigningKey(db)) === null) return ok('signing key', 'made at the first start');
    await openSigner(db, await openSecretBox(config));
    return ok('signing key', 'it can sign');
  } catch (error) {
    return failed('signing key', describeError(toSluiceError(error)));
  }
}

/** After a restore no run starts until an operator has accepted what is in the buckets. */
const examineEra = (db: Database): Promise<Examined> =>
  attempt('era', async () => {
    const hold = await findHold(db);
    return hold === null ? ok('era', 'accepted') : failed('era', hold);
  });

async function examineQueue(config: Config, url: string): Promise<Examined> {
  const { REDIS_URL: address } = config;
  const where = address === null ? 'in PostgreSQL' : 'Redis, maxmemory-policy noeviction';
  const carrier =
    address ??
    openQueuePool({
      connectionString: url,
      applicationName: 'sluice-doctor',
      maxConnections: 1,
      onError: () => {},
    });
  let connectionFault: unknown = null;
  const queues = connectQueues(
    typeof carrier === 'string'
      ? { kind: 'redis', url: carrier }
      : { kind: 'postgres', pool: carrier.pool },
    (error) => {
      connectionFault = error;
    },
  );
  try {
    // A connection to Redis opens while the first question waits; the producer's own does not wait.
    const [fault] = await within(queuePatienceMs, inspectOnceOpen(queues.inspect));
    return fault === undefined
      ? ok('queue', where)
      : failed('queue', `${fault.replace(/\.$/, '')}.`);
  } catch (error) {
    const name = address === null ? 'DATABASE_URL' : 'REDIS_URL';
    return failed(
      'queue',
      `${name}: unreachable: ${reasonOf(connectionFault ?? error)}. Start it, or correct the address.`,
    );
  } finally {
    await queues.close();
    if (typeof carrier !== 'string') await carrier.close();
  }
}

const retryMs = 100;

async function inspectOnceOpen(
  inspect: () => Promise<readonly string[]>,
): Promise<readonly string[]> {
  const start = systemClock.now();
  for (;;) {
    try {
      return await inspect();
    } catch (error) {
      if (systemClock.now() - start > queuePatienceMs - 2 * retryMs) throw error;
      await new Promise((resolve) => setTimeout(resolve, retryMs));
    }
  }
}

async function examineTemporaryFolder(): Promise<Examined> {
  const fault = await findTemporaryFault();
  return fault === null ? ok('TMPDIR', tmpdir()) : failed('TMPDIR', fault.text);
}

/** A store refuses requests that are signed 15 minutes off. */
const muchMs = 60_000;
const littleMs = 2_000;

/** The best of three: the answer's way back and forth is the error of the measure. */
async function examineClock(db: Database): Promise<Examined> {
  let best = { offsetMs: 0, errorMs: Number.POSITIVE_INFINITY };
  for (let n = 0; n < 3; n += 1) {
    const before = systemClock.now();
    const [row] = await db.query<{ ms: number }>(
      'select (extract(epoch from clock_timestamp()) * 1000)::float8 as ms',
    );
    const after = systemClock.now();
    const errorMs = (after - before) / 2;
    if (errorMs < best.errorMs) best = { offsetMs: (row?.ms ?? 0) - (before + after) / 2, errorMs };
  }
  const offMs = Math.max(0, Math.abs(best.offsetMs) - best.errorMs);
  if (offMs < littleMs) return ok('clock', 'this machine and the database agree');
  const side = best.offsetMs > 0 ? 'behind' : 'ahead of';
  const detail = `This machine is ${Math.round(offMs / 1_000)} s ${side} the database. Synchronize both with NTP.`;
  return (offMs < muchMs ? warning : failed)('clock', detail);
}

async function examineMail(config: Config): Promise<readonly Examined[]> {
  const fault = await findMailFault(config);
  if (fault === undefined) return [];
  return [fault === null ? ok('mail', 'the server accepts the login') : failed('mail', fault)];
}

const examineWorkers = (db: Database): Promise<Examined> =>
  attempt('workers', async () => {
    const { workers, exports } = await countWorkersAndExports(db);
    if (workers > 0) return ok('workers', `${workers} reported in the last minute`);
    const none = 'No worker has reported in the last minute';
    return exports === 0
      ? warning('workers', `${none}. Start two.`)
      : failed(
          'workers',
          `${none}: ${counted(exports, 'export')} ${exports === 1 ? 'waits' : 'wait'}. Start one.`,
        );
  });

const shownWork = 5;

/** Work that no process does any more, because processes died during it. */
const examineSetAside = (db: Database): Promise<Examined> =>
  attempt('work', async () => {
    const setAsideWork = await listWorkSetAside(db, shownWork + 1);
    if (setAsideWork.length === 0) return ok('work', 'none is set aside');
    const shown = setAsideWork.slice(0, shownWork).map(({ kind, id }) => `${kind} of ${id}`);
    const more = setAsideWork.length > shownWork ? ' and more' : '';
    const detail =
      `Workers died repeatedly during ${shown.join(', ')}${more} (\`sluice work list\`), so no worker does it any more. ` +
      'Find the cause in the logs of the workers and fix it. Then run `sluice work retry`.';
    return warning('work', detail);
  });

/** The findings of `findTightLimits`. */
async function examineConnections(
  config: Config,
  db: Database,
  url: string,
): Promise<readonly Examined[]> {
  const check = 'connections';
  try {
    const sourceUrl = await findSourceUrl(config, url);
    const declared = loadModels(config, true).filter(({ addressFault }) => !addressFault);
    const models = await findOfferedModels(config, declared, sourceUrl);
    const { tight, unread } = await findTightLimits(config, db, {
      directUrl: url,
      sourceUrl,
      models,
    });
    const unreadLimits = unread.map(
      (setting) => `${setting}: its limits could not be read, so nothing was compared with them.`,
    );
    const details = [...tight, ...unreadLimits];
    if (details.length === 0) return [ok(check, 'the servers have room for all')];
    return details.map((detail) => warning(check, detail));
  } catch (error) {
    return [failed(check, reasonOf(error))];
  }
}

/** The findings of `sluice models check`. A fault of a model that no export uses is a warning. */
async function examineModels(
  config: Config,
  db: Database,
  url: string,
): Promise<readonly Examined[]> {
  try {
    const isExported = (model: string) => isModelExported(db, model);
    const source = () => findSourceUrl(config, url);
    const checked = await checkModels(config, source, await listTenantKeys(db), isExported);
    return await Promise.all(
      checked.map(async ({ model, findings }): Promise<Examined> => {
        const check = `model ${model}`;
        if (findings.length === 0) return ok(check, 'good');
        const isFailed = findings.some(({ severity }) => severity === 'error');
        const result = isFailed && (await isExported(model)) ? failed : warning;
        return result(check, findings.map(({ detail }) => detail).join(' '));
      }),
    );
  } catch (error) {
    return [failed('models', reasonOf(error))];
  }
}
