import { randomBytes, randomUUID } from 'node:crypto';
import { ownSteps } from '../../src/extensions/own-plugins/own-plugins.ts';
import { type Config, readConfig } from '../../src/foundation/config/config.ts';
import type { BatchExport } from '../../src/foundation/domain/batch-export.ts';
import type { SluiceError } from '../../src/foundation/domain/errors.ts';
import { changeSettings } from '../../src/foundation/domain/export-settings.ts';
import type { Policy } from '../../src/foundation/domain/policy.ts';
import { toTimestampOrNull } from '../../src/foundation/domain/time.ts';
import { createSecretBox } from '../../src/foundation/security/secret-box.ts';
import { policyOf } from '../../src/main/policy.ts';
import { parseCadence } from '../../src/service/scheduling/parse-cadence.ts';
import { openSchedule, type Settings } from '../../src/service/scheduling/schedule.ts';
import type { Context } from '../../src/service/use-cases/context.ts';
import { decideTicks } from '../../src/service/use-cases/runs/decide-ticks.ts';
import { cancelRun, retryRun } from '../../src/service/use-cases/runs/cancel-work.ts';
import { recordFault } from '../../src/service/use-cases/runs/finish-run.ts';
import { type Database, openDatabase, type Sql } from '../../src/state/store/database/database.ts';
import type { NewBatchExport } from '../../src/state/store/exports/exports.ts';
import { readNow } from '../../src/state/store/intervals/ticks.ts';
import type { ClaimedRun } from '../../src/state/store/runs/claims.ts';
import { type FoundRun, findRun } from '../../src/state/store/runs/runs.ts';
import { createTestDatabase, type TestDatabase } from './database.ts';
import { recordManifest } from './record-manifest.ts';
import { claimRun } from './run-verbs.ts';
import { type SqlTag, sqlOf } from './sql.ts';
import { storeExport } from './store-export.ts';
import { createTenant, type Tenant } from './tenants.ts';
import { until } from './until.ts';
import { useStage } from './use-stage.ts';

export const hourMs = 3_600_000;

/** As a claimed run names itself. */
interface RunName {
  readonly exportId: string;
  readonly runId: string | undefined;
}

/** What the worker's use cases need, over a database of its own. No queue. */
export interface RunSide {
  readonly url: string;
  /** As a superuser, in the same database. */
  readonly admin: TestDatabase['admin'];
  readonly adminUrl: string;
  readonly db: Database;
  readonly sql: SqlTag;
  readonly context: Context;
  readonly tenant: Tenant;
  /** The tenant's first project. */
  readonly teamId: number;
  /** Who changes things, for the record of changes. */
  readonly actor: { readonly organizationId: string; readonly keyId: null };
  /** The context with other decisions of the operator. */
  withPolicy(changes: Partial<Policy>): Context;
  /** An export as if made a while ago, with nothing decided since. */
  createExport(wanted?: ExportWanted): Promise<BatchExport>;
  /** An export whose runs of the last hours wait for their first attempts. */
  exportWithRuns(
    count: number,
    teamId?: number,
  ): Promise<{ readonly id: string; readonly runIds: string[] }>;
  /** An export with one run that waits for its first attempt. */
  waitingRun(): Promise<{ readonly exportId: string; readonly runId: string }>;
  /** Decides what is due; a schedule that cannot be planned fails the test. */
  decide(): Promise<number>;
  /** A worker takes the run. Fails if it may not. */
  claim(runId: string | undefined, options?: Parameters<typeof claim>[2]): Promise<ClaimedRun>;
  /** The run of an export of its own, which a worker has taken. */
  claimed(): Promise<ClaimedRun>;
  /** Its lease ends, and another worker takes the run. */
  overtake(runId: string): Promise<ClaimedRun>;
  /** The worker has committed an empty manifest. @returns false if its lease is lost */
  complete(run: ClaimedRun): Promise<boolean>;
  /** Claims the run and lets the attempt end in `error`. */
  failAttempt(runId: string, error: SluiceError): Promise<void>;
  /** Claims and completes one run after the other. */
  completeRuns(...runIds: readonly (string | undefined)[]): Promise<void>;
  /** The run as it is stored. Fails if there is none. */
  findRun(run: RunName): Promise<FoundRun>;
  /** A person cancels the run. */
  cancel(run: RunName): Promise<void>;
  /** A person retries the run. @returns the id of the new one */
  retry(run: RunName): Promise<string>;
  /** Runs of an export, oldest interval first. */
  listRuns(exportId: string): Promise<RunRow[]>;
  /** The oldest of an export's runs; fails if there is none. */
  firstRun(exportId: string): Promise<RunRow>;
  /** Lets the lease of a run run out now, as if its worker were long silent. */
  expireLease(runId: string): Promise<void>;
  /** The settings of a worker over this database. */
  workerConfig(env?: Readonly<Record<string, string>>): Config;
  /** Waits until a session of this database waits for a lock. */
  untilLocked(): Promise<unknown>;
  stop(): Promise<void>;
}

export async function openRunSide(changes: Partial<Policy> = {}): Promise<RunSide> {
  const database = await createTestDatabase();
  const db = openTestPool(database.url);
  const tenant = await createTenant(db);
  const policy = { ...policyOf(readConfig({})), maxJitterSeconds: 0, ...changes };
  const context: Context = {
    db,
    policy,
    secrets: createSecretBox([{ id: 'test', key: randomBytes(32) }]),
    doorbell: { runsWaiting() {}, backfillWaiting() {} },
    ownSteps,
  };
  const teamId = tenant.projectIds[0];
  const side = { db, teamId };
  const usual = {
    DATABASE_URL: database.url,
    ENCRYPTION_KEYS: `test:${randomBytes(32).toString('base64')}`,
    LOG_LEVEL: 'silent',
    MAX_JITTER_SECONDS: '0',
  };
  const exportWithRuns = async (count: number, ofTeam = teamId) => {
    const wanted = { createdMsAgo: count * hourMs, teamId: ofTeam };
    const { id } = await createExportOfThePast(side, wanted);
    await decide(context);
    return { id, runIds: (await listRuns(db, id)).map((run) => run.id) };
  };
  const find = async ({ exportId, runId }: RunName) => {
    const run = await findRun(db, exportId, runId ?? '');
    if (!run) throw new Error(`there is no run ${runId}`);
    return run;
  };
  return {
    url: database.url,
    admin: database.admin,
    adminUrl: database.adminUrl,
    db,
    sql: sqlOf(db),
    context,
    tenant,
    teamId,
    actor: { organizationId: tenant.organizationId, keyId: null },
    withPolicy: (more) => ({ ...context, policy: { ...policy, ...more } }),
    createExport: (wanted) => createExportOfThePast(side, wanted),
    exportWithRuns,
    async waitingRun() {
      const { id, runIds } = await exportWithRuns(1);
      return { exportId: id, runId: runIds[0] ?? '' };
    },
    claimed: async () => claim(side, (await exportWithRuns(1)).runIds[0] ?? ''),
    async overtake(runId) {
      await expireLease(db, runId);
      return claim(side, runId);
    },
    decide: () => decide(context),
    claim: (runId, options) => claim(side, runId ?? '', options),
    complete: (run) => complete(context, run),
    failAttempt: (runId, error) => failAttempt(side, context, runId, error),
    async completeRuns(...runIds) {
      for (const runId of runIds) {
        const isDone = await complete(context, await claim(side, runId ?? ''));
        if (!isDone) throw new Error(`run ${runId} has lost its lease`);
      }
    },
    findRun: find,
    cancel: async (run) => cancelRun(context, await find(run)),
    retry: async (run) => retryRun(context, await find(run)),
    listRuns: (exportId) => listRuns(db, exportId),
    firstRun: (exportId) => firstRun(db, exportId),
    expireLease: (runId) => expireLease(db, runId),
    workerConfig: (env) => readConfig({ ...usual, ...env }),
    untilLocked: () =>
      until(async () => {
        const waits = await db.query(
          `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
        );
        return waits.length > 0;
      }),
    async stop() {
      await db.close();
      await database.drop();
    },
  };
}

/** A run side that all tests of a file share. */
export const useRunSide = (...changes: Parameters<typeof openRunSide>): RunSide =>
  useStage(() => openRunSide(...changes));

/** Our own pool, as a worker opens it. */
export function openTestPool(url: string, maxConnections = 25): Database {
  return openDatabase({
    connectionString: url,
    applicationName: 'test',
    maxConnections,
    onError: () => {},
  });
}

export interface ExportWanted extends Partial<Omit<Settings, 'cadence'>> {
  readonly teamId?: number;
  readonly interval?: string;
  /** How long ago it was created: its ticks since then are due. Default: one hour. */
  readonly createdMsAgo?: number;
  readonly mode?: BatchExport['mode'];
  readonly keepSnapshots?: number | null;
  readonly healForHours?: number;
  readonly deadlineMinutes?: number;
  readonly warnMinutes?: number;
  readonly destination?: BatchExport['destination'];
}

/** An export as if made a while ago, with nothing decided since. */
export async function createExportOfThePast(
  side: Pick<RunSide, 'db' | 'teamId'>,
  wanted: ExportWanted = {},
): Promise<BatchExport> {
  const stored = await storeExport(side.db, await exportOfThePast(side, wanted));
  if (!stored) throw new Error('the project is full');
  return stored;
}

/** The same before it is stored. */
export async function exportOfThePast(
  side: { readonly db: Sql; readonly teamId: number },
  wanted: ExportWanted = {},
): Promise<NewBatchExport> {
  const { interval = 'hour', createdMsAgo = hourMs, paused = false } = wanted;
  const { startAt = null, endAt = null } = wanted;
  const parsed = parseCadence({ interval }, 1);
  if (!parsed.ok) throw new Error(`no interval: ${interval}`);
  const { cadence } = parsed;
  const now = (await readNow(side.db)) - createdMsAgo;
  return {
    id: randomUUID(),
    teamId: wanted.teamId ?? side.teamId,
    name: 'An export',
    destination: wanted.destination ?? { type: 'NoOp', config: {}, secrets: null },
    cadence,
    model: 'events',
    dslQuery: null,
    querySchema: null,
    filters: null,
    transformations: false,
    paused,
    lastPausedAt: null,
    pausedReason: null,
    pausedCode: null,
    startAt: toTimestampOrNull(startAt),
    endAt: toTimestampOrNull(endAt),
    ...changeSettings(null, wanted),
    schedule: openSchedule({ cadence, paused, startAt, endAt }, now),
  };
}

/** Decides what is due; a schedule that cannot be planned fails the test. */
export function decide(context: Context): Promise<number> {
  return decideTicks(context, {
    onError: (error) => {
      throw error;
    },
  });
}

/** A worker takes the run. Fails if it may not. */
export async function claim(
  side: Pick<RunSide, 'db'>,
  runId: string,
  { holder = String(randomUUID()), leaseMs = 60_000 } = {},
): Promise<ClaimedRun> {
  const run = await claimRun(side.db, runId, holder, leaseMs);
  if (!run) throw new Error(`run ${runId} cannot be claimed`);
  return run;
}

/** The worker has committed an empty manifest. @returns false if its lease is lost */
export function complete(context: Context, run: ClaimedRun): Promise<boolean> {
  const put = { manifestKey: 'manifest.json', manifestEtag: `"${run.fence}"`, rows: 0 };
  return recordManifest(context, run, put);
}

/** Claims the run and lets the attempt end in `error`. */
export async function failAttempt(
  side: Pick<RunSide, 'db'>,
  context: Context,
  runId: string,
  error: SluiceError,
): Promise<void> {
  await recordFault(context, await claim(side, runId), error, 0);
}

export interface RunRow {
  readonly id: string;
  readonly status: string;
  readonly start: string;
  readonly end: string;
  readonly backfillId: string | null;
  readonly fence: number;
  readonly attempt: number;
  readonly crashes: number;
  readonly faults: number;
  readonly errorCode: string | null;
  readonly waits: boolean;
}

/** Runs of an export, oldest interval first. */
export function listRuns(db: Database, exportId: string): Promise<RunRow[]> {
  return db.query<RunRow>(
    `select r.id, status, r.data_interval_start as start, r.data_interval_end as "end", r.backfill_id as "backfillId",
            fence, attempt, crashes, faults, error_code as "errorCode", o.run_id is not null as waits
       from runs r left join outbox o on o.run_id = r.id
      where r.export_id = $1 order by r.data_interval_start, r.generation`,
    [exportId],
  );
}

/** Lets the lease of a run run out now, as if its worker were long silent. */
export async function expireLease(db: Database, runId: string): Promise<void> {
  await db.query(`update runs set lease_expires_at = now() - interval '1 s' where id = $1`, [
    runId,
  ]);
}

/** The oldest of an export's runs; fails if there is none. */
export async function firstRun(db: Database, exportId: string): Promise<RunRow> {
  const [run] = await listRuns(db, exportId);
  if (!run) throw new Error('the export has no run');
  return run;
}

/** A commit that makes nothing readable. */
export const emptyCommit = { generation: 1, destinationVersion: 0, manifestKey: null, keys: [] };
