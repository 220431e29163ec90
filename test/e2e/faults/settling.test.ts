import { Client } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { insertRuns } from '../../../src/state/store/runs/runs.ts';
import { readNow } from '../../../src/state/store/intervals/ticks.ts';
import { canaryOf } from '../../support/canaries.ts';
import {
  backfill,
  createS3Export,
  insertEvents,
  readRuns,
  retireExports,
  untilEnded,
} from '../../support/exported-events.ts';
import { bucket, startInstallation } from '../../support/installation.ts';
import { expectInvariants } from '../../support/invariants.ts';
import { startOwnPostgres } from '../../support/postgres-server.ts';
import { until } from '../../support/until.ts';
import { useStage } from '../../support/use-stage.ts';

const hour = (n: number) => ({
  start: `2024-04-01T${String(n).padStart(2, '0')}:00:00Z`,
  end: `2024-04-01T${String(n + 1).padStart(2, '0')}:00:00Z`,
});

// Transactions that stay open would hold back what other files' databases on the same server see.
const postgres = useStage(() => startOwnPostgres({ fsync: 'off' }));
const installation = useStage(() =>
  startInstallation({
    workers: 1,
    databaseUrl: postgres.url,
    // A busy machine must not take a run away: it would count as another attempt.
    env: { SETTLE_TIMEOUT_SECONDS: '20', LEASE_SECONDS: '30' },
  }),
);
let team: number;
beforeAll(() => {
  team = installation.tenant.projectIds[0];
});
const sessions: Client[] = [];
afterAll(() => Promise.all(sessions.map((session) => session.end())));

async function openSession(): Promise<Client> {
  const session = new Client({ connectionString: installation.databaseUrl });
  sessions.push(session);
  await session.connect();
  return session;
}

/** An event with the database's own `now()`, or at a time. */
const insertSql = (at = 'now()') =>
  `insert into events (uuid, team_id, event, properties, inserted_at)
   values (gen_random_uuid(), ${team}, 'late', '{"canary": "${canaryOf(team)}"}', ${at})`;

/** A run of an interval that ends `aheadMs` from now: to it, the clock of the source is behind. */
async function runAhead(exportId: string, aheadMs: number) {
  const end = Math.ceil(((await readNow(installation.db)) + aheadMs) / 1_000) * 1_000;
  const interval = { start: end - 3_600_000, end };
  await insertRuns(installation.db, [{ exportId, teamId: team, interval, backfillId: null }]);
  return { interval, isOver: async () => (await readNow(installation.db)) > end + 200 };
}

/** Of the interval's rows, those in the source. */
async function countRows({ start, end }: { start: number; end: number }): Promise<number> {
  const { rows } = await installation.sql<{ n: number }>`select count(*)::int as n from events where
    team_id = ${team} and inserted_at >= to_timestamp(${start} / 1000.0)
    and inserted_at < to_timestamp(${end} / 1000.0)`;
  return rows[0]?.n ?? 0;
}

/** The completed runs have so many rows together: one that adds late rows counts these. */
const untilRows = (exportId: string, rows: number) =>
  until(
    async () => {
      const runs = await readRuns(installation, exportId);
      const completed = runs.filter(({ status }) => status === 'Completed');
      const sum = completed.reduce((total, run) => total + (run.rows ?? 0), 0);
      return sum === rows && completed.length === runs.length;
    },
    { timeoutMs: 90_000, everyMs: 200, message: `${rows} rows` },
  );

test('a source whose clock is behind: the run waits until it has passed the end, and no row is missed', async () => {
  const exportId = await createS3Export(installation, { name: 'a slow clock' });
  const { interval, isOver } = await runAhead(exportId, 3_000);
  await until(
    async () => {
      await installation.pool.query(insertSql());
      return isOver();
    },
    { everyMs: 20, message: 'the clock has passed the end' },
  );
  await untilEnded(installation, exportId);
  const rows = await countRows(interval);
  expect(rows).toBeGreaterThan(20);
  expect(await readRuns(installation, exportId)).toMatchObject([{ status: 'Completed', rows }]);
  expect(await expectInvariants(installation)).toMatchObject({ rows });
  await retireExports(installation);
});

test('rows of transactions that commit late are all in the interval: open, begun and silent, under a savepoint, prepared', async () => {
  const at = hour(5).start;
  await insertEvents(installation.pool, { team, rows: 10, ...hour(5) });
  const connect = async () => {
    const client = await openSession();
    await client.query('begin');
    return client;
  };
  const [open, silent, nested, prepared] = [
    await connect(),
    await connect(),
    await connect(),
    await connect(),
  ];
  await open.query(insertSql(`'${at}'`));
  await silent.query('select 1');
  await nested.query('savepoint a');
  await nested.query(insertSql(`'${at}'`));
  await nested.query('release a');
  await prepared.query(insertSql(`'${at}'`));
  await prepared.query(`prepare transaction 'late'`);

  const exportId = await createS3Export(installation, { name: 'late rows' });
  await backfill(installation, exportId, hour(5));
  await until(
    async () => {
      const waiting = 'select from outbox where export_id = $1 and waits_since is not null';
      return (await installation.pool.query(waiting, [exportId])).rowCount === 1;
    },
    { message: 'the run waits for them' },
  );
  await open.query('commit');
  await silent.query(insertSql(`'${at}'`));
  await silent.query('commit');
  await nested.query('commit');
  // All but one have ended, and still it waits.
  const [waiting] = await readRuns(installation, exportId);
  expect(waiting).toMatchObject({ status: 'Starting', rows: null });
  await prepared.query(`commit prepared 'late'`);
  expect(await untilEnded(installation, exportId)).toMatchObject([
    { status: 'Completed', rows: 14, attempt: 1 },
  ]);
  expect(await expectInvariants(installation)).toMatchObject({ rows: 14 });
  await retireExports(installation);
});

test('many intervals that do not settle use no slot: a run that is ready does not wait for them', async () => {
  const exportId = await createS3Export(installation, { name: 'far ahead' });
  const now = Math.ceil((await readNow(installation.db)) / 1_000) * 1_000;
  // Four slots, and more runs; each has an interval of its own.
  const waiting = Array.from({ length: 20 }, (_, n) => {
    const end = now + 600_000 + n * 1_000;
    const interval = { start: end - 3_600_000, end };
    return { exportId, teamId: team, interval, backfillId: null };
  });
  await insertRuns(installation.db, waiting);
  const countWaiting = async () => {
    const { rows } = await installation.sql<{ n: number }>`select count(*)::int as n
      from outbox where export_id = ${exportId} and waits_for is not null`;
    return rows[0]?.n;
  };
  // The maximum of one export's runs does not count them either.
  await until(async () => (await countWaiting()) === waiting.length, {
    message: 'all runs went back',
  });
  const ready = await createS3Export(installation, { name: 'ready' });
  await backfill(installation, ready, hour(20));
  expect(await untilEnded(installation, ready)).toMatchObject([
    { status: 'Completed', attempt: 1 },
  ]);
  const runs = await readRuns(installation, exportId);
  expect(runs.every(({ status, attempt }) => status === 'Starting' && attempt === 0)).toBe(true);
  const { rows: lines } = await installation.sql`select from log_entries
    where export_id = ${exportId} and message like 'The run waits until no transaction%'`;
  expect(lines).toHaveLength(waiting.length);
  await retireExports(installation);
});

test('one late row and one deleted row: the look-back finds the late one', async () => {
  const range = hour(1);
  await insertEvents(installation.pool, { team, rows: 10, ...range });
  await installation.stopWorkers();
  await installation.startWorker({ SETTLE_TIMEOUT_SECONDS: '0' });
  const writer = await openSession();
  await writer.query('begin');
  await writer.query(insertSql(`'${range.start}'`));
  const config = { partition_by: ['event', 'hour(inserted_at)'] };
  const exportId = await createS3Export(installation, { name: 'one for one', config });
  await backfill(installation, exportId, range);
  expect(await untilEnded(installation, exportId)).toMatchObject([{ rows: 10 }]);
  await installation.pool.query(
    `delete from events where uuid = (select min(uuid::text)::uuid from events
      where inserted_at >= '${range.start}' and inserted_at < '${range.end}')`,
  );
  // What is added is in the folders that the others have.
  const path = `/api/projects/${team}/batch_exports/${exportId}/`;
  const destination = { config: { partition_by: ['day(inserted_at)'] } };
  expect((await installation.client.patch(path, { destination })).status).toBe(200);
  await writer.query('commit');
  // What was delivered stays.
  await untilRows(exportId, 11);
  const keys = (await installation.s3.objects(bucket)).map(({ key }) => key);
  const added = keys.filter((key) => key.includes(exportId) && /\.v\d+\.jsonl$/.test(key));
  expect(added).toEqual([expect.stringMatching(/\/event=[^/]+\/hour=[-\d]+\/[^/]+$/)]);
  expect(await expectInvariants(installation, { sourceChanges: true })).toMatchObject({ rows: 11 });
  await retireExports(installation);
});

test('a prepared transaction that leaked does not keep the late rows of others away', async () => {
  const range = hour(3);
  await insertEvents(installation.pool, { team, rows: 10, ...range });
  const [leaked, writer] = [await openSession(), await openSession()];
  await leaked.query(`begin; ${insertSql(`'${range.start}'`)}; prepare transaction 'leaked'`);
  await writer.query('begin');
  await writer.query(insertSql(`'${range.start}'`));
  const exportId = await createS3Export(installation, { name: 'a leak' });
  await backfill(installation, exportId, range);
  expect(await untilEnded(installation, exportId)).toMatchObject([{ rows: 10 }]);
  await writer.query('commit');
  await untilRows(exportId, 11);
  const { body } = await installation.client.get(
    `/api/projects/${team}/batch_exports/${exportId}/runs/`,
  );
  expect(body.results[0]).toMatchObject({ status: 'Completed', settled: false });
  await leaked.query(`commit prepared 'leaked'`);
  await untilRows(exportId, 12);
  await until(
    async () => {
      const found = await installation.client.get(
        `/api/projects/${team}/batch_exports/${exportId}/`,
      );
      return found.body.unsettled_from === null;
    },
    { everyMs: 200, message: 'the interval is settled' },
  );
  expect(await expectInvariants(installation)).toMatchObject({ rows: 12 });
  await retireExports(installation);
});
