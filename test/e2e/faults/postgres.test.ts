import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  backfill,
  countParts,
  createS3Export,
  insertEvents,
  projectPath,
  retireExports,
  slowDown,
  untilEnded,
} from '../../support/exported-events.ts';
import { startInstallation } from '../../support/installation.ts';
import { expectInvariants } from '../../support/invariants.ts';
import { openLoudLines, readDependencyUp } from '../../support/outage-lines.ts';
import { startOwnPostgres } from '../../support/postgres-server.ts';
import { startTcpProxy, type TcpProxy } from '../../support/tcp-proxy.ts';
import { until } from '../../support/until.ts';
import { useStage } from '../../support/use-stage.ts';

const rows = 3_000;
const cuts = 25;
/** Hours enough that the last cut still strikes a run. */
const quietHours = 36;
const quiet = {
  start: '2024-03-02T00:00:00Z',
  end: new Date(Date.UTC(2024, 2, 2, quietHours)).toISOString(),
};

const postgres = useStage(() => startOwnPostgres());
let proxy: TcpProxy;
beforeAll(async () => {
  proxy = await startTcpProxy({ target: { port: postgres.port } });
});
afterAll(() => proxy?.close());
const installation = useStage(() =>
  startInstallation({
    workers: 2,
    databaseUrl: postgres.url,
    env: { LEASE_SECONDS: '5' },
    reachedAt: (url) => Object.assign(new URL(url), { port: String(proxy.port) }).href,
  }),
);
beforeAll(async () => {
  const team = installation.tenant.projectIds[0];
  await insertEvents(installation.pool, { team, rows, rowBytes: 4_000 });
  await insertEvents(installation.pool, { team, rows: 120, ...quiet });
});
test.each(['immediate', 'fast'] as const)(
  'restarted mid-run (%s): the pool heals, no 5xx after 5 s, nothing written is lost',
  async (mode) => {
    const { client, s3 } = installation;
    const exportId = await createS3Export(installation, { name: `over a ${mode} restart` });
    await slowDown(installation, 'UploadPart', 700);
    await backfill(installation, exportId);
    await until(async () => (await countParts(installation, exportId)) >= 1);
    const loudLines = openLoudLines(installation);
    await postgres.restart(mode);
    await until(
      async () => (await client.get(`${projectPath(installation)}/batch_exports/`)).status === 200,
      { everyMs: 100, message: 'the API answers again' },
    );
    for (const _ of Array.from({ length: 30 })) {
      expect((await client.get(`${projectPath(installation)}/batch_exports/`)).status).toBe(200);
    }
    await until(async () => (await readDependencyUp(installation, 'postgres')) === 1);
    // One line of each process, whatever number of connections it lost.
    const lines = loudLines().filter((line) => !line.includes('is reachable again'));
    expect(lines.length, lines.join('\n')).toBeLessThanOrEqual(installation.processes.length);
    for (const line of lines) expect(line).toContain('DATABASE_URL: PostgreSQL is unreachable');
    await s3.faults.clear();
    const [run] = await untilEnded(installation, exportId, { timeoutMs: 90_000 });
    expect(run).toMatchObject({ status: 'Completed', rows });
    await expectInvariants(installation);
    await retireExports(installation);
  },
);

test('connections cut again and again, also between COMMIT and its answer: each write once', async () => {
  const exportId = await createS3Export(installation, { name: 'over cut connections' });
  await backfill(installation, exportId, quiet, { concurrency: 4 });
  // At any byte: within a statement, a COMMIT, or the answer to it.
  for (let cut = 0; cut < cuts; cut += 1) {
    const before = proxy.resets;
    proxy.resetAfterBytes(1 + ((cut * 7_919) % 20_000));
    // The runs may have ended: then requests make the bytes.
    const isCut = async () => {
      await installation.client.get(`${projectPath(installation)}/batch_exports/`).catch(() => {});
      return proxy.resets > before;
    };
    await until(isCut, { message: 'the cut has struck' });
  }
  proxy.resetAfterBytes(Number.MAX_SAFE_INTEGER);
  const runs = await untilEnded(installation, exportId, { count: quietHours, timeoutMs: 90_000 });
  expect(runs).toHaveLength(quietHours);
  expect(runs.map(({ status }) => status)).toEqual(runs.map(() => 'Completed'));
  await expectInvariants(installation);
  await retireExports(installation);
});
