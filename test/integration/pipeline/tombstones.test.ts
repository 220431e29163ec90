import { afterEach, describe, expect, it } from 'vitest';
import { removeLeftovers } from '../../../src/rows/pipeline/leftovers.ts';
import { buildTombstone, encodeManifest } from '../../../src/rows/pipeline/manifest.ts';
import { firstJob } from '../../support/interval-bench.ts';
import { bucket, type OpenedStore, openStore } from '../../support/s3-destination.ts';

let store: OpenedStore;
afterEach(() => store?.close());

const key = 'old/a_manifest.json';
const job = firstJob();

/** Takes the manifest at the former prefix away, at a store without conditional puts. */
async function leave(confirmed: readonly string[], knows = true) {
  store = await openStore({ quirks: { ifNoneMatch: 'ignore', ifMatch: 'ignore' } });
  const { destination } = store;
  await destination.probe(AbortSignal.timeout(30_000));
  const before = encodeManifest(buildTombstone({ ...job, ...job.encoding }, 'before'), job.sign);
  await destination.commitManifest(key, before, null);
  const commit = {
    ...job,
    generation: 2,
    attemptGeneration: 2,
    manifestKey: 'new/a_manifest.json',
  };
  const left = [{ key, generation: 1, manifestKey: key, etag: null, isRecent: false }];
  const removal = await removeLeftovers(
    destination,
    commit,
    left,
    { keepsRecent: true, knows: async () => knows, sign: job.sign, confirm: async () => confirmed },
    AbortSignal.timeout(30_000),
  );
  const found = store.server.objects(bucket).find((object) => object.key === key);
  return { ...removal, movedTo: JSON.parse(String(found?.body())).moved_to };
}

describe('a tombstone at a store without conditions', () => {
  it('is put if the key is still left over', async () => {
    expect(await leave([key])).toEqual({
      ...{ removed: [key], foreign: [], fault: null, movedTo: 'new/a_manifest.json' },
    });
  });

  it('is not put over the manifest of a run that has begun since', async () => {
    expect(await leave([])).toMatchObject({ removed: [], movedTo: 'before' });
  });

  it('is not put over the manifest of a database with another history', async () => {
    expect(await leave([key], false)).toMatchObject({ removed: [], movedTo: 'before' });
  });
});
