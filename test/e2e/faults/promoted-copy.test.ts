import { Pool } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { acceptCurrentEra } from '../../../src/service/use-cases/installation/accept-era.ts';
import { createApiClient } from '../../support/api-client.ts';
import {
  backfill,
  createS3Export,
  hour,
  insertEvents,
  type RunRow,
  untilEnded,
} from '../../support/exported-events.ts';
import { hourRuns } from '../../support/hour-runs.ts';
import { bucket, type Installation, startInstallation } from '../../support/installation.ts';
import { expectInvariants } from '../../support/invariants.ts';
import { startBundled, type TestProcess } from '../../support/processes.ts';
import { startReplication } from '../../support/standby.ts';
import { until } from '../../support/until.ts';
import { useStage } from '../../support/use-stage.ts';

const secondHour = { start: hour.end, end: '2024-03-01T02:00:00Z' };
const thirdHour = { start: secondHour.end, end: '2024-03-01T03:00:00Z' };

const replication = useStage(() => startReplication());
const installation = useStage(() =>
  startInstallation({ workers: 0, databaseUrl: replication.primary.url }),
);
let copyPool: Pool;
beforeAll(() => {
  copyPool = new Pool({ connectionString: replication.standbyUrl, max: 2 });
  copyPool.on('error', () => {});
});
afterAll(() => copyPool?.end());

/** The promoted standby as an installation of its own: the bucket, the tenant and the keys are the same. */
async function startCopy(): Promise<Installation & { stop(): Promise<void> }> {
  const env = { ...installation.env, DATABASE_URL: replication.standbyUrl };
  const api = startBundled('main/api.js', [], { env: { ...env, PORT: '0' } });
  const worker = startBundled('main/worker.js', [], { env });
  const address = (await api.waitForLine(/^ready http/)).replace(/^ready /, '');
  await worker.waitForLine(/^ready/);
  const end = async (process: TestProcess) => {
    process.kill('SIGTERM');
    await process.waitForExit(40_000);
  };
  return {
    ...installation,
    env,
    pool: copyPool,
    client: createApiClient(address, installation.tenant.key),
    stop: async () => void (await Promise.all([api, worker].map(end))),
  };
}

/** What readers of the bucket see, without one export: each object with its tag. */
async function readBucket(without = 'no export'): Promise<string[]> {
  const objects = await installation.s3.objects(bucket);
  const seen = objects.filter(({ key }) => !key.startsWith(without));
  return seen.map(({ key, etag }) => `${key} ${etag}`).sort();
}

const outcomes = (runs: readonly RunRow[]) =>
  runs.map(({ status, errorCode, rows }) => errorCode ?? `${status} ${rows}`);

test('a promoted copy of the database and the original never replace what the other has exported', async () => {
  const team = installation.tenant.projectIds[0];
  const { breakAt, wake, runAgain } = hourRuns(() => installation);
  await insertEvents(installation.pool, { team, rows: 10 });
  await insertEvents(installation.pool, { team, rows: 2, ...secondHour });
  await insertEvents(installation.pool, { team, rows: 4, ...thirdHour });
  const first = await installation.startWorker();
  const both = await createS3Export(installation, { name: 'exported by both' });
  const bare = await createS3Export(installation, { name: 'bare', config: { manifest: false } });
  await runAgain(both, 0);
  await runAgain(bare, 0);
  first.kill('SIGTERM');
  await first.waitForExit();
  const frozen = await createS3Export(installation, { name: 'live when the copy was made' });
  const sleeper = await breakAt(frozen, 'before_manifest', 'stop');
  await replication.untilReplayed();
  await replication.detach();

  // The original goes on, without the run that is frozen.
  await installation.sql`update outbox set available_at = now() + interval '1 hour'; update runs
    set lease_expires_at = now() + interval '1 hour' where lease_expires_at is not null`;
  const second = await installation.startWorker();
  await insertEvents(installation.pool, { team, rows: 5 });
  await insertEvents(installation.pool, { team, rows: 7, ...secondHour });
  expect(await runAgain(both, 1)).toMatchObject({ status: 'Completed', rows: 15 });
  expect(await runAgain(bare, 1)).toMatchObject({ status: 'Completed', rows: 15 });
  for (const id of [both, bare]) {
    await backfill(installation, id, secondHour);
    const runs = await untilEnded(installation, id, { count: 3 });
    expect(outcomes(runs)).toEqual(['Completed 10', 'Completed 15', 'Completed 9']);
  }
  const replaced = () =>
    installation.sql`select from leftover_files l join receipts c using (export_id,
      data_interval_start) where l.generation < c.generation and l.deleted_at is null`;
  await until(async () => (await replaced()).rowCount === 0);
  second.kill('SIGTERM');
  await second.waitForExit();

  const ofTheOriginal = await readBucket(frozen);
  await replication.promote();
  const copy = await startCopy();
  // The copy lacks the new rows. It continues the run that was live, which the original has not committed.
  expect(await untilEnded(copy, frozen)).toMatchObject([{ status: 'Completed', rows: 10 }]);
  for (const id of [both, bare]) {
    await backfill(copy, id, { start: hour.start, end: secondHour.end });
    const runs = await untilEnded(copy, id, { count: 3 });
    const held = 'run.unknown_history';
    expect(outcomes(runs), id).toEqual(['Completed 10', held, held]);
  }
  expect(await readBucket(frozen)).toEqual(ofTheOriginal);
  const { rows: eras } = await copy.pool.query('select needs_acceptance from eras order by number');
  expect(eras).toEqual([{ needs_acceptance: false }, { needs_acceptance: false }]);

  // What the copy exports first is held by the original.
  for (const id of [both, bare]) {
    await backfill(copy, id, thirdHour);
    expect(outcomes(await untilEnded(copy, id, { count: 4 })).at(-1), id).toBe('Completed 4');
  }
  const ofTheCopy = await readBucket();
  await wake(sleeper);
  await installation.startWorker();
  await installation.sql`update outbox set available_at = now(); update runs
    set lease_expires_at = now() where lease_expires_at is not null`;
  expect(outcomes(await untilEnded(installation, frozen))).toEqual(['run.unknown_history']);
  for (const id of [both, bare]) {
    await backfill(installation, id, thirdHour);
    expect(outcomes(await untilEnded(installation, id, { count: 4 })).at(-1), id).toBe(
      'run.unknown_history',
    );
  }
  expect(await readBucket()).toEqual(ofTheCopy);

  // The copy is shut down for good, and the operator of the original says so.
  await copy.stop();
  await acceptCurrentEra(installation.db);
  expect(await runAgain(frozen, 1)).toMatchObject({ status: 'Completed', rows: 15 });
  expect(await runAgain(both, 4)).toMatchObject({ status: 'Completed', rows: 4 });
  expect(await runAgain(bare, 4)).toMatchObject({ status: 'Completed', rows: 4 });
  await expectInvariants(installation);
});
