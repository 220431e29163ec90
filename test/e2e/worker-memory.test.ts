import { afterAll, beforeAll, expect, it } from 'vitest';
import {
  backfill,
  createS3Export,
  hour,
  insertEvents,
  untilEnded,
} from '../support/exported-events.ts';
import { type Installation, startInstallation } from '../support/installation.ts';

let installation: Installation;

beforeAll(async () => {
  installation = await startInstallation({ workers: 0 });
  const [team] = installation.tenant.projectIds;
  await insertEvents(installation.pool, { team, rows: 5_000 });
});

afterAll(() => installation?.close());

it('a worker with memory for one run executes them one after another, whatever its concurrency', async () => {
  const exports = await Promise.all(
    Array.from({ length: 4 }, () =>
      createS3Export(installation, { config: { file_format: 'Parquet', compression: 'zstd' } }),
    ),
  );
  for (const id of exports) await backfill(installation, id, hour);
  await installation.startWorker({ WORKER_MEMORY_MB: '240', WORKER_CONCURRENCY: '4' });
  for (const id of exports) {
    const [run] = await untilEnded(installation, id);
    expect(run).toMatchObject({ status: 'Completed', attempt: 1, rows: 5_000 });
  }
  const { rows } = await installation.pool.query(
    `select a.id from runs a join runs b on a.id < b.id
      where (a.started_at, a.finished_at) overlaps (b.started_at, b.finished_at)`,
  );
  expect(rows).toEqual([]);
});
