import { describe, expect, it } from 'vitest';
import {
  retireDestination,
  returnToPlace,
} from '../../../src/state/store/files/former-destinations.ts';
import { ownsUploads } from '../../../src/state/store/runs/leases.ts';
import { cancelRuns, findRun } from '../../../src/state/store/runs/runs.ts';
import { listAbortableUploads, recordUpload } from '../../../src/state/store/files/uploads.ts';
import { retryRun } from '../../../src/service/use-cases/runs/cancel-work.ts';
import {
  claim,
  complete,
  createExportOfThePast,
  decide,
  emptyCommit,
  expireLease,
  firstRun,
} from '../../support/run-side.ts';
import { beginCommit } from '../../support/run-verbs.ts';
import { useRunSide } from '../../support/use-run-side.ts';

const side = useRunSide();
const leaseMs = 60_000;

async function claimed() {
  const { id } = await createExportOfThePast(side);
  await decide(side.context);
  return claim(side, (await firstRun(side.db, id)).id);
}

describe('uploads of an attempt', () => {
  it('are its own until the run is claimed again', async () => {
    const run = await claimed();
    expect(await ownsUploads(side.db, run, leaseMs)).toBe(true);
    await expireLease(side.db, run.runId);
    const next = await claim(side, run.runId);
    expect(await ownsUploads(side.db, run, leaseMs)).toBe(false);
    expect(await ownsUploads(side.db, next, leaseMs)).toBe(true);
  });

  it('are its own once the run is cancelled, as no other attempt follows', async () => {
    const run = await claimed();
    await side.db.transaction((tx) => cancelRuns(tx, { exportId: run.exportId }));
    expect(await ownsUploads(side.db, run, leaseMs)).toBe(true);
  });
});

describe('an upload whose commit was begun', () => {
  it('is aborted once a later generation is current, but only at the same destination', async () => {
    const run = await claimed();
    const upload = { key: 'a', uploadId: 'mark.id' };
    await recordUpload(side.db, run, upload, true);
    await beginCommit(side.db, run, leaseMs, {}, emptyCommit);
    const abortable = async () =>
      (await listAbortableUploads(side.db, run)).map(({ uploadId }) => uploadId);
    expect(await abortable()).toEqual([]);
    await complete(side.context, run);
    const receipt = (version: number) =>
      side.db.query(
        'update receipts set generation = 9, destination_version = $2 where export_id = $1',
        [run.exportId, version],
      );
    await receipt(run.destinationVersion + 1);
    expect(await abortable()).toEqual([]);
    await receipt(run.destinationVersion);
    expect(await abortable()).toEqual([upload.uploadId]);
  });
});

describe('an attempt whose export leaves its place and comes back', () => {
  it('loses its lease, so that nothing is recorded at a version that the export has left', async () => {
    const run = await claimed();
    await recordUpload(side.db, run, { key: 'a', uploadId: 'mark.id' }, true);
    await side.db.transaction(async (tx) => {
      await retireDestination(tx, run.exportId);
      await retireDestination(tx, run.exportId);
      await returnToPlace(tx, run.exportId, [run.destinationVersion]);
    });
    expect(await beginCommit(side.db, run, leaseMs, {}, emptyCommit)).toBe(false);
    expect(await complete(side.context, run)).toBe(false);
    const next = await claim(side, run.runId);
    const uploads = [{ key: 'a', uploadId: 'mark.id' }];
    expect(next).toMatchObject({ destinationVersion: 2, crashes: 0, uploads });
    expect(await complete(side.context, next)).toBe(true);
  });
});

describe('manifests whose commits were begun', () => {
  it('are known until a commit is recorded', async () => {
    const run = await claimed();
    await beginCommit(side.db, run, leaseMs, { begunManifests: ['one'] }, emptyCommit);
    await expireLease(side.db, run.runId);
    const next = await claim(side, run.runId);
    expect(next.begunManifests).toEqual(['one']);
    const begun = { begunManifests: ['two', 'one'] };
    await beginCommit(side.db, next, leaseMs, begun, emptyCommit);
    await expireLease(side.db, run.runId);
    const last = await claim(side, run.runId);
    expect(last.begunManifests.toSorted()).toEqual(['one', 'two']);
    await beginCommit(side.db, last, leaseMs, begun, emptyCommit);
    await complete(side.context, last);
    const ended = await findRun(side.db, run.exportId, run.runId);
    if (!ended) throw new Error('the run is gone');
    const again = await claim(side, await retryRun(side.context, ended));
    expect(again.begunManifests).toEqual([]);
  });
});
