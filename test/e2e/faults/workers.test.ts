import { beforeAll, expect, test } from 'vitest';
import {
  type FailpointName,
  failpointNames,
} from '../../../src/foundation/failpoints/failpoint.ts';
import {
  backfill,
  createS3Export,
  insertLoudAndQuiet,
  projectPath,
  quiet,
  type RunRow,
  readRuns,
  retireExports,
  twoParts,
  untilEnded,
} from '../../support/exported-events.ts';
import { bucket, startInstallation } from '../../support/installation.ts';
import { expectInvariants } from '../../support/invariants.ts';
import { atNight, casesOf } from '../../support/nightly.ts';
import type { TestProcess } from '../../support/processes.ts';
import { until } from '../../support/until.ts';
import { useStage } from '../../support/use-stage.ts';

const { rows } = twoParts;

// Many processes start at once: a heartbeat may be late, and a lease that is lost counts as a crash.
const installation = useStage(() => startInstallation({ workers: 0, env: { LEASE_SECONDS: '4' } }));
beforeAll(() => insertLoudAndQuiet(installation));

/**
 * Workers that die at a step each, one run at a time, and as many exports with one run each. Their
 * lease outlasts that, also on a busy machine: none takes over another's run. It is over when
 * this returns.
 */
async function killAtEach(steps: readonly FailpointName[]) {
  const workers = await Promise.all(
    steps.map((step) =>
      installation.startWorker({
        FAILPOINTS: `${step}=kill@1`,
        // One run each.
        WORKER_CONCURRENCY: '1',
        WORKER_SMALL_RUNS: '0',
        LEASE_SECONDS: '300',
      }),
    ),
  );
  const exports: string[] = [];
  for (const step of steps) exports.push(await createS3Export(installation, { name: step }));
  for (const id of exports) await backfill(installation, id);
  await Promise.all(workers.map((worker) => worker.waitForExit()));
  await installation.sql`update runs set lease_expires_at = now() where lease_holder is not null`;
  return { workers, exports };
}

async function runOf(worker: TestProcess): Promise<string | undefined> {
  const { rows: found } = await installation.pool.query<{ id: string }>(
    `select export_id as id from runs where lease_holder ~ $1`,
    [`-${worker.pid}-[0-9a-f]{8}/`],
  );
  return found[0]?.id;
}

async function readManifest(exportId: string): Promise<{ attempt: number; total_rows: number }> {
  const keys = (await installation.s3.objects(bucket)).map(({ key }) => key);
  const manifests = keys.filter(
    (key) => key.startsWith(exportId) && key.endsWith('_manifest.json'),
  );
  expect(manifests, 'one manifest').toHaveLength(1);
  return JSON.parse((await installation.s3.body(bucket, manifests[0] ?? '')).toString());
}

async function readLog(exportId: string): Promise<string> {
  const { rows: lines } = await installation.sql<{ line: string }>`select concat_ws(' ', timestamp,
    level, message) as line from log_entries where export_id = ${exportId} order by id`;
  return lines.map(({ line }) => line).join('\n');
}

// The run is over by the removal: `generations.test.ts` has it. Only an Iceberg table has the steps of a table.
const all = failpointNames.filter((name) => !/enqueue|removal|table|statement|chain/.test(name));
// Workers die at upload_begun in a test of its own.
const isByDay = (name: FailpointName) =>
  !/claim|before_open|upload_begun|first_part|_complete|before_record/.test(name);
const steps = casesOf(
  all.filter(isByDay),
  all.filter((name) => !isByDay(name)),
);
const outcomes = new Map<
  FailpointName,
  { exportId: string; run: RunRow; manifest: { attempt: number }; log: string }
>();

beforeAll(async () => {
  const { workers } = await killAtEach(steps);
  for (const worker of workers) {
    expect(await worker.waitForExit()).toEqual({ code: null, signal: 'SIGKILL' });
  }
  const exportOf = new Map<FailpointName, string>();
  for (const [index, worker] of workers.entries()) {
    exportOf.set(steps[index] as FailpointName, (await runOf(worker)) ?? '');
  }
  // A run that is taken for a small one, and has no room to grow, takes one attempt more.
  await installation.startWorker({ WORKER_SMALL_RUNS: '0' });
  for (const [step, exportId] of exportOf) {
    const [run] = await untilEnded(installation, exportId);
    expect(run, step).toMatchObject({ status: 'Completed' });
    const log = await readLog(exportId);
    if (run) outcomes.set(step, { exportId, run, manifest: await readManifest(exportId), log });
  }
});

test.each(steps)('at the step %s: another worker finishes the run', (step) => {
  const outcome = outcomes.get(step);
  expect(outcome?.run, outcome?.log).toMatchObject({ status: 'Completed', rows, attempt: 2 });
  // A manifest that is already current is adopted, not written again.
  const adopted = step === 'after_manifest' || step === 'before_record';
  expect(outcome?.manifest).toMatchObject({ attempt: adopted ? 1 : 2, total_rows: rows });
});

test('all invariants hold after all of them', async () => {
  const verified = await expectInvariants(installation);
  // Those of the killed workers too.
  expect(await installation.s3.uploads(bucket)).toEqual([]);
  await retireExports(installation);
  expect(verified).toMatchObject({ intervals: steps.length, rows: steps.length * rows });
});

atNight(
  'an upload begun in the instant of a kill is aborted, also if its run is cancelled or fails',
  async () => {
    await installation.stopWorkers();
    const { pool, s3 } = installation;
    const dead = await killAtEach(['upload_begun', 'upload_begun']);
    const left = await s3.uploads(bucket);
    expect(left).toHaveLength(2);
    const [cancelled = '', setAside = ''] = dead.exports;
    const [run] = await readRuns(installation, cancelled);
    const path = `${projectPath(installation)}/batch_exports/${cancelled}/runs/${run?.id}/cancel/`;
    expect((await installation.client.post(path)).status).toBe(200);
    await pool.query(`update runs set crashes = 9 where export_id = $1`, [setAside]);
    await installation.startWorker({ FAILPOINTS: 'before_open=abort' });
    expect(await untilEnded(installation, setAside)).toMatchObject([{ errorCode: 'run.crashed' }]);
    await expectInvariants(installation);
    expect(await s3.uploads(bucket)).toEqual([]);
    await retireExports(installation);
  },
);

atNight('kill -9 of the API between commit and enqueue: the run starts all the same', async () => {
  const exportId = await createS3Export(installation, { name: 'unrung' });
  await installation.stopWorkers();
  await installation.startWorker();
  const api = installation.processes.find((process) => !process.hasExited());
  api?.kill('SIGTERM');
  await api?.waitForExit();
  const doomed = await installation.startApi({ FAILPOINTS: 'before_enqueue=kill' });
  // The process ends before it answers: the client can't know, the database does. `backfill` would ask again for a minute.
  const path = `${projectPath(installation)}/batch_exports/${exportId}/backfill/`;
  const body = { start_at: quiet.start, end_at: quiet.end };
  await expect(installation.client.post(path, body)).rejects.toThrow();
  expect(await doomed.waitForExit()).toEqual({ code: null, signal: 'SIGKILL' });
  await until(
    async () => (await readRuns(installation, exportId)).some(({ attempt }) => attempt > 0),
    { message: 'the dispatcher starts the run' },
  );
  expect(await untilEnded(installation, exportId)).toMatchObject([
    { status: 'Completed', rows: 50 },
  ]);
  await installation.startApi();
  const backfills = await installation.client.get(path.replace('/backfill/', '/backfills/'));
  expect(backfills.body.results).toMatchObject([{ total_runs: 1 }]);
  await expectInvariants(installation);
  await retireExports(installation);
});
