import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { Destination } from '../../src/rows/destinations/destination.ts';
import { s3Definition } from '../../src/rows/destinations/s3/definition.ts';
import type { FailpointName } from '../../src/foundation/failpoints/failpoint.ts';
import { objectsOf } from '../../src/extensions/iceberg/iceberg-table.ts';
import { keptVersions } from '../../src/extensions/iceberg/metadata.ts';
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
import { bucket, type Installation, region, startInstallation } from '../support/installation.ts';
import { findBreaches } from '../support/invariants.ts';
import { casesOf, isNightly } from '../support/nightly.ts';
import type { TestProcess } from '../support/processes.ts';
import { findTableLeftovers } from '../support/table-leftovers.ts';
import { until } from '../support/until.ts';

/** Of the table of the test that runs. */
let folder = 'lake/events';
const hours = { start: '2024-03-01T00:00:00Z', end: '2024-03-01T06:00:00Z' };
const second = { start: '2024-03-01T01:00:00Z', end: '2024-03-01T02:00:00Z' };
const rows = 600;

let installation: Installation;
let bucketAsReaders: Destination;
beforeAll(async () => {
  installation = await startInstallation({ workers: 0 });
  bucketAsReaders = openBucket();
});
afterEach(async () => {
  await installation.stopWorkers();
  await retireExports(installation);
});
afterAll(async () => {
  await bucketAsReaders?.close();
  await installation?.close();
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
  expect(await doomed.waitForExit(60_000)).toMatchObject({ signal: 'SIGKILL' });
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
    timeoutMs: 60_000,
    message: 'the sweep has removed the files of expired snapshots',
  });
  for (const key of held) expect(await bucketAsReaders.statFile(key)).toBeNull();
  expect(await snapshotsOf(bucketAsReaders, folder)).toHaveLength(1);
  await expectRows(rows + 10);
  expect((await findBreaches(installation)).breaches).toEqual([]);
  await makeStatement(installation, exportId);
  await expectRight(installation, folder);
}, 240_000);

/** Where a worker can freeze around the commit to the table. */
const steps = casesOf<FailpointName>(
  ['before_table', 'after_table'],
  ['after_complete', 'before_manifest'],
);

test.runIf(isNightly)(
  'workers that wake after the table has moved on, and its old files are gone, change nothing',
  async () => {
    const { pool, tenant, client } = installation;
    const team = tenant.projectIds[0];
    await pool.query('delete from events where team_id = $1', [team]);
    await insertEvents(pool, {
      team,
      rows: steps.length * 50,
      start: hourOf(0).start,
      end: hourOf(steps.length).start,
    });
    folder = 'pond/events';
    const config = { prefix: 'pond/{table}/{year}', ...tableConfig, snapshot_retention_days: 1 };
    const exportId = await createS3Export(installation, { config });
    const sleepers: TestProcess[] = [];
    for (const [at, step] of steps.entries()) {
      const sleeper = await installation.startWorker({
        FAILPOINTS: `${step}=stop@1`,
        LEASE_SECONDS: '300',
      });
      sleepers.push(sleeper);
      await backfill(installation, exportId, hourOf(at));
      await until(() => sleeper.output().includes('=stop'), {
        timeoutMs: 60_000,
        message: () => `it freezes at ${step}:\n${sleeper.output().slice(-1_000)}`,
      });
    }
    await expireLeases();
    await installation.startWorker();
    await untilEnded(installation, exportId, { count: steps.length });
    // The rows change, so every interval gets other files, more often than numbers of versions are kept.
    let runs = steps.length;
    let total = steps.length * 50;
    while (runs < keptVersions + 2 * steps.length) {
      await insertEvents(pool, {
        team,
        rows: steps.length,
        start: hourOf(0).start,
        end: hourOf(steps.length).start,
      });
      total += steps.length;
      await runAll(exportId, {
        start: hourOf(0).start,
        end: hourOf(steps.length).start,
      });
      runs += steps.length;
      await untilEnded(installation, exportId, { count: runs });
    }
    await ageSnapshots(20);
    await pool.query('update leftover_files set tried_at = null');
    await until(async () => (await leftKeys(exportId)).length === 0, {
      timeoutMs: 60_000,
      message: 'the sweep has removed the files of expired snapshots',
    });
    await expectRows(total);

    const version = await readAll(bucketAsReaders, `${folder}/metadata/version-hint.text`);
    // The number that the one before its table is about to put is free again.
    expect(Number(version)).toBeGreaterThan(keptVersions + steps.length);
    for (const sleeper of sleepers) {
      const noticed = () => {
        sleeper.kill('SIGCONT');
        return /"end":"(lost|failed)"/.test(sleeper.output());
      };
      await until(noticed, {
        message: () => `it notices:\n${sleeper.output().slice(-2_000)}`,
      });
    }
    await expectRows(total);
    expect((await findBreaches(installation)).breaches).toEqual([]);

    // One that dies has a successor, who removes what all of them have left.
    await installation.stopWorkers();
    const doomed = await installation.startWorker({ FAILPOINTS: 'before_table=kill' });
    await insertEvents(pool, { team, rows: 1, ...hourOf(0) });
    await runAll(exportId, hourOf(0));
    await doomed.waitForExit(60_000);
    expect(await findLeft(exportId)).not.toEqual([]);
    await expireLeases();
    await installation.startWorker();
    await untilEnded(installation, exportId, { count: runs + 1 });
    expect(await findLeft(exportId)).toEqual([]);
    await expectRows(total + 1);
    expect((await findBreaches(installation)).breaches).toEqual([]);

    // Another export cannot have the place before the table is gone.
    expect(
      (await client.delete(`${projectPath(installation)}/batch_exports/${exportId}/`)).status,
    ).toBe(204);
    const again = () => createS3Export(installation, { config });
    await expect(again()).rejects.toThrow(
      new RegExp(
        `is the Iceberg table of the export ${exportId}.*delete or move everything below pond/events/`,
      ),
    );
    await emptyFolder();
    await again();
  },
  240_000,
);

function hourOf(hour: number) {
  const start = Date.parse(hours.start) + hour * 3_600_000;
  const iso = (at: number) => new Date(at).toISOString();
  return { start: iso(start), end: iso(start + 3_600_000) };
}

const expireLeases = () =>
  installation.pool.query(
    'update runs set lease_expires_at = now() where lease_holder is not null',
  );

function findLeft(exportId: string): Promise<string[]> {
  const place = { owner: exportId, folder, uri: (key: string) => `s3://${bucket}/${key}` };
  return findTableLeftovers(place, objectsOf(bucketAsReaders));
}

/** As its owner may do it. */
async function emptyFolder(): Promise<void> {
  for (const { key } of await installation.s3.objects(bucket)) {
    if (key.startsWith(`${folder}/`)) await installation.s3.remove(bucket, key);
  }
}

/** Once the last backfill of the range has ended. */
async function runAll(exportId: string, range: { start: string; end: string }): Promise<void> {
  await until(() =>
    backfill(installation, exportId, range).catch((error: unknown) => {
      if (/overlapping range is running/.test(String(error))) return null;
      throw error;
    }),
  );
}

const tableConfig = { file_format: 'Parquet', compression: 'zstd', table_format: 'iceberg' };

async function expectRows(count: number): Promise<void> {
  const read = await readByIcebird(bucketAsReaders, folder);
  expect(read).toHaveLength(count);
  expect(new Set(read.map(({ uuid }) => uuid)).size).toBe(count);
}

/** Files of earlier generations that are still there. */
async function leftKeys(exportId: string): Promise<string[]> {
  const { rows: found } = await installation.pool.query<{ key: string }>(
    `select l.key from leftover_files l join receipts c
      using (export_id, data_interval_start, data_interval_end, destination_version)
      where l.export_id = $1 and l.generation < c.generation and l.deleted_at is null and l.key like '%.parquet'`,
    [exportId],
  );
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
