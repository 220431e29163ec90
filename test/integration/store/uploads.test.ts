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
import { randomUUID } from 'node:crypto';
import { currentEra } from '../../../src/state/store/database/eras.ts';
import { knowsCommit, type SeenCommit } from '../../../src/state/store/files/known-commits.ts';
import { readNow } from '../../../src/state/store/intervals/ticks.ts';
import { acceptCurrentEra } from '../../../src/service/use-cases/installation/accept-era.ts';
import {
  endRemoval,
  findTeamsWithRemovals,
  takeRemoval,
} from '../../../src/state/store/files/leftover-files.ts';

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

/** The first attempt of an export of the past, in one of the tenant's two projects. */
async function firstAttempt(project: 0 | 1 = 0): Promise<ClaimedRun> {
  const teamId = side.tenant.projectIds[project];
  const { id } = await side.createExport({ teamId });
  await side.decide();
  return side.claim((await side.firstRun(id)).id);
}

const commitOf = ({ fileGeneration: generation }: ClaimedRun, keys: readonly string[]) => ({
  ...{ generation, destinationVersion: 0, manifestKey: 'm.json', keys: [...keys, 'm.json'] },
});

describe('a commit that a bucket shows', () => {
  const seen = (run: ClaimedRun, changes: Partial<SeenCommit> = {}): SeenCommit => ({
    ...{ run_id: run.runId, generation: run.fileGeneration, era: run.era, ...changes },
  });
  const knows = (run: ClaimedRun, commit: SeenCommit) =>
    knowsCommit(side.db, run, commit, 'm.json');

  it('is known once it has begun, and is not if its run, generation or era is of another history', async () => {
    const run = await firstAttempt();
    expect(await knows(run, seen(run))).toBe(false);
    await beginCommit(side.db, run, 60_000, {}, commitOf(run, ['a']));
    expect(await knows(run, seen(run))).toBe(true);
    for (const generation of [2, 1e300, 1.5]) {
      expect(await knows(run, seen(run, { generation }))).toBe(false);
    }
    expect(await knows(run, seen(run, { run_id: randomUUID() }))).toBe(false);
    expect(await knows(run, seen(run, { era: randomUUID() }))).toBe(false);
  });

  it('is known at a place that the export has left, also if its run is no longer on record', async () => {
    const run = await firstAttempt();
    await side.complete(run);
    await side.sql`update receipts set manifest_key = 'm.json' where export_id = ${run.exportId}`;
    await side.db.transaction((tx) => retireDestination(tx, run.exportId));
    const again = await side.claim(await side.retry(run));
    await side.complete(again);
    const forgotten = seen(run, { run_id: randomUUID() });
    expect([await knows(run, forgotten), await knows(again, forgotten)]).toEqual([true, false]);
    expect(await knows(again, { ...forgotten, moved_to: 'x' })).toBe(true);
  });

  it('of a run that was live at a failover is known only if it had begun by then', async () => {
    const run = await firstAttempt();
    const committed = await firstAttempt(1);
    await beginCommit(side.db, committed, 60_000, {}, commitOf(committed, ['a']));
    await side.sql`update eras set timeline = timeline + 1`;
    const { id: era } = await currentEra(side.db);
    const next = await side.claim(run.runId);
    expect(next.era).toBe(era);
    await beginCommit(side.db, next, 60_000, {}, commitOf(next, ['a']));
    expect(await knows(next, seen(next))).toBe(true);
    // A copy of the server also executed the run in the era before.
    expect(await knows(next, seen(run))).toBe(false);
    expect(await knows(committed, seen(committed))).toBe(true);
    await acceptCurrentEra(side.db);
    expect(await knows(next, seen(run))).toBe(true);
    expect(await knows(next, seen(run, { era: randomUUID() }))).toBe(true);
  });

  // The last: it accepts an era.
  it('is known if it was put before an era was accepted, also after a failover, and is not if it was put later', async () => {
    const run = await firstAttempt();
    await acceptCurrentEra(side.db);
    const now = await readNow(side.db);
    const other = seen(run, { run_id: randomUUID() });
    const knowsAt = (putAt: number) => knowsCommit(side.db, run, other, 'm.json', putAt);
    expect(await knowsAt(now - 60_000)).toBe(true);
    // The clock of the store is ahead.
    expect(await knowsAt(now + 60_000)).toBe(true);
    expect(await knowsAt(now + 2 * 3_600_000)).toBe(false);
    await side.sql`update eras set timeline = timeline + 1`;
    await currentEra(side.db);
    expect(await knowsAt(now - 60_000)).toBe(true);
    // A copy of the server has this era too. What the original puts after the copy was made is another history.
    expect([await knowsAt(now + 60_000), await knows(run, other)]).toEqual([false, false]);
  });
});

/** An interval whose newest run has begun a commit of an older generation than the current one. */
async function brokenRerun(): Promise<ClaimedRun> {
  const { id } = await side.exportWithRuns(1);
  const first = await side.claim((await side.firstRun(id)).id);
  await beginCommit(side.db, first, 60_000, {}, emptyCommit);
  await side.complete(first);
  await side.sql`update receipts set generation = 9 where export_id = ${id}`;
  const rerun = await side.claim(await side.retry(first));
  const commit = { ...emptyCommit, generation: 2, manifestKey: 'm', keys: ['a', 'm'] };
  await beginCommit(side.db, rerun, 60_000, {}, commit);
  return rerun;
}

describe('files that a commit has left', () => {
  beforeEach(() => side.sql`delete from leftover_files`);

  it('are not taken by the sweep while a run of the interval is live', async () => {
    const { runId, teamId } = await brokenRerun();
    expect(await findTeamsWithRemovals(side.db, 100)).not.toContain(teamId);
    expect(await takeRemoval(side.db, teamId)).toBe(null);
    await side.sql`update runs set status = 'Failed', finished_at = now() where id = ${runId}`;
    expect(await findTeamsWithRemovals(side.db, 100)).toContain(teamId);
    expect(await takeRemoval(side.db, teamId)).not.toBe(null);
  });

  it('are taken again at once if a removal was cut short, and else after an hour', async () => {
    const { runId, teamId } = await brokenRerun();
    await side.sql`update runs set status = 'Failed', finished_at = now() where id = ${runId}`;
    const work = await takeRemoval(side.db, teamId);
    if (!work) throw new Error('nothing to remove');
    await endRemoval(side.db, work, false);
    expect(await takeRemoval(side.db, teamId)).toBe(null);
    await endRemoval(side.db, work, true);
    expect(await takeRemoval(side.db, teamId)).not.toBe(null);
  });
});
