import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { joinConnectors } from '../../../src/main/connectors.ts';
import type { ClaimedRun } from '../../../src/state/store/runs/claims.ts';
import {
  retireDestination,
  returnToPlace,
} from '../../../src/state/store/files/former-destinations.ts';
import { noteUploads } from '../../../src/state/store/files/upload-places.ts';
import { cancelRuns } from '../../../src/state/store/runs/runs.ts';
import { WorkGuard } from '../../../src/service/use-cases/work-guard.ts';
import { collectUploads } from '../../../src/service/worker/collect-uploads.ts';
import { contextWith, options, recordingJournal } from '../../conformance/destination-suite.ts';
import { emptyCommit, useRunSide } from '../../support/run-side.ts';
import { beginCommit } from '../../support/run-verbs.ts';
import { bucket, credentials, type OpenedStore, openStore } from '../../support/s3-destination.ts';

const side = useRunSide();
const leaseMs = 60_000;

const cancelAll = ({ exportId }: ClaimedRun) =>
  side.db.transaction((tx) => cancelRuns(tx, { exportId }));

describe('uploads that their attempt could not abort', () => {
  let store: OpenedStore;
  beforeEach(async () => {
    store = await openStore();
    await side.sql`delete from upload_places`;
  });
  afterEach(() => store.close());

  /** A run of an export that writes to the store, and the name of its interval in keys. */
  async function attemptAt(prefix: string, config: object = {}) {
    const { endpoint, region } = store.server;
    const place = { bucket_name: bucket, region, endpoint_url: endpoint, prefix, ...config };
    const keys = {
      aws_access_key_id: credentials.accessKeyId,
      aws_secret_access_key: credentials.secretAccessKey,
    };
    const destination = { type: 'S3', config: { ...place, ...keys }, secrets: null };
    const { id } = await side.createExport({ destination });
    await side.decide();
    return side.claim((await side.firstRun(id)).id);
  }

  const stemOf = ({ interval }: ClaimedRun) =>
    [interval.start, interval.end]
      .map((at) => new Date(at).toISOString().replace(/[-:]|\.\d+/g, ''))
      .join('-');

  async function begin(...keys: readonly string[]): Promise<void> {
    for (const key of keys)
      await store.destination.createFile(options(key), recordingJournal().journal);
  }

  const uploads = () => store.server.uploads(bucket).map(({ key }) => key);

  /** An hour later. @returns the errors of the sweep */
  async function look(): Promise<readonly unknown[]> {
    const errors: unknown[] = [];
    await side.sql`update upload_places set look_at = now()`;
    await collectUploads({
      context: side.context,
      connectors: joinConnectors(
        () => {
          throw new Error('no source');
        },
        contextWith({
          ...{ httpAgent: new HttpAgent(), httpsAgent: new HttpsAgent() },
          requestRetry: { maxAttempts: 1, baseMs: 1, capMs: 1 },
        }),
        side.context.secrets,
      ),
      guard: new WorkGuard(side.db, () => {}),
      onSweepError: (error) => errors.push(error),
      stopping: new AbortController().signal,
    });
    return errors;
  }

  const places = () => side.sql.values`select export_id from upload_places`;

  it('are aborted, those of a live attempt are not, nor those that are not ours', async () => {
    const killed = await attemptAt('p/{year}');
    const year = new Date(killed.interval.end).getUTCFullYear();
    const stem = `p/${year}/${stemOf(killed)}`;
    await noteUploads(side.db, killed, leaseMs);
    const other = await attemptAt('p/other');
    const foreign = [
      `p/other/${stemOf(other)}.jsonl`,
      // Of a history that this database lost, of another interval, and of another program.
      `${stem}.v9.jsonl`,
      `p/${year}/20010101T000000Z-20010101T010000Z.jsonl`,
      'p/backup.tar',
      `q/${stemOf(killed)}.jsonl`,
    ];
    await begin(...foreign, `${stem}.jsonl`, `${stem}.jsonl_rejected.jsonl`);
    expect(await look()).toEqual([]);
    // As far as our database knows, the worker lives.
    expect(uploads()).toHaveLength(foreign.length + 2);
    expect((await side.overtake(killed.runId)).fileGeneration).toBe(2);
    await begin(`${stem}.v2.jsonl`);
    expect(await look()).toEqual([]);
    expect(uploads().toSorted()).toEqual([...foreign, `${stem}.v2.jsonl`].toSorted());
    // The place is looked at until the run has ended.
    expect(await places()).toEqual([killed.exportId]);
    await cancelAll(killed);
    // The keys of another export are the same.
    const sharing = await attemptAt('p/{year}');
    await look();
    expect(uploads()).toContain(`${stem}.v2.jsonl`);
    await side.sql`update runs set file_generation = 3 where id = ${sharing.runId}`;
    await look();
    expect(uploads().toSorted()).toEqual(foreign.toSorted());
    expect(await places()).toEqual([]);
  });

  it('are looked for again if an attempt notes the place while it is looked at', async () => {
    const run = await attemptAt('p');
    await noteUploads(side.db, run, leaseMs);
    await cancelAll(run);
    const again = await side.claim(await side.retry(run));
    await side.sql`
      update runs set finished_at = now(), status = 'Failed' where id = ${again.runId}`;
    store.fault('ListMultipartUploads', { delayMs: 500 });
    const looking = look();
    await side.sql`
      update runs set finished_at = null, status = 'Running' where id = ${again.runId}`;
    expect(await noteUploads(side.db, again, leaseMs)).toBe(true);
    await looking;
    expect(await places()).toEqual([run.exportId]);
  });

  it('stay while a worker that lost its lease may complete and commit them', async () => {
    const sleeper = await attemptAt('p');
    const key = `p/${stemOf(sleeper)}.jsonl`;
    const manifest = `p/${stemOf(sleeper)}_manifest.json`;
    await noteUploads(side.db, sleeper, leaseMs);
    await begin(key);
    const commit = { generation: 1, destinationVersion: 0, manifestKey: manifest };
    await beginCommit(side.db, sleeper, leaseMs, {}, { ...commit, keys: [key, manifest] });
    const next = await side.overtake(sleeper.runId);
    await look();
    expect(uploads()).toEqual([key]);
    await side.complete(next);
    const receipt = (manifestKey: string, generation: number) =>
      side.sql`
        update receipts set manifest_key = ${manifestKey}, generation = ${generation}
          where export_id = ${next.exportId}`;
    // At another prefix: the manifest of the sleeper is not refused yet.
    await receipt('q/m.json', 2);
    await look();
    expect(uploads()).toEqual([key]);
    await receipt(manifest, 2);
    await look();
    expect(uploads()).toEqual([]);
    expect(await places()).toEqual([]);
  });

  it('of files that are replaced at their keys stay for an hour after the last run', async () => {
    const run = await attemptAt('p', { manifest: false });
    const key = `p/${stemOf(run)}.jsonl`;
    await noteUploads(side.db, run, leaseMs);
    await side.complete(run);
    await side.sql`update receipts set manifest_key = null where export_id = ${run.exportId}`;
    expect((await side.claim(await side.retry(run))).fileGeneration).toBe(2);
    // Written under the generation of the receipt.
    await begin(key);
    await look();
    expect(uploads()).toEqual([key]);
    await cancelAll(run);
    await look();
    expect(uploads()).toEqual([key]);
    await side.sql`update runs set finished_at = finished_at - interval '1 hour'`;
    await look();
    expect(uploads()).toEqual([]);
  });

  it('are aborted at a place that the export has left, and markers of probes go too', async () => {
    const run = await attemptAt('p/q');
    const key = `p/q/${stemOf(run)}.jsonl`;
    await noteUploads(side.db, run, leaseMs);
    const live = await attemptAt('p/z');
    const marker = (runId: string) => `p/.sluice-test-${runId}.1`;
    await begin(key, marker(run.runId), marker(live.runId));
    for (const at of [marker(run.runId), marker(live.runId), 'p/.sluice-test-1'])
      await store.destination.commitManifest(at, Buffer.from('{}'), null);
    await side.db.transaction(async (tx) => {
      await retireDestination(tx, run.exportId);
      await tx.query(
        `update batch_exports set destination_config = destination_config || '{"bucket_name": "elsewhere"}' where id = $1`,
        [run.exportId],
      );
      await cancelRuns(tx, { exportId: run.exportId });
    });
    expect(await look()).toEqual([]);
    expect(uploads()).toEqual([marker(live.runId)]);
    expect(store.server.objects(bucket).map((object) => object.key)).toEqual(
      ['p/.sluice-test-1', marker(live.runId)].toSorted(),
    );
  });

  it('that cannot be listed are no error, and are looked for less and less often', async () => {
    const run = await attemptAt('p');
    await noteUploads(side.db, run, leaseMs);
    store.fault('ListMultipartUploads', { status: 403, code: 'AccessDenied' }, { probability: 1 });
    expect(await look()).toEqual([]);
    const [place] = await side.sql`select tries from upload_places`;
    expect(place).toEqual({ tries: 1 });
  });

  it('that cannot be aborted are an error, and are looked for again', async () => {
    const run = await attemptAt('denied');
    await noteUploads(side.db, run, leaseMs);
    await begin(`denied/${stemOf(run)}.jsonl`);
    await cancelAll(run);
    store.fault('AbortMultipartUpload', { status: 403, code: 'AccessDenied' }, { probability: 1 });
    expect(await look()).toMatchObject([{ code: 'destination.access_denied' }]);
    expect(uploads()).toHaveLength(1);
    store.server.faults.clear();
    expect(await look()).toEqual([]);
    expect(uploads()).toEqual([]);
    expect(await places()).toEqual([]);
  });
});

it('an attempt whose export leaves its place and comes back loses its lease, so that nothing is recorded at a version that the export has left', async () => {
  const run = await side.claimed();
  await noteUploads(side.db, run, leaseMs);
  await side.db.transaction(async (tx) => {
    await retireDestination(tx, run.exportId);
    await retireDestination(tx, run.exportId);
    await returnToPlace(tx, run.exportId, [run.destinationVersion]);
  });
  expect(await beginCommit(side.db, run, leaseMs, {}, emptyCommit)).toBe(false);
  expect(await side.complete(run)).toBe(false);
  const next = await side.claim(run.runId);
  expect(next).toMatchObject({ destinationVersion: 2, crashes: 0, fileGeneration: 2 });
  expect(await side.complete(next)).toBe(true);
  const versions = await side.sql`
      select destination_version as version from upload_places where export_id = ${run.exportId}`;
  expect(versions).toEqual([{ version: 2 }]);
});

it('each attempt has a generation above all that the interval ever had', async () => {
  const { id } = await side.exportWithRuns(2);
  const [first, second] = await side.listRuns(id);
  for (const generation of [1, 2, 3]) {
    expect(await side.claim(first?.id)).toMatchObject({ fileGeneration: generation });
    await side.expireLease(first?.id ?? '');
  }
  expect(await side.claim(second?.id)).toMatchObject({ fileGeneration: 1 });
});

it('manifests whose commits were begun are known until a commit is recorded', async () => {
  const run = await side.claimed();
  await beginCommit(side.db, run, leaseMs, { begunManifests: ['one'] }, emptyCommit);
  const next = await side.overtake(run.runId);
  expect(next.begunManifests).toEqual(['one']);
  const begun = { begunManifests: ['two', 'one'] };
  await beginCommit(side.db, next, leaseMs, begun, emptyCommit);
  const last = await side.overtake(run.runId);
  expect(last.begunManifests.toSorted()).toEqual(['one', 'two']);
  await beginCommit(side.db, last, leaseMs, begun, emptyCommit);
  await side.complete(last);
  expect((await side.claim(await side.retry(last))).begunManifests).toEqual([]);
});
