import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import {
  backfill,
  countParts,
  createS3Export,
  insertEvents,
  readRuns,
  retireExports,
  slowDown,
  untilEnded,
} from '../support/exported-events.ts';
import {
  type Installation,
  type QueueKind,
  startInstallation,
  testedQueues,
} from '../support/installation.ts';
import { expectInvariants } from '../support/invariants.ts';
import { atNight, casesOf, isNightly } from '../support/nightly.ts';
import type { TestProcess } from '../support/processes.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/until.ts';
import { inTest } from '../support/use-stage.ts';

const graceSeconds = 10;
const rows = 6_000;
const exitedWell = { code: 0, signal: null };

let installation: Installation;

async function install(queue: QueueKind): Promise<void> {
  installation = await startInstallation({
    queue,
    workers: 0,
    env: { SHUTDOWN_GRACE_SECONDS: String(graceSeconds), LEASE_SECONDS: '30' },
  });
}

/** The rows of the hour that `untilMidUpload` exports. */
async function insertHour(): Promise<void> {
  const { pool, tenant } = installation;
  await insertEvents(pool, { team: tenant.projectIds[0], rows, rowBytes: 2_000 });
}

async function startWorkers(count: number): Promise<readonly TestProcess[]> {
  return Promise.all(Array.from({ length: count }, () => installation.startWorker()));
}

/** An export whose upload takes many seconds, and the worker that is in the middle of it. */
async function untilMidUpload(): Promise<{ exportId: string; holder: TestProcess }> {
  const { processes } = installation;
  const exportId = await createS3Export(installation);
  await slowDown(installation, 'UploadPart', 1_500);
  await backfill(installation, exportId);
  await until(async () => (await countParts(installation, exportId)) >= 1, {
    message: 'a part has arrived',
  });
  const [run] = await readRuns(installation, exportId);
  const holder = processes.find(({ pid }) => pid === run?.holderPid);
  if (!holder) throw new Error('no worker holds the run');
  return { exportId, holder };
}

/** Waits for an orderly end, within the grace and without an error in the log. */
async function expectOrderlyExit(process: TestProcess): Promise<void> {
  expect(await process.waitForExit(graceSeconds * 1_000)).toEqual(exitedWell);
  expect(process.output()).not.toMatch(
    /"level":(50|60)|a job failed|MaxListenersExceeded|Unhandled/,
  );
}

/** The run was handed back whole and another worker has finished it. */
async function expectTakenUp(exportId: string): Promise<void> {
  await installation.s3.faults.clear();
  const [run, ...others] = await untilEnded(installation, exportId);
  expect(others).toEqual([]);
  expect(run).toMatchObject({ status: 'Completed', rows, attempt: 2, crashes: 0, faults: 0 });
  expect(await expectInvariants(installation)).toMatchObject({ intervals: 1, rows });
}

describe.each(casesOf(testedQueues().slice(0, 1), testedQueues().slice(1)))(
  'with the queue in %s',
  (queue) => {
    beforeAll(async () => {
      await install(queue);
      await insertHour();
    });
    beforeEach(() => retireExports(installation));
    afterEach(async () => {
      await installation.s3.faults.clear();
      await installation.stopWorkers();
    });
    afterAll(() => installation?.close());

    atNight(
      'a second SIGTERM changes nothing: the run is still handed back, the exit is still in order',
      async () => {
        await startWorkers(2);
        const { exportId, holder } = await untilMidUpload();
        holder.kill('SIGTERM');
        await until(() => holder.output().includes('shutting down'));
        holder.kill('SIGTERM');
        await expectOrderlyExit(holder);
        await expectTakenUp(exportId);
      },
      300_000,
    );

    atNight(
      'a rolling restart of all workers, one at a time, loses and repeats nothing',
      async () => {
        const old = await startWorkers(2);
        const { pool, tenant } = installation;
        const range = { start: '2024-03-02T00:00:00Z', end: '2024-03-02T12:00:00Z' };
        await insertEvents(pool, { team: tenant.projectIds[0], rows: 6_000, ...range });
        const exportId = await createS3Export(installation);
        await slowDown(installation, 'PutObject', 400);
        await backfill(installation, exportId, range, { concurrency: 4 });
        for (const worker of old) {
          await installation.startWorker();
          worker.kill('SIGTERM');
          await expectOrderlyExit(worker);
        }
        await installation.s3.faults.clear();
        const runs = await untilEnded(installation, exportId, { count: 12 });
        for (const run of runs)
          expect(run).toMatchObject({ status: 'Completed', crashes: 0, faults: 0 });
        expect(await expectInvariants(installation)).toMatchObject({ intervals: 12, rows: 6_000 });
      },
      300_000,
    );

    // The last: it ends the API.
    test('SIGTERM mid-upload hands the run back at once, another worker finishes it, and what is idle ends in order', async () => {
      await startWorkers(2);
      const { exportId, holder } = await untilMidUpload();
      holder.kill('SIGTERM');
      await until(
        async () => {
          const [run] = await readRuns(installation, exportId);
          return run?.attempt === 2 && run.holderPid !== holder.pid;
        },
        // The lease alone would have kept it for thirty seconds.
        { message: 'another worker has taken the run up' },
      );
      await expectOrderlyExit(holder);
      await expectTakenUp(exportId);
      expect(holder.output()).toContain('"msg":"run handed back"');
      const line = new RegExp(`"export":"${exportId}".*"rows":${rows},.*"msg":"run completed"`);
      await until(() => installation.processes.some((process) => line.test(process.output())));
      for (const process of installation.processes.filter((one) => !one.hasExited())) {
        process.kill('SIGTERM');
        await expectOrderlyExit(process);
      }
    }, 300_000);
  },
);

describe('without the queue', () => {
  afterEach(() => installation?.close());

  test.runIf(isNightly && testedQueues().includes('redis'))(
    'SIGTERM ends worker and API within the grace if Redis is gone, and the run is handed back',
    async () => {
      await install('redis');
      await insertHour();
      await startWorkers(1);
      const { exportId, holder } = await untilMidUpload();
      await installation.redis?.kill();
      for (const process of installation.processes) process.kill('SIGTERM');
      for (const process of installation.processes) {
        expect(await process.waitForExit(graceSeconds * 1_000)).toEqual(exitedWell);
      }
      expect(holder.hasExited()).toBe(true);
      await installation.redis?.restart();
      await installation.startApi();
      await installation.startWorker();
      await expectTakenUp(exportId);
    },
    300_000,
  );

  atNight(
    'SIGTERM ends worker and API within the grace if Postgres is gone',
    async () => {
      await install('postgres');
      const { port } = new URL(installation.databaseUrl);
      const proxy = await inTest(startTcpProxy({ target: { port: Number(port) } }));
      const reached = new URL(installation.databaseUrl);
      reached.port = String(proxy.port);
      const env = { DATABASE_URL: reached.href };
      const processes = [
        await installation.startWorker(env),
        await installation.startApi({ ...env, PORT: '0' }),
      ];
      await proxy.refuse();
      proxy.cut();
      for (const process of processes) process.kill('SIGTERM');
      for (const process of processes) {
        expect(await process.waitForExit(graceSeconds * 1_000)).toEqual(exitedWell);
      }
    },
    60_000,
  );
});
