import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, test } from 'vitest';
import { toTimestamp } from '../../../src/foundation/domain/time.ts';
import { insertRuns } from '../../../src/state/store/runs/runs.ts';
import { readNow } from '../../../src/state/store/intervals/ticks.ts';
import { issueKey } from '../../../src/service/use-cases/tenants/keys.ts';
import {
  createS3Export,
  hour,
  insertEvents,
  projectPath,
  readRuns,
  retireExports,
  untilEnded,
} from '../../support/exported-events.ts';
import { type Installation, startInstallation, testedQueues } from '../../support/installation.ts';
import { expectInvariants } from '../../support/invariants.ts';
import { createExportOfThePast, hourMs } from '../../support/run-side.ts';
import { until } from '../../support/until.ts';
import { useStage } from '../../support/use-stage.ts';

const shiftedClock = fileURLToPath(new URL('../../support/shifted-clock.mjs', import.meta.url));
const shifted = (shiftMs: number) => ({
  NODE_OPTIONS: `--import ${shiftedClock}`,
  CLOCK_SHIFT_MS: String(shiftMs),
});
const rows = 50;

describe.each(testedQueues())('on the queue in %s', (queue) => {
  const installation = useStage(() =>
    startInstallation({
      queue,
      workers: 0,
      // A busy machine may hold up a heartbeat for longer than a lease of two seconds allows.
      env: { LEASE_SECONDS: '4', UPLOAD_STALL_SECONDS: '30' },
    }),
  );
  beforeAll(async () => {
    const team = installation.tenant.projectIds[0];
    await insertEvents(installation.pool, { team, rows });
  });

  const shifts = [
    ['an hour ahead', hourMs],
    ['an hour behind', -hourMs],
  ] as const;
  // If there are two queues, one worker on each: the other one runs beside it.
  const tested = shifts.filter(
    ([, ms]) => testedQueues().length === 1 || ms > 0 === (queue === 'postgres'),
  );

  describe.each(tested)('a host whose clock is %s', (_, shiftMs) => {
    test('decides each tick when it is due: none early, missed or twice', async () => {
      const worker = await installation.startWorker(shifted(shiftMs));
      const exportId = await pastExport(installation);
      await untilTicked(installation, exportId);
      // Its recurring jobs continue elsewhere after it has ended.
      worker.kill('SIGKILL');
      await worker.waitForExit();
      await installation.startWorker();
      await untilTicked(installation, await pastExport(installation));
      await untilTicked(installation, exportId);
    });

    test('keeps the lease of its run, and no other worker takes it', async () => {
      await installation.stopWorkers();
      const slow = { operation: 'PutObject' } as const;
      const worker = await installation.startWorker(shifted(shiftMs));
      const ids = await Promise.all([1, 2, 3].map(() => newRun(installation)));
      // Past the lease of 4 s, which the others see by Postgres' clock and would take.
      for (const id of ids) {
        const match = { ...slow, key: new RegExp(id) };
        await installation.s3.faults.add({ match, effect: { delayMs: 4_800 } });
      }
      await untilClaimed(installation, ids);
      await installation.startWorker();
      await installation.startWorker(shifted(-shiftMs));
      for (const id of ids) {
        expect(await untilEnded(installation, id)).toMatchObject([
          { status: 'Completed', rows, attempt: 1, crashes: 0, faults: 0 },
        ]);
      }
      expect(worker.hasExited()).toBe(false);
    });

    test('leaves no lease behind for ever when it dies', async () => {
      await installation.stopWorkers();
      const worker = await installation.startWorker({
        ...shifted(shiftMs),
        FAILPOINTS: 'before_open=hold',
      });
      const id = await newRun(installation);
      await untilClaimed(installation, [id]);
      worker.kill('SIGKILL');
      await worker.waitForExit();
      await installation.startWorker();
      expect(await untilEnded(installation, id)).toMatchObject([
        { status: 'Completed', rows, attempt: 2 },
      ]);
    });

    test('takes API keys until they expire, and no longer', async () => {
      const { client, db, tenant } = installation;
      await restartApi(installation, shifted(shiftMs));
      const now = await readNow(db);
      const answers = await Promise.all(
        [now + hourMs / 2, now - hourMs / 2].map(async (expiresAt) => {
          const { key, apiKey } = await issueKey(db, {
            organizationId: tenant.organizationId,
            projectIds: null,
            name: 'a key that ends',
            scopes: ['*'],
            expiresAt: toTimestamp(now + hourMs),
          });
          await db.query(`update api_keys set expires_at = $2 where id = $1`, [
            apiKey.id,
            toTimestamp(expiresAt),
          ]);
          const path = `${projectPath(installation)}/batch_exports/`;
          return (await client.withKey(key).get(path)).status;
        }),
      );
      expect(answers).toEqual([200, 401]);
      await restartApi(installation, {});
    });

    test('all invariants hold after it', async () => {
      await expectInvariants(installation);
      await retireExports(installation);
      await installation.stopWorkers();
    });
  });
});

/** An export whose hourly ticks of the last three hours are due. */
async function pastExport({ db, tenant }: Installation): Promise<string> {
  const teamId = tenant.projectIds[0];
  return (await createExportOfThePast({ db, teamId }, { createdMsAgo: 3 * hourMs })).id;
}

/** Waits until the ticks are those of Postgres' clock: each full hour of the last three, once. */
async function untilTicked({ pool }: Installation, exportId: string): Promise<void> {
  let seen: unknown;
  await until(
    async () => {
      const { rows: found } = await pool.query<{ due: number; ticks: number; runs: number }>(
        `select floor(extract(epoch from now()) / 3600)::int - floor(extract(epoch from now() - interval '3 h') / 3600)::int as due,
                (select count(*)::int from ticks where export_id = $1 and tick_at <= now()) as ticks,
                (select count(*)::int from runs where export_id = $1 and status = 'Completed') as runs`,
        [exportId],
      );
      seen = found[0];
      return found[0]?.ticks === found[0]?.due && found[0]?.runs === found[0]?.due;
    },
    { message: () => `the ticks are decided: ${JSON.stringify(seen)}` },
  );
  const { rows: early } = await pool.query('select from ticks where tick_at > now()');
  expect(early).toEqual([]);
}

async function newRun(installation: Installation): Promise<string> {
  const exportId = await createS3Export(installation, { interval: 'day' });
  const interval = { start: Date.parse(hour.start), end: Date.parse(hour.end) };
  const teamId = installation.tenant.projectIds[0];
  await insertRuns(installation.db, [{ exportId, teamId, interval, backfillId: null }]);
  return exportId;
}

function untilClaimed(installation: Installation, ids: readonly string[]): Promise<unknown> {
  return until(
    async () => {
      const runs = (await Promise.all(ids.map((id) => readRuns(installation, id)))).flat();
      return runs.every(({ attempt }) => attempt > 0);
    },
    { message: 'the runs are claimed' },
  );
}

async function restartApi(
  installation: Installation,
  env: Readonly<Record<string, string>>,
): Promise<void> {
  const apis = installation.processes.filter((process) => /^ready http/m.test(process.output()));
  for (const api of apis.filter((process) => !process.hasExited())) {
    api.kill('SIGTERM');
    await api.waitForExit();
  }
  await installation.startApi(env);
}
