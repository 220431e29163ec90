import { Pool } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { eventsTableSql } from '../../../src/rows/sources/postgres/events-table.ts';
import {
  backfill,
  createS3Export,
  hour,
  insertEvents,
  readRuns,
  retireExports,
  untilEnded,
} from '../../support/exported-events.ts';
import { startInstallation } from '../../support/installation.ts';
import { startReplication } from '../../support/standby.ts';
import { createKey } from '../../support/tenants.ts';
import { until } from '../../support/until.ts';
import { useStage } from '../../support/use-stage.ts';

const replication = useStage(() => startReplication());
let primary: Pool;
let team: number;

beforeAll(async () => {
  primary = new Pool({ connectionString: replication.primary.adminUrl, max: 3 });
  await primary.query(eventsTableSql);
  await replication.untilReplayed();
});
afterAll(() => primary?.end());
const installation = useStage(() =>
  startInstallation({ workers: 0, env: { SOURCE_DATABASE_URL: replication.standbyUrl } }),
);
beforeAll(async () => {
  team = installation.tenant.projectIds[0];
  await insertEvents(primary, { team, rows: 10 });
  await replication.untilReplayed();
});

/** While an interval is unsettled and rows are hidden: the API looks at the source now and then. */
async function expectMetrics(): Promise<void> {
  const { key } = await createKey(installation.db, { organizationId: null });
  const admin = installation.client.withKey(key);
  let text = '';
  const readGauge = (name: string) =>
    Number(new RegExp(`^${name}(?:\\{model="events"\\})? (\\S+)$`, 'm').exec(text)?.[1]);
  await until(
    async () => {
      text = (await admin.get('/metrics')).text;
      return readGauge('sluice_source_replay_lag_seconds') > 0;
    },
    { everyMs: 500, message: 'the lag is a metric' },
  );
  expect(readGauge('sluice_unsettled_intervals')).toBe(1);
  expect(readGauge('sluice_oldest_unsettled_seconds')).toBeGreaterThanOrEqual(2 * 3_600);
  // Both databases are of this machine.
  expect(Math.abs(readGauge('sluice_source_clock_offset_seconds'))).toBeLessThan(60);
}

test('a standby without its primary is refused, and readiness says so', async () => {
  const worker = await installation.startWorker({ WORKER_PORT: '0' });
  const exportId = await createS3Export(installation, { name: 'refused' });
  await backfill(installation, exportId);
  const run = await until(async () =>
    (await readRuns(installation, exportId)).find(({ errorCode }) => errorCode !== null),
  );
  expect(run).toMatchObject({ errorCode: 'source.standby', rows: null });
  expect(run?.latestError).toContain('SOURCE_PRIMARY_URL');
  await until(async () => {
    const { body, status } = await installation.client.get('/readyz');
    return status === 200 && JSON.stringify(body).includes('is a standby');
  });
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
    `select date_trunc('hour', now(), 'UTC') - interval '3 h' as start, date_trunc('hour', now(), 'UTC') - interval '2 h' as end`,
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
  expect(JSON.stringify(logs.results)).toContain('set look_back_hours');
  await expectMetrics();
  await replication.resumeReplay();
  await replication.untilReplayed();
  // So that the test need not wait for the pause between two looks.
  await installation.sql`update receipts set looked_back_at = looked_back_at - interval '1 hour',
            pending_checked_at = pending_checked_at - interval '1 hour'`;
  await until(async () => (await readRuns(installation, exportId)).some(({ rows }) => rows === 3), {
    message: 'the rows inside the lag are exported',
  });
  await untilEnded(installation, exportId, { count: 2 });
  await retireExports(installation);
  worker.kill('SIGTERM');
  await worker.waitForExit();
});
