import { fork } from 'node:child_process';
import { Client } from 'pg';
import { afterEach, beforeAll, expect, test } from 'vitest';
import { noteUploads } from '../../../src/state/store/files/upload-places.ts';
import { cancelRuns, insertRuns } from '../../../src/state/store/runs/runs.ts';
import {
  backfill,
  createS3Export,
  insertLoudAndQuiet,
  quiet,
  retireExports,
  slowDown,
  twoParts,
  untilEnded,
} from '../../support/exported-events.ts';
import { startHostileStore } from '../../support/hostile-store.ts';
import { bucket, startInstallation } from '../../support/installation.ts';
import { expectInvariants } from '../../support/invariants.ts';
import { isAlive } from '../../support/is-alive.ts';
import { projectRoot, startSluice, type TestProcess } from '../../support/processes.ts';
import { claim, expireLease } from '../../support/run-side.ts';
import { until } from '../../support/until.ts';
import { useStage } from '../../support/use-stage.ts';

const { rows } = twoParts;
const installation = useStage(() => startInstallation({ workers: 0 }));
beforeAll(async () => {
  await insertLoudAndQuiet(installation);
});
afterEach(async () => {
  await installation.stopWorkers();
  await expectInvariants(installation);
  await retireExports(installation);
});

/** A transaction that may still add rows to every interval of the past: each run waits for it. */
async function holdSettling(): Promise<() => Promise<void>> {
  const client = new Client({ connectionString: installation.databaseUrl });
  client.on('error', () => {});
  await client.connect();
  await client.query('begin; select 1');
  return () => client.end();
}

/** When the runs of these exports come back that wait for their source. */
async function readReturns(exports: readonly string[]): Promise<readonly number[]> {
  const { rows } = await installation.sql<{ at: number }>`
    select extract(epoch from available_at)::float8 as at from outbox
      where export_id = any (${exports}) and waits_for is not null order by export_id`;
  return rows.map(({ at }) => at);
}

/** Starts a worker, and waits until it has put back the run of each export: their intervals have not settled. */
async function startWaiting(exports: readonly string[]): Promise<TestProcess> {
  const before = await readReturns(exports);
  const worker = await installation.startWorker();
  await until(
    async () => {
      const returns = await readReturns(exports);
      return returns.length === exports.length && returns.every((at) => !before.includes(at));
    },
    { message: 'the worker has put back every run' },
  );
  return worker;
}

test('kills while exports wait to settle: each of them completes', async () => {
  const exports = [await createS3Export(installation), await createS3Export(installation)];
  const release = await holdSettling();
  for (const id of exports) await backfill(installation, id, quiet);
  for (let kill = 1; kill <= 4; kill += 1) {
    const worker = await startWaiting(exports);
    worker.kill('SIGKILL');
    await worker.waitForExit();
  }
  await startWaiting(exports);
  await release();
  for (const id of exports) {
    expect(await untilEnded(installation, id)).toMatchObject([
      { status: 'Completed', rows: 50, attempt: 1, crashes: 0 },
    ]);
  }
});

/** A run with two dead workers in its row, both while they read; no worker runs. */
async function deadlyRun(range: { start: string; end: string } = quiet): Promise<string> {
  const exportId = await createS3Export(installation, { name: 'deadly' });
  await backfill(installation, exportId, range);
  const worker = await installation.startWorker({ FAILPOINTS: 'claim=kill' });
  await worker.waitForExit();
  await installation.sql`update runs set crashes = 1, lease_expires_at = now()
    where export_id = ${exportId}`;
  return exportId;
}

/** The process that a run of the worker has for itself. */
function childOf(worker: TestProcess): Promise<number> {
  return until(
    () => /"pid":(\d+)[^\n]*this process executes one run only/.exec(worker.output())?.[1],
    { message: () => `a run has its process:\n${worker.output()}` },
  ).then(Number);
}

test.each(['before_complete', 'claim', 'before_record'])(
  'a run that ends its process at %s harms two workers, then only its own process',
  async (step) => {
    const exportId = await createS3Export(installation);
    await backfill(installation, exportId, quiet);
    for (let death = 1; death <= 2; death += 1) {
      const doomed = await installation.startWorker({ FAILPOINTS: `${step}=kill` });
      expect(await doomed.waitForExit()).toMatchObject({ signal: 'SIGKILL' });
    }
    const worker = await installation.startWorker({
      // The worker itself claims the run.
      FAILPOINTS: step === 'claim' ? 'child:before_open=abort' : `child:${step}=abort`,
    });
    const [run] = await untilEnded(installation, exportId);
    expect(run).toMatchObject({ status: 'Failed', errorCode: 'run.crashed', attempt: 3 });
    expect(worker.hasExited()).toBe(false);
    // What the third attempt may have made current is replaced.
    await installation.stopWorkers();
    await installation.startWorker();
    await backfill(installation, exportId, quiet);
    expect((await untilEnded(installation, exportId, { count: 2 })).at(-1)).toMatchObject({
      status: 'Completed',
      rows: 50,
    });
  },
);

test.each([
  ['crashes', 'before_open=abort', 'SIGABRT', 2],
  ['is killed, twice', 'before_open=kill', 'SIGKILL', 3],
  ['needs more memory than it may', 'before_open=fill', 'more than 576 MiB', 2],
  ['exits, twice', 'before_open=exit(7)', 'exit code 7', 3],
  ['needs more heap than it may', 'before_open=grow', 'SIGABRT', 2],
])(
  'a run whose own process %s is Failed, while the others of its worker complete',
  async (_, failpoint, how, attempt) => {
    const exportId = await deadlyRun();
    const others = [await createS3Export(installation), await createS3Export(installation)];
    // An attempt whose lease is lost counts for nothing, and a busy machine may be late for one of two seconds.
    const worker = await installation.startWorker({
      FAILPOINTS: `child:${failpoint}`,
      LEASE_SECONDS: '30',
    });
    for (const id of others) await backfill(installation, id);
    const [run] = await untilEnded(installation, exportId);
    expect(run).toMatchObject({ status: 'Failed', errorCode: 'run.crashed', attempt });
    expect(run?.latestError).toContain(how);
    for (const id of others) {
      expect(await untilEnded(installation, id)).toMatchObject([
        { status: 'Completed', rows, attempt: 1, crashes: 0 },
      ]);
    }
    expect(worker.hasExited()).toBe(false);
  },
);

test('a worker that is killed while the process of a run works: the process ends, nothing is counted', async () => {
  const exportId = await deadlyRun();
  for (let kill = 1; kill <= 2; kill += 1) {
    // Before the first part: progress would clear the run's deaths.
    const worker = await installation.startWorker({ FAILPOINTS: 'before_open=hold' });
    const child = await childOf(worker);
    await until(() => worker.output().includes('failpoint before_open'));
    worker.kill('SIGKILL');
    await worker.waitForExit();
    await until(() => !isAlive(child), { message: 'the process ends too' });
  }
  await installation.startWorker();
  expect(await untilEnded(installation, exportId)).toMatchObject([
    { status: 'Completed', rows: 50, faults: 0 },
  ]);
});

test('an answer of a store that ends the process of each sweep ends three, and the operator decides about the next', async () => {
  const { db, pool, tenant } = installation;
  let worker: TestProcess;
  let isDeadly = true;
  const store = await startHostileStore(({ method }, response) => {
    if (isDeadly) worker.kill('SIGKILL');
    else if (method === 'GET') response.writeHead(200).end('<Result></Result>');
    else response.writeHead(204).end();
  });
  try {
    const exportId = await createS3Export(installation, {
      config: { endpoint_url: store.endpoint },
    });
    const interval = { start: Date.parse(quiet.start), end: Date.parse(quiet.end) };
    const [runId = ''] = await db.transaction((tx) =>
      insertRuns(tx, [{ exportId, teamId: tenant.projectIds[0], interval, backfillId: null }]),
    );
    const run = await claim({ db }, runId);
    await noteUploads(db, run, 60_000);
    await db.transaction((tx) => cancelRuns(tx, { exportId }));
    const beDue = async () => {
      await expireLease(db, runId);
      await pool.query(`update upload_places set look_at = now()`);
      await pool.query(`update guarded_work set expires_at = now()`);
    };
    for (let death = 1; death <= 3; death += 1) {
      await beDue();
      worker = await installation.startWorker();
      expect(await worker.waitForExit()).toMatchObject({ signal: 'SIGKILL' });
    }
    await beDue();
    worker = await installation.startWorker();
    await until(() => worker.output().includes('work was set aside'));
    expect(store.requests).toHaveLength(3);
    const sluice = async (...args: string[]) => {
      const child = startSluice('clients/cli/sluice.js', args, { env: installation.env });
      await child.waitForExit();
      return child.output();
    };
    // The doctor asks the store too.
    isDeadly = false;
    expect(await sluice('doctor')).toContain(`abort_uploads of ${exportId}`);
    expect(await sluice('work', 'retry', exportId)).toContain('abort_uploads');
    await until(async () => (await pool.query('select from upload_places')).rowCount === 0, {
      message: () => `the place is looked at: ${store.requests}\n${worker.output().slice(-3_000)}`,
    });
    expect(worker.hasExited()).toBe(false);
  } finally {
    await retireExports(installation);
    await store.close();
  }
}, 300_000);

test('of runs that need a process of their own, a worker executes one at a time and claims no other', async () => {
  const { pool, sql } = installation;
  const exports = [await createS3Export(installation), await createS3Export(installation)];
  for (const id of exports) await backfill(installation, id, quiet);
  // A worker makes the runs, and dies when it claims one.
  const doomed = await installation.startWorker({ FAILPOINTS: 'claim=hold' });
  await until(async () => {
    const { rowCount } = await pool.query('select from runs where export_id = any ($1)', [exports]);
    return rowCount === 2 && doomed.output().includes('failpoint claim');
  });
  doomed.kill('SIGKILL');
  await doomed.waitForExit();
  await sql`update runs set crashes = case when lease_holder is null then 2 else 1 end,
            lease_expires_at = case when lease_holder is not null then now() end
      where export_id = any (${exports})`;
  const worker = await installation.startWorker({ FAILPOINTS: 'before_open=hold' });
  await until(() => worker.output().includes('failpoint before_open'));
  // It was enqueued more than once, and not claimed.
  const enqueued = new Set<string>();
  await until(
    async () => {
      const { rows: waiting } = await sql<{ at: string | null }>`select dispatched_at::text as at
        from outbox where export_id = any (${exports})`;
      for (const { at } of waiting) if (at !== null) enqueued.add(at);
      return enqueued.size > 2;
    },
    { everyMs: 200, message: 'the other run is enqueued again' },
  );
  const held = 'select from runs where export_id = any ($1) and lease_expires_at > now()';
  expect((await pool.query(held, [exports])).rowCount).toBe(1);
  await installation.stopWorkers();
  await pool.query('update runs set crashes = 0 where export_id = any ($1)', [exports]);
  await installation.startWorker();
  for (const id of exports) {
    expect(await untilEnded(installation, id)).toMatchObject([{ status: 'Completed', rows: 50 }]);
  }
});

test('a worker that ends while the process of a run starts: the process ends too', async () => {
  const child = fork(`${projectRoot}/dist/main/child-run.js`, { stdio: 'ignore' });
  const { pid = 0 } = child;
  // As the worker's death does it; nothing of the program is loaded yet.
  child.disconnect();
  try {
    await until(() => !isAlive(pid), { message: 'the process ends too' });
  } finally {
    child.kill('SIGKILL');
  }
});

test('SIGTERM while the process of a run works: the run is handed back, exit 0', async () => {
  const exportId = await deadlyRun({ start: '2024-03-01T00:00:00Z', end: '2024-03-01T01:00:00Z' });
  await slowDown(installation, 'UploadPart', 2_000);
  const worker = await installation.startWorker();
  const child = await childOf(worker);
  await until(async () => (await installation.s3.uploads(bucket)).length > 0, {
    message: 'the process uploads',
  });
  worker.kill('SIGTERM');
  expect(await worker.waitForExit()).toEqual({ code: 0, signal: null });
  expect(isAlive(child)).toBe(false);
  expect(worker.output()).toContain('"end":"released"');
  await installation.s3.faults.clear();
  await installation.startWorker();
  expect(await untilEnded(installation, exportId)).toMatchObject([
    { status: 'Completed', rows, faults: 0 },
  ]);
});
