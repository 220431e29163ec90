import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { backfill, createS3Export, hour, untilEnded } from '../support/exported-events.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import { expectInvariants } from '../support/invariants.ts';
import { startBundled } from '../support/processes.ts';
import { addStep } from '../support/transforms/purchases.ts';

let installation: Installation;
beforeAll(async () => {
  installation = await startInstallation({ workers: 1 });
});
afterAll(() => installation?.close());

/** Verifies all exports, in a process of its own. @returns the most MiB that it had */
async function verifyAll(): Promise<number> {
  const command = startBundled('clients/cli/sluice.js', ['verify'], { env: installation.env });
  let peak = 0;
  const watch = setInterval(() => {
    try {
      const status = readFileSync(`/proc/${command.pid}/status`, 'utf8');
      peak = Math.max(peak, Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024);
    } catch {
      // It has ended.
    }
  }, 50);
  const { code } = await command.waitForExit(300_000).finally(() => clearInterval(watch));
  expect(code, command.output()).toBe(0);
  return peak;
}

test('a value of 50 MB is exported whole, and verified at once in several formats and with a chain', async () => {
  await installation.pool.query(
    `insert into events (uuid, team_id, event, properties, inserted_at)
     values (gen_random_uuid(), $1, 'large', jsonb_build_object('text', repeat('0123456789', 5000000)), $2)`,
    [installation.tenant.projectIds[0], hour.start],
  );
  const exportId = await createS3Export(installation, { name: 'a large value' });
  await backfill(installation, exportId, hour);
  expect(await untilEnded(installation, exportId)).toMatchObject([
    { status: 'Completed', rows: 1 },
  ]);
  const { rows: found } = await installation.pool.query<{ bytes: number }>(
    'select bytes_exported::int as bytes from runs where export_id = $1',
    [exportId],
  );
  expect(found[0]?.bytes).toBeGreaterThan(50_000_000);
  await expectInvariants(installation);
  await addStep(installation, 1, 1, { properties: 'email' });
  for (const file_format of ['JSONLines', 'CSV', 'Parquet']) {
    const id = await createS3Export(installation, {
      transformations: true,
      config: { file_format, compression: file_format === 'Parquet' ? 'zstd' : 'gzip' },
    });
    await backfill(installation, id, hour);
    expect(await untilEnded(installation, id)).toMatchObject([{ status: 'Completed', rows: 1 }]);
  }
  // Large rows are held one at a time.
  expect(await verifyAll()).toBeLessThan(800);
}, 600_000);
