import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { backfill, projectPath, untilEnded } from '../support/exported-events.ts';
import { bucket, startInstallation } from '../support/installation.ts';
import { until } from '../support/until.ts';
import { openVerifySide, type VerifySide } from '../support/verify-side.ts';
import { useStage } from '../support/use-stage.ts';

let side: VerifySide;
const installation = useStage(() =>
  startInstallation({
    workers: 1,
    env: { ALLOWED_PRIVATE_ENDPOINTS: '127.0.0.1,localhost' },
  }),
);
beforeAll(async () => {
  side = openVerifySide(installation);
});
afterEach(() => side.clean());
afterAll(async () => {
  side?.close();
});

test('a former prefix that refuses removals is named with what is left there, and so is a dead marker', async () => {
  const id = await side.exportHour({ config: { prefix: 'old' } });
  const { client, pool, s3 } = installation;
  for (const operation of ['PutObject', 'DeleteObject'] as const) {
    await s3.faults.add({
      match: { operation, key: /^old\// },
      times: 1_000,
      effect: { status: 403, code: 'AccessDenied' },
    });
  }
  const path = `${projectPath(installation)}/batch_exports/${id}/`;
  const config = { prefix: 'new' };
  expect((await client.patch(path, { destination: { config } })).status).toBe(200);
  await backfill(installation, id);
  await untilEnded(installation, id, { count: 2 });
  const stem = 'old/20240301T000000Z-20240301T010000Z';
  const left = `${stem}.jsonl, ${stem}_manifest.json`;
  const rights = 's3:GetObject, s3:PutObject and s3:DeleteObject';
  const warning = await until(async () => {
    const { rows } = await pool.query<{ message: string }>(
      `select message from log_entries where export_id = $1 and message like '%could not be removed%s3:DeleteObject%'`,
      [id],
    );
    return rows[0]?.message;
  });
  expect(warning).toContain(`2 replaced files could not be removed: ${left}. `);
  expect(warning).toContain(rights);
  await side.put('new/.sluice-test-dead');
  const { code, out } = await side.verify(['--export', id]);
  expect(code, out).toBe(0);
  expect(out).toContain(`2 replaced files still there beside the current ones: ${left}. `);
  expect(out).toContain(rights);
  expect(out).toContain('1 object of tests of the store still there: new/.sluice-test-dead.');
  await s3.remove(bucket, 'new/.sluice-test-dead');
  // Once it may, Sluice removes them.
  await s3.faults.clear();
  await pool.query('update leftover_files set tried_at = null');
  await until(async () => !(await side.verify(['--export', id])).out.includes('still there'));
});
