import { afterAll, beforeAll, expect, test } from 'vitest';
import { backfill, createS3Export, hour, untilEnded } from '../support/exported-events.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import { expectInvariants } from '../support/invariants.ts';

let installation: Installation;
beforeAll(async () => {
  installation = await startInstallation({ workers: 1 });
});
afterAll(() => installation?.close());

test('a value of 50 MB is exported whole', async () => {
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
});
