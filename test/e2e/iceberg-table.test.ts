import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { Destination } from '../../src/rows/destinations/destination.ts';
import { s3Definition } from '../../src/rows/destinations/s3/definition.ts';
import { contextWith, owner, readAll } from '../conformance/destination-suite.ts';
import { expectRight, makeStatement } from '../support/checked-place.ts';
import {
  backfill,
  createS3Export,
  insertEvents,
  projectPath,
  retireExports,
  untilEnded,
} from '../support/exported-events.ts';
import { readByIcebird, snapshotsOf } from '../support/icebird.ts';
import { bucket, region, startInstallation } from '../support/installation.ts';
import { findBreaches } from '../support/invariants.ts';
import { until } from '../support/until.ts';
import { useStage } from '../support/use-stage.ts';

/** Of the table. */
const folder = 'lake/events';
const hours = { start: '2024-03-01T00:00:00Z', end: '2024-03-01T06:00:00Z' };
const second = { start: '2024-03-01T01:00:00Z', end: '2024-03-01T02:00:00Z' };
const rows = 600;
let bucketAsReaders: Destination;
const installation = useStage(() => startInstallation({ workers: 0 }));
beforeAll(async () => {
  bucketAsReaders = openBucket();
});
afterEach(async () => {
  await installation.stopWorkers();
  await retireExports(installation);
});
afterAll(async () => {
  await bucketAsReaders?.close();
});

test('an Iceberg table has each row once, through dying workers, a re-run and the end of its snapshots', async () => {
  const { pool, tenant, client } = installation;
  const team = tenant.projectIds[0];
  await insertEvents(pool, { team, rows, ...hours });
  const exportId = await createS3Export(installation, {
    config: { prefix: 'lake/{table}/{year}', ...tableConfig },
  });
  // Six intervals at once, and a worker that dies between the table and a manifest.
  const doomed = await installation.startWorker({ FAILPOINTS: 'after_table=kill' });
  await backfill(installation, exportId, hours);
  expect(await doomed.waitForExit()).toMatchObject({ signal: 'SIGKILL' });
  await Promise.all([installation.startWorker(), installation.startWorker()]);
  const runs = await untilEnded(installation, exportId, { count: 6 });
  expect(runs.map(({ status }) => status)).toEqual(runs.map(() => 'Completed'));
  await expectRows(rows);

  // Late rows of one hour.
  await insertEvents(pool, { team, rows: 10, ...second });
  await backfill(installation, exportId, second);
  await untilEnded(installation, exportId, { count: 7 });
  await expectRows(rows + 10);
  const before = (await snapshotsOf(bucketAsReaders, folder)).at(-2);
  expect(await readByIcebird(bucketAsReaders, folder, before)).toHaveLength(rows);
  expect((await findBreaches(installation)).breaches).toEqual([]);

  // What would leave the table behind is refused.
  const path = `${projectPath(installation)}/batch_exports/${exportId}/`;
  for (const change of [{ table_format: null }, { prefix: 'lake/other' }]) {
    const refused = await client.patch(path, { destination: { config: change } });
    expect(refused.status).toBe(400);
    expect(refused.body.attr).toBe(`destination__config__${Object.keys(change)[0]}`);
  }
  const kept = await client.patch(path, {
    destination: { config: { snapshot_retention_days: 1 } },
  });
  expect(kept.status).toBe(200);

  const held = await leftKeys(exportId);
  expect(held.length).toBeGreaterThan(0);
  await ageSnapshots(20);
  await pool.query('update leftover_files set tried_at = null');
  await until(async () => (await leftKeys(exportId)).length === 0, {
    message: 'the sweep has removed the files of expired snapshots',
  });
  for (const key of held) expect(await bucketAsReaders.statFile(key)).toBeNull();
  expect(await snapshotsOf(bucketAsReaders, folder)).toHaveLength(1);
  await expectRows(rows + 10);
  expect((await findBreaches(installation)).breaches).toEqual([]);
  await makeStatement(installation, exportId);
  await expectRight(installation, folder);
}, 240_000);

const tableConfig = { file_format: 'Parquet', compression: 'zstd', table_format: 'iceberg' };

async function expectRows(count: number): Promise<void> {
  const read = await readByIcebird(bucketAsReaders, folder);
  expect(read).toHaveLength(count);
  expect(new Set(read.map(({ uuid }) => uuid)).size).toBe(count);
}

/** Files of earlier generations that are still there. */
async function leftKeys(exportId: string): Promise<string[]> {
  const { rows: found } = await installation.sql<{ key: string }>`select l.key from leftover_files l
    join receipts c using (export_id, data_interval_start, data_interval_end, destination_version)
    where l.export_id = ${exportId} and l.generation < c.generation and l.deleted_at is null
    and l.key like '%.parquet'`;
  return found.map(({ key }) => key);
}

/** Lets the table be as it will be after some days. */
async function ageSnapshots(days: number): Promise<void> {
  const hint = await readAll(bucketAsReaders, `${folder}/metadata/version-hint.text`);
  const key = `${folder}/metadata/v${hint}.metadata.json`;
  const text = String(await readAll(bucketAsReaders, key));
  const earlier = text.replaceAll(
    /("(?:timestamp|last-updated)-ms":)(\d+)/g,
    (_, name: string, ms: string) => name + (Number(ms) - days * 86_400_000),
  );
  const etag = (await bucketAsReaders.statFile(key))?.etag ?? null;
  await bucketAsReaders.commitManifest(key, Buffer.from(earlier), etag);
}

function openBucket(): Destination {
  const { s3, secrets } = installation;
  const config = {
    bucket_name: bucket,
    region,
    endpoint_url: s3.endpoint,
    aws_access_key_id: secrets.get('the access key id'),
    aws_secret_access_key: secrets.get('the secret access key'),
  };
  return s3Definition.open(config, contextWith({}), owner);
}
