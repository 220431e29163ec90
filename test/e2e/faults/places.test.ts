import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { createS3Export, insertEvents, retireExports } from '../../support/exported-events.ts';
import { hourRuns } from '../../support/hour-runs.ts';
import { bucket, type Installation, startInstallation } from '../../support/installation.ts';
import { expectInvariants } from '../../support/invariants.ts';
import { isNightly } from '../../support/nightly.ts';
import { until } from '../../support/until.ts';

/** An export that moves between buckets, and reaches a bucket by another address. */

const rows = 50;
const elsewhere = 'elsewhere';
const stem = '20240301T000000Z-20240301T010000Z';

let installation: Installation;
beforeAll(async () => {
  installation = await startInstallation({
    workers: 1,
    s3: { buckets: [bucket, elsewhere] },
    env: { ALLOWED_PRIVATE_ENDPOINTS: '127.0.0.1,localhost' },
  });
  await insertEvents(installation.pool, { team: installation.tenant.projectIds[0], rows });
});
afterEach(() => retireExports(installation));
afterAll(() => installation?.close());

const { runAgain, change } = hourRuns(() => installation);

/** The rows that the manifests of an interval name in a bucket, by the folder of each that is current. */
async function currentIn(place: string, exportId: string): Promise<Record<string, number>> {
  const found: Record<string, number> = {};
  for (const folder of ['old', 'new']) {
    const key = `${exportId}/${folder}/${stem}_manifest.json`;
    const body = await installation.s3.body(place, key).catch(() => null);
    const manifest = body && JSON.parse(body.toString());
    if (manifest?.files.length > 0) found[folder] = manifest.total_rows;
  }
  return found;
}

const prefixOf = (folder: string) => ({ prefix: `{batch_export_id}/${folder}` });

async function startAtOld(): Promise<string> {
  const exportId = await createS3Export(installation, { config: prefixOf('old') });
  expect(await runAgain(exportId, 0)).toMatchObject({ status: 'Completed', rows });
  return exportId;
}

describe('an interval that was exported at another place', () => {
  test('stays current at the place that the export has left, until the export returns with another prefix', async () => {
    const exportId = await startAtOld();
    await change(exportId, { bucket_name: elsewhere });
    expect(await runAgain(exportId, 1)).toMatchObject({ status: 'Completed', rows });
    expect(await currentIn(bucket, exportId)).toEqual({ old: rows });
    expect(await currentIn(elsewhere, exportId)).toEqual({ old: rows });
    await change(exportId, { bucket_name: bucket, ...prefixOf('new') });
    const { rows: left } = await installation.pool.query(
      `select destination_config ->> 'bucket_name' as bucket from former_destinations where export_id = $1`,
      [exportId],
    );
    expect(left).toEqual([{ bucket: elsewhere }]);
    expect(await runAgain(exportId, 2)).toMatchObject({ status: 'Completed', rows });
    await until(async () => !('old' in (await currentIn(bucket, exportId))));
    expect(await currentIn(bucket, exportId)).toEqual({ new: rows });
    expect(await currentIn(elsewhere, exportId)).toEqual({ old: rows });
    expect(await expectInvariants(installation)).toMatchObject({ rows });
  });

  test.runIf(isNightly)(
    'is no longer current at a former prefix of the same bucket by another address',
    async () => {
      const exportId = await startAtOld();
      const { port } = new URL(installation.s3.endpoint);
      await change(exportId, { endpoint_url: `http://localhost:${port}`, ...prefixOf('new') });
      expect(await runAgain(exportId, 1)).toMatchObject({ status: 'Completed', rows });
      await until(async () => !('old' in (await currentIn(bucket, exportId))), {
        timeoutMs: 60_000,
        message: 'the manifest at the former prefix is a tombstone',
      });
      expect(await currentIn(bucket, exportId)).toEqual({ new: rows });
      expect(await expectInvariants(installation)).toMatchObject({ rows });
      const listed = await installation.s3.objects(bucket);
      expect(listed.filter(({ key }) => key.includes('.sluice-'))).toEqual([]);
    },
  );
});
