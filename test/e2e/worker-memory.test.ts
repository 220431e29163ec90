import { beforeAll, expect, it } from 'vitest';
import { deployedMalloc } from '../support/deployed-malloc.ts';
import {
  backfill,
  createS3Export,
  insertEvents,
  projectPath,
  readRuns,
  untilEnded,
} from '../support/exported-events.ts';
import { startHostileStore } from '../support/hostile-store.ts';
import { startInstallation } from '../support/installation.ts';
import { peakMib } from '../support/processes.ts';
import { until } from '../support/until.ts';
import { useStage } from '../support/use-stage.ts';

const silent = useStage(() => startHostileStore(() => {}));
const installation = useStage(() => {
  // Nothing but the test ends a request to the silent store.
  const env = { ...deployedMalloc, UPLOAD_STALL_SECONDS: '3600', MAX_RUNS_PER_TENANT: '100' };
  return startInstallation({ workers: 0, env });
});
beforeAll(async () => {
  const [team] = installation.tenant.projectIds;
  await insertEvents(installation.pool, { team, rows: 5_000 });
});

/** Nothing is known of them: without this they would begin as small ones. */
async function expectLarge(exportIds: readonly string[]): Promise<void> {
  const sql = 'update batch_exports set outgrew_at = now() where id = any ($1)';
  await installation.pool.query(sql, [exportIds]);
}

it('fifty small runs complete while four large ones wait for their store, and one that grew waits for them', async () => {
  await installation.stopWorkers();
  // Four runs of JSON Lines of 27 MiB each, a quarter for other organizations, and a sixth of the memory for small runs.
  const memoryMb = 326;
  const worker = await installation.startWorker({
    WORKER_MEMORY_MB: String(memoryMb),
    // One of them is left to other organizations.
    WORKER_CONCURRENCY: '5',
  });
  const at = (n: number) => `2024-03-02T0${n}:00:00Z`;
  const before = { start: at(1), end: at(2) };
  const after = { start: at(2), end: at(7) };
  const [team] = installation.tenant.projectIds;
  await insertEvents(installation.pool, { team, rows: 20, ...before });
  await insertEvents(installation.pool, { team, rows: 100, ...after });
  const small: string[] = [];
  for (let n = 0; n < 10; n += 1) small.push(await createS3Export(installation));
  const grown = await createS3Export(installation);
  // What is known of them.
  for (const id of [...small, grown]) await backfill(installation, id, before);
  for (const id of [...small, grown]) await untilEnded(installation, id);

  const large: string[] = [];
  for (let n = 0; n < 4; n += 1) {
    const id = await createS3Export(installation, { config: { endpoint_url: silent.endpoint } });
    await expectLarge([id]);
    await backfill(installation, id);
    large.push(id);
  }
  const statuses = async (ids: readonly string[]) => {
    const runs = await Promise.all(ids.map((id) => readRuns(installation, id)));
    return runs.map((all) => all.at(-1)?.status);
  };
  const allWait = ['Running', 'Running', 'Running', 'Running'];
  await until(async () => {
    expect(await statuses(large)).toEqual(allWait);
    return true;
  });

  await installation.sql`update events set inserted_at = ${at(8)}::timestamptz +
    interval '10 minutes' where team_id = ${team} and inserted_at < '2024-03-02T00:00:00Z'`;
  const full = { start: at(8), end: at(9) };
  await backfill(installation, grown, full);
  for (const id of small) await backfill(installation, id, after, { concurrency: 5 });
  for (const id of small) {
    const runs = await untilEnded(installation, id, { count: 6 });
    const one = { status: 'Completed', attempt: 1, rows: 20 };
    expect(runs).toMatchObject(Array.from({ length: 6 }, () => one));
  }
  const { rows: kinds } = await installation.sql`select small, count(*)::int as runs from runs
    where export_id = any (${small}) and data_interval_start >= ${at(2)} group by 1`;
  expect(kinds).toEqual([{ small: true, runs: 50 }]);
  // It read a part of its rows, and has given its memory back.
  const logOf = async (exportId: string) => {
    const { rows } = await installation.sql<{ message: string }>`select message
      from log_entries where export_id = ${exportId} order by id`;
    return rows.map(({ message }) => message);
  };
  await until(
    async () => {
      const entries = await logOf(grown);
      expect(entries.filter((text) => text.startsWith('The interval has more'))).toHaveLength(1);
      return true;
    },
    { message: 'the run that grew is handed back' },
  );
  expect(await statuses([...large, grown])).toEqual([...allWait, 'Running']);
  const attempts = await Promise.all(large.map((id) => readRuns(installation, id)));
  expect(attempts.flat().every(({ attempt }) => attempt === 1)).toBe(true);
  const remove = async (id: string | undefined) => {
    const path = `${projectPath(installation)}/batch_exports/${id}`;
    expect((await installation.client.delete(path)).status).toBe(204);
  };
  await remove(large[0]);
  const [, run] = await untilEnded(installation, grown, { count: 2 });
  expect(run).toMatchObject({ status: 'Completed', rows: 5_000, faults: 0, crashes: 0 });
  expect(peakMib(worker.pid)).toBeLessThan(memoryMb);
  for (const id of large.slice(1)) await remove(id);
});

it('a run of 5,000 partitions keeps to its memory', async () => {
  await installation.stopWorkers();
  // What is left to other organizations, small runs and the process itself, and a run of Parquet with partitions.
  const memoryMb = 400;
  const worker = await installation.startWorker({ WORKER_MEMORY_MB: String(memoryMb) });
  const config = { file_format: 'Parquet', compression: 'zstd', partition_by: ['uuid'] };
  const exportId = await createS3Export(installation, { config });
  const at = (n: number) => `2024-03-03T0${n}:00:00Z`;
  await expectLarge([exportId]);
  await insertEvents(installation.pool, {
    team: installation.tenant.projectIds[0],
    rows: 5_000,
    start: at(8),
    end: at(9),
  });
  await backfill(installation, exportId, { start: at(8), end: at(9) });
  const [run] = await untilEnded(installation, exportId, { timeoutMs: 240_000 });
  expect(run).toMatchObject({ status: 'Completed', rows: 5_000, attempt: 1 });
  expect(peakMib(worker.pid)).toBeLessThan(memoryMb);
}, 300_000);
