import { setMaxListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { VerifyReport } from '../../src/service/verify/verify-exports.ts';
import { runCli } from '../support/cli.ts';
import { backfill, projectPath } from '../support/exported-events.ts';
import {
  bucket,
  type Installation,
  type QueueKind,
  testedQueues,
} from '../support/installation.ts';
import { expectInvariants, findNamedKeyViolations } from '../support/invariants.ts';
import { randomOf } from '../support/random.ts';
import { until } from '../support/until.ts';
import {
  type FailedRun,
  listFailedRuns,
  quiesce,
  retryFailed,
  untilLookedBack,
} from './storm/calm.ts';
import { compare, type Verdict } from './storm/check.ts';
import { erasePeople } from './storm/erase.ts';
import { Fleet } from './storm/fleet.ts';
import { endOutliving, outliveRuns } from './storm/outlive.ts';
import { comeHome, decideLateRows, moveBuckets } from './storm/places.ts';
import { leakOne, pruneRows, writeRows } from './storm/rows.ts';
import { databaseWeather, redisWeather, storeWeather } from './storm/weather.ts';
import {
  act,
  maxAttempts,
  openWorld,
  past,
  persistently,
  type StormExport,
  type World,
} from './storm/world.ts';

/**
 * Runs `sluice verify` again and again beside all else. What it cannot read in the storm is no alarm; a broken promise is one,
 * for nothing in the storm breaks any.
 */
async function verifyBeside(world: World, signal: AbortSignal): Promise<void> {
  const { installation, exports, alarms, counts, seed } = world;
  const random = randomOf(seed, 'verify');
  // The models file names variables of the process, and the command runs in this one.
  const { STANDBY_URL, PRIMARY_URL } = installation.env;
  Object.assign(process.env, { STANDBY_URL, PRIMARY_URL });
  await act(
    signal,
    () => random.between(2_000, 8_000),
    async () => {
      const [first, ...others] = exports;
      if (!first) return;
      const { id } = random.pick([first, ...others]);
      const args = ['verify', '--json', '--export', id];
      const { out, err } = await runCli(args, { env: installation.env, signal });
      if (out === '') {
        world.unverified = err;
        return;
      }
      const { findings, results }: VerifyReport = JSON.parse(out);
      for (const { invariant, detail } of findings) alarms.add(`${invariant}: ${detail}`);
      if (results.some(({ failure }) => failure === null)) counts.verified += 1;
      else world.unverified = results.map(({ failure }) => failure).join(', ');
    },
  );
}

const kills = Number(process.env.KILLS ?? 1_000);
const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31));
const queue: QueueKind =
  process.env.QUEUE === 'postgres' ? 'postgres' : (testedQueues().at(-1) ?? 'postgres');
const isShort = kills < 100;
const rowsOfThePast = isShort ? 4_000 : 20_000;

test(
  `a storm of ${kills} kills and all else that breaks loses no row, doubles none and fails no run`,
  async () => {
    console.log(`storm on ${queue}: seed ${seed} (again with SEED=${seed})`);
    const world = await openWorld(seed, queue, rowsOfThePast);
    try {
      const losses = await rage(world);
      await endOutliving(world);
      await quiesce(world);
      await comeHome(world);
      const failed = await listFailedRuns(world);
      for (const run of failed) console.log(`${run.status} ${run.name}: ${JSON.stringify(run)}`);
      await retryFailed(world);
      await untilLookedBack(world).catch((error: unknown) =>
        world.surprises.push(`the look-back: ${String(error)}`),
      );
      await decideLateRows(world);
      const first = await compare(world);
      const verified = await expectInvariantsOf(world);
      const last = await compare(world);
      await report(world, first, last, failed, losses);

      expect(show(first)).toEqual(clean);
      expect(show(last)).toEqual(clean);
      // What was delivered stays, and nothing else is in the files.
      expect(last.foreign.filter((at) => !world.deleted.has(keyOf(at)))).toEqual([]);
      const isErased = (at: string) => world.erased.has(`${at.split(' ')[0]} ${keyOf(at)}`);
      expect(last.foreign.filter(isErased)).toEqual([]);
      expect(await findNamedKeyViolations(world.installation)).toEqual([]);
      expect(failed.filter(isWithoutCause)).toEqual([]);
      expect(await describeUploads(world)).toEqual([]);
      expect(world.surprises).toEqual([]);
      expect([...world.alarms]).toEqual([]);
      expect(verified.rows).toBeGreaterThan(rowsOfThePast);
      // A storm that does nothing finds nothing. A short one may leave no verification the time to end.
      expect(world.pruned.size).toBeGreaterThan(0);
      if (!isShort) expect(world.counts.verified).toBeGreaterThan(0);
      expect(world.counts.moved).toBeGreaterThan(0);
    } finally {
      await world.close();
    }
  },
  40 * 60_000,
);

const clean = { lost: [], doubled: [], changed: [], untrue: [], missing: [], gone: [] };

function show({ lost, doubled, changed, untrue, missing, gone }: Verdict) {
  const some = (all: readonly string[]) => all.slice(0, 20);
  return {
    lost: some(lost),
    doubled: some(doubled),
    changed: some(changed),
    untrue: some(untrue),
    missing: some(missing),
    gone: some(gone),
  };
}

const keyOf = (at: string): string => at.slice(-36);

/**
 * Nothing in the storm lasts: a run may give up only after all its attempts, each with a fault. But the operator runs intervals
 * anew whose rows have left the source: that is refused. And late rows of an export that has moved wait for a person.
 */
function isWithoutCause({ name, status, error, faults, failures }: FailedRun): boolean {
  if (error.startsWith('source.rows_missing')) return false;
  if (name === 'moving' && error.startsWith('run.late_rows_wait')) return false;
  // Its place was known to be broken, and healed: another run has delivered the interval, or it is found missing.
  if (status === 'FailedRetryable' && error.includes('(no attempt was made: ')) return false;
  return status !== 'FailedRetryable' || faults < maxAttempts || failures < maxAttempts;
}

/** @returns how often Redis lost what it had */
async function rage(world: World): Promise<number> {
  const over = new AbortController();
  setMaxListeners(0, over.signal);
  const fleet = new Fleet(world);
  const striking = randomOf(seed, 'strikes');
  let leaks: Promise<void> | null = null;
  const watching = new AbortController();
  const watch = fleet.watch(watching.signal);
  await backfillAll(world);
  await untilDelivered(world);
  const killing = act(
    over.signal,
    () => striking.between(50, 450),
    async () => {
      await fleet.strike(striking);
      if (world.counts.kills >= kills / 3) leaks ??= leakOne(world);
      if (world.counts.kills >= kills) over.abort();
    },
  );
  const actors = Promise.all([
    killing,
    storeWeather(world, fleet, over.signal),
    databaseWeather(world, over.signal),
    redisWeather(world, over.signal),
    operate(world, over.signal),
    writeRows(world, over.signal),
    pruneRows(world, over.signal),
    outliveRuns(world, over.signal),
    verifyBeside(world, over.signal),
    moveBuckets(world, over.signal),
    erasePeople(world, over.signal),
    progress(world, over.signal),
  ]);
  const [, , , losses] = await actors.finally(() => over.abort());
  await leaks;
  await fleet.calmDown();
  watching.abort();
  await watch;
  return losses;
}

/** Each export has delivered rows of the past: without them nothing can be pruned, moved or erased. */
async function untilDelivered({ installation, exports }: World): Promise<void> {
  await until(
    async () => {
      const { rowCount } = await installation.sql`
        select from receipts where rows > 0 and data_interval_end <= ${past.end}
            group by export_id`.catch(() => ({ rowCount: 0 }));
      return rowCount === exports.length;
    },
    { timeoutMs: 180_000, everyMs: 500, message: 'each export has delivered rows of the past' },
  );
}

async function progress(world: World, signal: AbortSignal): Promise<void> {
  const startedAt = performance.now();
  while (!signal.aborted) {
    await sleep(20_000, undefined, { signal }).catch(() => {});
    const seconds = Math.round((performance.now() - startedAt) / 1_000);
    console.log(`${seconds} s: ${JSON.stringify(world.counts)} ${world.unverified}`);
  }
}

/** Uploads that are left, each with what was asked of its key. */
async function describeUploads({ installation: { s3 } }: World): Promise<readonly string[]> {
  const requests = await s3.requests();
  return (await s3.uploads(bucket)).map(({ key, uploadId, initiatedAt }) => {
    const asked = requests
      .filter((request) => request.key === key || request.operation === 'ListMultipartUploads')
      .map(({ id, operation, status, fault }) => `${id} ${operation} ${status} ${fault ?? ''}`);
    return `${key} ${uploadId} of ${new Date(initiatedAt).toISOString()}: ${asked.join('; ')}`;
  });
}

async function expectInvariantsOf(world: World) {
  // In the storm the sweep has met many faults: the waits of hours after them are over.
  const { pool, sql } = world.installation;
  await sql`update leftover_files set tried_at = null, deleted_at = deleted_at
    - interval '61 minutes'`;
  await pool.query('update upload_places set look_at = now(), tries = 0');
  // What was pruned is gone from the source. `compare` has looked for it in the files.
  return expectInvariants(world.installation, { sourceChanges: true }).catch((error: unknown) => {
    const breaches = JSON.stringify(Reflect.get(Object(error), 'actual'));
    world.surprises.push(`the invariants: ${String(error)} ${breaches}`);
    return { exports: 0, intervals: 0, files: 0, rows: 0, bytes: 0 };
  });
}

async function report(
  world: World,
  first: Verdict,
  last: Verdict,
  failed: readonly FailedRun[],
  losses: number,
): Promise<void> {
  const { installation, counts } = world;
  const faults = (await installation.s3.requests()).filter(({ fault }) => fault !== undefined);
  const { rows } = await installation.sql<{ runs: number }>`select count(*)::int as runs from runs`;
  const violations = await findNamedKeyViolations(installation);
  const sum = (of: (verdict: Verdict) => readonly string[]) =>
    new Set([...of(first), ...of(last)]).size;
  console.log('not erased:', Object.fromEntries(world.unerased));
  console.log(
    `storm on ${queue}, seed ${seed}: ${counts.kills} kills, ${counts.freezes} freezes, ${counts.restarts} restarts, ` +
      `${counts.outlived} transactions that outlived a run, ` +
      `${counts.moved} moves, ${world.erased.size} rows erased, ${losses} Redis losses, ${faults.length} store faults, ${rows[0]?.runs} runs, ${last.rows} rows, ` +
      `${sum(({ lost, missing }) => [...lost, ...missing])} lost, ${sum(({ doubled }) => doubled)} doubled, ${sum(({ gone }) => gone)} of ${world.pruned.size} pruned rows gone, ` +
      `${sum(({ untrue, changed }) => [...untrue, ...changed]) + violations.length} untrue manifests, ` +
      `${failed.filter(isWithoutCause).length} failed without a lasting cause`,
  );
}

const formats = [
  { file_format: 'JSONLines', compression: null },
  { file_format: 'JSONLines', compression: 'gzip' },
  { file_format: 'JSONLines', compression: 'zstd' },
  { file_format: 'CSV', compression: null },
  { file_format: 'CSV', compression: 'gzip' },
  { file_format: 'Parquet', compression: 'zstd' },
  { file_format: 'Parquet', compression: 'snappy' },
] as const;
const folders = ['a', 'b', 'c'] as const;

/** The first backfill of each export: what is delivered then can be pruned, moved and erased. */
async function backfillAll({ installation, exports }: World): Promise<void> {
  for (const target of exports) await persistently(() => backfillIfIdle(installation, target));
}

/** An operator who changes formats, prefixes and manifests, and runs intervals again and again. */
async function operate(world: World, signal: AbortSignal): Promise<void> {
  const { installation, exports, seed } = world;
  const random = randomOf(seed, 'operator');
  const [first, ...others] = exports;
  if (!first) return;
  await act(
    signal,
    () => random.between(300, 1_500),
    async () => {
      const target = random.pick([first, ...others]);
      const kind = random.next();
      const format = random.pick<(typeof formats)[number]>(formats);
      const folder = random.pick(folders);
      const manifest = random.chance(0.5);
      const which = random.next();
      if (kind < 0.35) await backfillIfIdle(installation, target);
      else if (kind < 0.75) await retryOne(installation, target, which);
      else if (target.changes === 'prefix' && which < 0.6)
        await change(world, target, { prefix: `{batch_export_id}/${folder}` });
      else if (target.changes === 'manifest' && which < 0.6)
        await change(world, target, { manifest });
      else await change(world, target, format);
    },
  );
}

async function change(
  { installation, surprises }: World,
  { id }: StormExport,
  config: Readonly<Record<string, unknown>>,
): Promise<void> {
  const path = `${projectPath(installation)}/batch_exports/${id}/`;
  const answer = await installation.client.patch(path, { destination: { type: 'S3', config } });
  if (answer.status >= 400 && answer.status < 500) surprises.push(`PATCH: ${answer.text}`);
}

async function backfillIfIdle(installation: Installation, { id }: StormExport): Promise<void> {
  const { rowCount } = await installation.sql`select from backfills where export_id = ${id}
    and status = 'Running'`;
  if (rowCount === 0) await backfill(installation, id, past, { concurrency: 6 });
}

async function retryOne(installation: Installation, { id }: StormExport, which: number) {
  const { rows } = await installation.sql<{ id: string }>`select id from runs
    where export_id = ${id} and status not in ('Starting', 'Running') order by created_at, id`;
  const run = rows[Math.floor(which * rows.length)];
  if (!run) return;
  const path = `${projectPath(installation)}/batch_exports/${id}/runs/${run.id}/retry/`;
  await installation.client.post(path);
}
