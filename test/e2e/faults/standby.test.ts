import { Pool } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { eventsTableSql } from '../../../src/sources/postgres/events-table.ts';
import {
  backfill,
  createS3Export,
  hour,
  insertEvents,
  readRuns,
  retireExports,
  untilEnded,
} from '../../support/exported-events.ts';
import { type Installation, startInstallation } from '../../support/installation.ts';
import { expectInvariants } from '../../support/invariants.ts';
import { type Replication, startReplication } from '../../support/standby.ts';
import { until } from '../../support/until.ts';

let replication: Replication;
let installation: Installation;
let primary: Pool;
let team: number;

beforeAll(async () => {
  replication = await startReplication();
  primary = new Pool({ connectionString: replication.primary.url, max: 3 });
  await primary.query(eventsTableSql);
  await replication.untilReplayed();
  installation = await startInstallation({
    workers: 0,
    env: { SOURCE_DATABASE_URL: replication.standbyUrl },
  });
  team = installation.tenant.projectIds[0];
  await insertEvents(primary, { team, rows: 10 });
  await replication.untilReplayed();
});
afterAll(async () => {
  await installation?.close();
  await primary?.end();
  await replication?.stop();
});

/** Rows that the standby has received and does not show. */
async function insertHidden(rows: number): Promise<void> {
  await replication.pauseReplay();
  await insertEvents(primary, { team, rows });
}

test('a standby with lag and its primary: rows inside the lag are exported', async () => {
  const worker = await installation.startWorker({ SOURCE_PRIMARY_URL: replication.primary.url });
  await insertHidden(5);
  const exportId = await createS3Export(installation, { name: 'a standby' });
  await backfill(installation, exportId);
  await until(async () => {
    const { rows } = await primary.query(
      `select from pg_stat_activity where application_name = 'sluice-export' and query like '%pg_control_init%'`,
    );
    return rows.length > 0;
  });
  expect(await readRuns(installation, exportId)).toMatchObject([{ status: 'Running' }]);
  await replication.resumeReplay();
  expect(await untilEnded(installation, exportId)).toMatchObject([
    { status: 'Completed', rows: 15, attempt: 1 },
  ]);
  expect(await expectInvariants(installation)).toMatchObject({ rows: 15 });
  await retireExports(installation);
  worker.kill('SIGTERM');
  await worker.waitForExit();
});

test('a standby without its primary is refused, and readiness says so', async () => {
  const worker = await installation.startWorker({ WORKER_PORT: '0' });
  const exportId = await createS3Export(installation, { name: 'refused' });
  await backfill(installation, exportId);
  const run = await until(async () =>
    (await readRuns(installation, exportId)).find(({ errorCode }) => errorCode !== null),
  );
  expect(run).toMatchObject({ errorCode: 'source.standby', rows: null });
  expect(run?.latestError).toContain('SOURCE_PRIMARY_URL');
  await until(
    async () => {
      const { body, status } = await installation.client.get('/readyz');
      return status === 200 && JSON.stringify(body).includes('is a standby');
    },
    { timeoutMs: 60_000 },
  );
  await retireExports(installation);
  worker.kill('SIGTERM');
  await worker.waitForExit();
});

test('a standby that is allowed without its primary: unsettled, reported as such, and re-checked by time', async () => {
  const worker = await installation.startWorker({
    ALLOW_UNSETTLED_STANDBY: 'true',
    LATE_LOOKBACK_HOURS: '720',
  });
  const exportId = await createS3Export(installation, { name: 'allowed' });
  // Within the hours of the look-back.
  const { rows: times } = await primary.query<{ start: Date; end: Date }>(
    `select date_trunc('hour', now()) - interval '3 h' as start, date_trunc('hour', now()) - interval '2 h' as end`,
  );
  const range = {
    start: times[0]?.start.toISOString() ?? hour.start,
    end: times[0]?.end.toISOString() ?? hour.end,
  };
  await insertEvents(primary, { team, rows: 4, ...range });
  await replication.untilReplayed();
  await replication.pauseReplay();
  await insertEvents(primary, { team, rows: 3, ...range });
  await backfill(installation, exportId, range);
  expect(await untilEnded(installation, exportId)).toMatchObject([
    { status: 'Completed', rows: 4 },
  ]);
  const path = `/api/projects/${team}/batch_exports/${exportId}`;
  expect((await installation.client.get(`${path}/`)).body).toMatchObject({
    high_water_mark: null,
    unsettled_from: new Date(range.start).toISOString().replace('.000Z', '.000000Z'),
    latest_runs: [{ settled: false }],
  });
  const { body: logs } = await installation.client.get(`${path}/logs/?level=WARNING`);
  expect(JSON.stringify(logs.results)).toContain('Only LATE_LOOKBACK_HOURS');
  await replication.resumeReplay();
  await replication.untilReplayed();
  // So that the test need not wait for the pause between two looks.
  await installation.pool.query(
    `update receipts set looked_back_at = looked_back_at - interval '1 hour',
            pending_checked_at = pending_checked_at - interval '1 hour'`,
  );
  await until(async () => (await readRuns(installation, exportId)).some(({ rows }) => rows === 7), {
    timeoutMs: 60_000,
    message: 'the rows inside the lag are exported',
  });
  await untilEnded(installation, exportId, { count: 2 });
  await retireExports(installation);
  worker.kill('SIGTERM');
  await worker.waitForExit();
});
