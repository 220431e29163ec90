import { expect, test } from 'vitest';
import {
  backfill,
  createS3Export,
  hour,
  insertEvents,
  untilEnded,
} from '../support/exported-events.ts';
import { startInstallation } from '../support/installation.ts';
import { expectInvariants } from '../support/invariants.ts';
import { peakMib, startBundled } from '../support/processes.ts';
import { addStep } from '../support/transforms/purchases.ts';
import { useStage } from '../support/use-stage.ts';

const rows = Number(process.env.LARGE_ROWS ?? 1_000_000);
const heapMib = 64;

const installation = useStage(() =>
  startInstallation({ workers: 1, env: { UPLOAD_PART_MIB: '8' } }),
);

/** Verifies in a process of its own. @returns also the most MiB that it had */
async function verify(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const command = startBundled('clients/cli/sluice.js', ['verify', ...args], {
    env: { ...installation.env, ...env },
  });
  let peak = 0;
  const watch = setInterval(() => {
    peak = peakMib(command.pid) ?? peak;
  }, 50);
  const { code } = await command.waitForExit(600_000).finally(() => clearInterval(watch));
  return { code, output: command.output(), peak };
}

async function exportHour(count: number, body: Parameters<typeof createS3Export>[1]) {
  const exportId = await createS3Export(installation, body);
  await backfill(installation, exportId, hour);
  const [run] = await untilEnded(installation, exportId, { timeoutMs: 300_000 });
  expect(run).toMatchObject({ status: 'Completed', rows: count });
  return exportId;
}

test('a value of 50 MB is exported whole, and verified at once in several formats and with a chain', async () => {
  await installation.sql`insert into events (uuid, team_id, event, properties, inserted_at) values
    (gen_random_uuid(), ${installation.tenant.projectIds[0]}, 'large', jsonb_build_object('text',
    repeat('0123456789', 5000000)), ${hour.start})`;
  const exportId = await exportHour(1, { name: 'a large value' });
  const { rows: runs } = await installation.sql<{ bytes: number }>`select bytes_exported::int
    as bytes from runs where export_id = ${exportId}`;
  expect(runs[0]?.bytes).toBeGreaterThan(50_000_000);
  await expectInvariants(installation);
  await addStep(installation, 1, 1, { properties: 'email' });
  for (const file_format of ['JSONLines', 'CSV', 'Parquet']) {
    const compression = file_format === 'Parquet' ? 'zstd' : 'gzip';
    await exportHour(1, { transformations: true, config: { file_format, compression } });
  }
  const { code, output, peak } = await verify([]);
  expect(code, output).toBe(0);
  // Large rows are held one at a time.
  expect(peak).toBeLessThan(800);
}, 600_000);

test(`${rows} rows in each format are proven with a heap of ${heapMib} MiB, and one lost row is named`, async () => {
  await installation.pool.query('truncate events');
  await insertEvents(installation.pool, { team: installation.tenant.projectIds[0], rows });
  for (const [file_format, compression] of [
    ['JSONLines', 'zstd'],
    ['CSV', 'gzip'],
    ['Parquet', 'zstd'],
  ]) {
    const exportId = await exportHour(rows, { config: { file_format, compression } });
    const small = { NODE_OPTIONS: `--max-old-space-size=${heapMib}` };
    const proven = await verify(['--export', exportId], small);
    expect(proven.output).toContain(`1 interval, 1 file, ${rows} rows`);
    expect(proven.code).toBe(0);

    const { rows: moved } = await installation.sql<{ uuid: string }>`
      update events set uuid = gen_random_uuid()
      where uuid = (select uuid from events order by uuid limit 1) returning uuid`;
    const broken = await verify(['--export', exportId], small);
    expect(broken.code).toBe(1);
    expect(broken.output).toMatch(
      new RegExp(`1 row missing from the files, because they came after .*: ${moved[0]?.uuid}`),
    );
    expect(broken.output).toContain('1 row gone from the source');
  }
});
