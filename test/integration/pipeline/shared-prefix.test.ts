import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Destination } from '../../../src/destinations/destination.ts';
import { removeLeftovers } from '../../../src/pipeline/leftovers.ts';
import { codeOf, readAll, recordingJournal } from '../../conformance/destination-suite.ts';
import {
  attempt,
  firstJob,
  type IntervalBench,
  type OpenedDestination,
  openedBy,
  openIntervalBench,
  readableKeys,
} from '../../support/interval-bench.ts';

/** Exports without a manifest, whose files only their metadata tells apart. */

let bench: IntervalBench;
let opened: OpenedDestination;
let destination: Destination;

beforeAll(async () => {
  bench = await openIntervalBench(20);
});
afterAll(() => bench?.drop());
beforeEach(async () => {
  opened = await openedBy.S3();
  destination = opened.destination;
});
afterEach(() => opened?.close());

const bare = firstJob({ writesManifest: false });
const other = { ...bare, exportId: String(randomUUID()), runId: randomUUID() };

/** Puts an object as an earlier build did: it does not say whose it is. */
async function putWithoutOwner(key: string) {
  const writer = await destination.createFile(
    { key, contentType: 'text/plain' },
    recordingJournal().journal,
  );
  await writer.write(Buffer.from('as it was'));
  await writer.complete();
}

describe('two exports without a manifest at one prefix', () => {
  it('do not replace the file of each other', async () => {
    const { result } = await attempt(bench, destination, bare).exported;
    const key = result.files[0]?.key ?? '';
    const before = await readAll(destination, key);
    const request = { ...other.request, includeEvents: ['event 1'] };
    const refused = attempt(bench, destination, { ...other, request });
    expect(await codeOf(refused.exported)).toBe('destination.key_taken');
    expect((await readAll(destination, key))?.equals(before ?? Buffer.alloc(0))).toBe(true);
  });

  it('do not remove the file of each other, though a refused attempt has noted it', async () => {
    const { result } = await attempt(bench, destination, bare).exported;
    const keys = result.files.map(({ key }) => key);
    const leftovers = keys.map((key) => ({
      ...{ key, generation: 1, manifestKey: null, etag: null, isRecent: false },
    }));
    const commit = { ...other, generation: 2, lineage: 2, manifestKey: null };
    const remove = (current: typeof commit) =>
      removeLeftovers(
        destination,
        current,
        leftovers,
        false,
        async (asked) => asked,
        AbortSignal.timeout(30_000),
      );
    expect(await remove(commit)).toEqual({ removed: keys, fault: null });
    expect(await readableKeys(destination)).toEqual(keys);
    await remove({ ...commit, exportId: bare.exportId });
    expect(await readableKeys(destination)).toEqual([]);
  });
});

describe('a file that does not say whose it is', () => {
  it('is replaced if the receipt names it', async () => {
    const { result } = await attempt(bench, destination, bare).exported;
    const key = result.files[0]?.key ?? '';
    await destination.deleteFiles([key]);
    await putWithoutOwner(key);
    const next = { ...bare, runId: randomUUID(), current: result };
    await attempt(bench, destination, next).exported;
    expect(String(await readAll(destination, key))).not.toBe('as it was');
  });

  it('is not replaced otherwise', async () => {
    const { result } = await attempt(bench, destination, bare).exported;
    const key = result.files[0]?.key ?? '';
    await destination.deleteFiles([key]);
    await putWithoutOwner(key);
    expect(await codeOf(attempt(bench, destination, bare).exported)).toBe('destination.key_taken');
    expect(String(await readAll(destination, key))).toBe('as it was');
  });
});
