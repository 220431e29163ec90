import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  backfill,
  createS3Export,
  hour,
  insertEvents,
  untilEnded,
} from '../support/exported-events.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import { startSluice } from '../support/processes.ts';

const rows = 1_000_000;
const heapMib = 64;

let installation: Installation;
beforeAll(async () => {
  installation = await startInstallation({ workers: 1, env: { UPLOAD_PART_MIB: '8' } });
  const team = installation.tenant.projectIds[0];
  await insertEvents(installation.pool, { team, rows });
});
afterAll(() => installation?.close());

async function verify(exportId: string) {
  const command = startSluice('clients/cli/sluice.js', ['verify', '--export', exportId], {
    env: { ...installation.env, NODE_OPTIONS: `--max-old-space-size=${heapMib}` },
  });
  let peak = 0;
  const watch = setInterval(() => {
    try {
      const status = readFileSync(`/proc/${command.pid}/status`, 'utf8');
      peak = Math.max(peak, Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024);
    } catch {
      // It has ended.
    }
  }, 100);
  const startedAt = performance.now();
  const { code } = await command.waitForExit(600_000);
  clearInterval(watch);
  const seconds = Math.round((performance.now() - startedAt) / 100) / 10;
  console.log(`verify: ${seconds} s, at most ${Math.round(peak)} MiB, exit ${code}`);
  return { code, output: command.output() };
}

test.each([
  ['JSONLines', 'zstd'],
  ['CSV', 'gzip'],
  ['Parquet', 'zstd'],
])(
  `${rows} rows of an interval in %s + %s are proven with a heap of ${heapMib} MiB, and one lost row is named`,
  async (file_format, compression) => {
    const exportId = await createS3Export(installation, { config: { file_format, compression } });
    await backfill(installation, exportId, hour);
    expect(await untilEnded(installation, exportId, { timeoutMs: 300_000 })).toMatchObject([
      { status: 'Completed', rows },
    ]);
    const proven = await verify(exportId);
    expect(proven.output).toContain(`1 interval, 1 file, ${rows} rows`);
    expect(proven.code).toBe(0);

    const { rows: moved } = await installation.pool.query<{ uuid: string }>(
      `update events set uuid = gen_random_uuid()
      where uuid = (select uuid from events order by uuid limit 1) returning uuid`,
    );
    const broken = await verify(exportId);
    expect(broken.code).toBe(1);
    expect(broken.output).toContain(`1 rows lost: ${moved[0]?.uuid}`);
    expect(broken.output).toContain('1 rows are not in the source');
  },
);
