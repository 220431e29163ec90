import { Client } from 'pg';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Foundation, openFoundation } from '../../../src/main/foundation.ts';
import type { Part } from '../../../src/main/run-process.ts';
import { startWorker } from '../../../src/main/worker-process.ts';
import { ensureEventsTable } from '../../../src/rows/sources/index.ts';
import { acceptCurrentEra } from '../../../src/service/use-cases/installation/accept-era.ts';
import { findSilence } from '../../../src/state/store/runs/workers.ts';
import { atNight, isNightly } from '../../support/nightly.ts';
import { queueBackends, type TestQueueBackend } from '../../support/queue-backends.ts';
import { ownRedisAvailable } from '../../support/redis.ts';
import { openRunSide, type RunRow } from '../../support/run-side.ts';
import { until } from '../../support/until.ts';
import { folderOfTest } from '../../support/own-folder.ts';
import { useEach } from '../../support/use-stage.ts';

for (const lane of queueBackends) {
  describe.skipIf(!lane.available())(`a worker with the queue in ${lane.name}`, () => {
    /** What does not depend on the queue. By day it is with one, and what needs the queue with the other. */
    const itOnce = it.runIf(lane.name === 'Postgres' || isNightly);
    const itThere = it.runIf(lane.name === 'Redis' || !ownRedisAvailable() || isNightly);
    const side = useEach(openRunSide);
    let backend: TestQueueBackend;
    let foundations: Foundation[];
    let workers: Part[];
    let locks: Client[];
    let folder: string;

    beforeEach(async () => {
      backend = await lane.open(side.url);
      foundations = [];
      workers = [];
      locks = [];
      folder = folderOfTest();
    });
    afterEach(async () => {
      for (const lock of locks) await lock.end();
      for (const worker of workers) await worker.close();
      for (const foundation of foundations) await foundation.close();
      await backend.stop();
    });

    async function openWorker(
      env: Record<string, string> = {},
      changes: Partial<Foundation['producer']> = {},
    ): Promise<Foundation> {
      const config = side.workerConfig({ ...backend.env, RETRY_BASE_SECONDS: '0', ...env });
      const foundation = await openFoundation(config, 'worker');
      foundations.push(foundation);
      const producer = { ...foundation.producer, ...changes };
      workers.push(await startWorker({ ...foundation, producer }));
      return foundation;
    }

    /** The table's rows cannot be read until the lock is released. */
    async function lock(
      table: 'events' | 'leftover_files',
      mode: 'share' | 'access exclusive' = 'access exclusive',
    ): Promise<() => Promise<void>> {
      const client = new Client({ connectionString: side.url });
      locks.push(client);
      await client.connect();
      await client.query(`begin; lock table ${table} in ${mode} mode`);
      return async () => void (await client.query('rollback'));
    }

    /** Runs do not wait for the lock's transaction: they read, and wait for the lock itself. */
    const atOnce = { SETTLE_TIMEOUT_SECONDS: '0' };

    async function lockSource(): Promise<() => Promise<void>> {
      await ensureEventsTable(side.url);
      return await lock('events');
    }

    const untilRun = (exportId: string, wanted: Partial<RunRow>) =>
      until(
        async () => {
          const run = await side.firstRun(exportId);
          expect(run).toMatchObject(wanted);
          return run;
        },
        { timeoutMs: 60_000, message: `the run is ${JSON.stringify(wanted)}` },
      );

    itOnce(
      'restores its recurring jobs although the queue does not say in time whether it is paused',
      async () => {
        const listPaused = () =>
          Promise.reject(new Error('the queue did not answer within 1000 ms'));
        await openWorker({}, { listPaused });
        const { id } = await side.createExport();
        await untilRun(id, { status: 'Completed' });
      },
    );

    itOnce('starts nothing while a copy is held, and all of it once that is accepted', async () => {
      await openWorker();
      await side.sql`update eras set needs_acceptance = true, accepted_at = null`;
      const { id } = await side.createExport();
      const reports = async () =>
        (await side.sql<{ at: string }>`select heartbeat_at::text as at from workers`)[0]?.at;
      for (let report = 0, last = await reports(); report < 2; report += 1) {
        last = await until(async () => {
          const now = await reports();
          return now === last ? null : now;
        });
      }
      expect(await side.sql`select 1 from runs`).toEqual([]);
      await acceptCurrentEra(side.db);
      await untilRun(id, { status: 'Completed' });
    });

    atNight('reports for how long no tick has come', async () => {
      await openWorker({}, { ensureRecurring: async () => {} });
      await until(async () => ((await findSilence(side.db)) ?? 0) >= 3);
      await openWorker();
      await until(async () => ((await findSilence(side.db)) ?? 9) < 3);
    });

    itThere('has one effect of a run that is delivered a hundred times', async () => {
      const { id } = await side.exportWithRuns(1);
      const { id: runId, start } = await side.firstRun(id);
      await ensureEventsTable(side.url);
      await side.sql`insert into events (uuid, team_id, event, inserted_at)
         select gen_random_uuid(), ${side.teamId}, 'event', ${start}::timestamptz + n * interval '1 s'
           from generate_series(0, 49) n`;
      const [foundation] = [await openWorker(), await openWorker()];
      const entries = Array.from({ length: 100 }, (_, n) => ({ runId, deduplicationId: `${n}` }));
      await until(() => foundation.producer.addRuns(entries).then(() => true));
      await untilRun(id, { status: 'Completed' });
      const [, runs] = foundation.producer.queues;
      await until(async () => {
        const counts = await runs?.getJobCounts('waiting', 'active', 'prioritized');
        return counts && Object.values(counts).every((count) => count === 0);
      });
      expect(await side.firstRun(id)).toMatchObject({ attempt: 1, fence: 1, crashes: 0 });
      const run = await side.findRun({ exportId: id, runId });
      expect(run).toMatchObject({ recordsCompleted: 50, recordsTotalCount: 50 });
      const logs = await side.sql`
        select 1 from log_entries where run_id = ${runId} and message like 'Attempt %'`;
      expect(logs).toHaveLength(1);
    });

    itOnce('stops a run that is cancelled under it, and takes the next', async () => {
      const unlock = await lockSource();
      await openWorker({ ...atOnce, WORKER_CONCURRENCY: '1' });
      const { id } = await side.createExport();
      const { id: runId } = await untilRun(id, { status: 'Running' });
      await side.cancel({ exportId: id, runId });
      const next = await side.createExport();
      await untilRun(next.id, { status: 'Running', fence: 1 });
      await unlock();
      await untilRun(next.id, { status: 'Completed' });
      expect(await side.firstRun(id)).toMatchObject({ status: 'Cancelled' });
    });

    itOnce(
      'names its own database as the cause if an attempt lost the connection to it',
      async () => {
        // A claim reads these, a commit writes them. The interval does not wait for the open transaction.
        const unlock = await lock('leftover_files', 'share');
        await openWorker({ SETTLE_TIMEOUT_SECONDS: '1', FILE_DESTINATION_ROOT: folder });
        // A commit begins only if the destination keeps files.
        const destination = { type: 'File', config: { directory: 'files' }, secrets: null };
        const { id } = await side.createExport({ destination });
        // Others write them too: each that waits for them is cut off, until the run was.
        await until(async () => {
          await side.sql`select pg_terminate_backend(pid) from pg_stat_activity
            where datname = current_database() and application_name like 'sluice-%'
              and wait_event_type = 'Lock'`;
          const [run] = await side.listRuns(id);
          return run?.errorCode === 'internal.database_unavailable';
        });
        await unlock();
        await untilRun(id, { status: 'Completed', crashes: 0 });
      },
    );

    itThere(
      'schedules its recurring jobs again within seconds after the queue lost everything',
      async () => {
        const unlock = await lockSource();
        await openWorker({ ...atOnce, WORKER_CONCURRENCY: '2', BACKFILL_CONCURRENCY: '9' });
        const { id } = await side.createExport({ createdMsAgo: 6 * 3_600_000 });
        await untilRun(id, { status: 'Running' });
        await backend.loseEverything();
        await unlock();
        await until(
          async () => {
            const runs = await side.listRuns(id);
            return runs.length === 6 && runs.every((run) => run.status === 'Completed');
          },
          { message: 'all runs are completed' },
        );
        for (const run of await side.listRuns(id)) expect(run.attempt).toBe(1);
      },
    );
  });
}
