import { afterEach, describe, expect, test } from 'vitest';
import {
  backfill,
  countParts,
  createS3Export,
  insertEvents,
  readRuns,
  untilEnded,
} from '../support/exported-events.ts';
import {
  bucket,
  type Installation,
  startInstallation,
  testedQueues,
} from '../support/installation.ts';
import { expectInvariants } from '../support/invariants.ts';
import { until } from '../support/until.ts';

const rows = 24_000;
const leaseSeconds = 2;
const sweepSeconds = 5;

let installation: Installation;
afterEach(() => installation?.close());

const layouts = [
  { layout: 'one file', config: {}, files: 1 },
  {
    layout: 'files by partition',
    config: { partition_by: ['event', 'hour(inserted_at)'] },
    files: 5,
  },
];

describe.each(testedQueues())('with the queue in %s', (queue) => {
  test.each(layouts)(
    'a worker that is killed mid-upload of $layout is replaced within lease and sweep, and no row is lost or doubled',
    async ({ config, files }) => {
      installation = await startInstallation({ queue, workers: 3 });
      const { pool, processes, s3, tenant } = installation;
      await insertEvents(pool, { team: tenant.projectIds[0], rows, rowBytes: 1_000 });
      const exportId = await createS3Export(installation, { config });
      await s3.faults.add({
        match: { operation: 'UploadPart' },
        times: Number.POSITIVE_INFINITY,
        effect: { delayMs: 1_000 },
      });
      await backfill(installation, exportId);

      await until(async () => (await countParts(installation, exportId)) >= 1, {
        message: 'a part has arrived',
      });
      const [before] = await readRuns(installation, exportId);
      const victim = processes.find(({ pid }) => pid === before?.holderPid);
      victim?.kill('SIGKILL');
      expect(await victim?.waitForExit()).toEqual({ code: null, signal: 'SIGKILL' });
      expect((await s3.uploads(bucket)).length, 'it was killed mid-upload').toBeGreaterThan(0);

      await until(
        async () => {
          const [run] = await readRuns(installation, exportId);
          return run && run.attempt > (before?.attempt ?? 0) && run.holderPid !== victim?.pid;
        },
        // After the lease and a sweep; a tick's time more for the notification.
        {
          timeoutMs: (leaseSeconds + sweepSeconds + 2) * 1_000,
          message: 'another worker has taken the run over',
        },
      );
      await s3.faults.clear();

      const [run, ...others] = await untilEnded(installation, exportId);
      expect(run).toMatchObject({ status: 'Completed', rows });
      // More if the machine is so busy that a worker cannot keep its short lease.
      expect(run?.attempt).toBeGreaterThanOrEqual(2);
      expect(others).toEqual([]);

      const keys = (await s3.objects(bucket)).map(({ key }) => key);
      expect(keys.filter((key) => key.endsWith('_manifest.json'))).toHaveLength(1);
      expect(keys).toHaveLength(files + 1);
      expect(await expectInvariants(installation)).toMatchObject({
        exports: 1,
        intervals: 1,
        rows,
      });
      // A look of the sweep has aborted that of the killed worker.
      expect(await s3.uploads(bucket)).toEqual([]);

      // The files have the bytes that a run without an accident makes.
      const made = (await s3.objects(bucket)).map(({ key }) => key);
      await backfill(installation, exportId);
      await untilEnded(installation, exportId, { count: 2 });
      expect((await s3.objects(bucket)).map(({ key }) => key)).toEqual(made);
    },
    150_000,
  );
});
