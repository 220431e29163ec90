import { randomUUID } from 'node:crypto';
import { beforeEach, describe, expect, it } from 'vitest';
import type { Destination } from '../../../src/rows/destinations/destination.ts';
import { removeLeftovers } from '../../../src/rows/pipeline/leftovers.ts';
import { codeOf, readAll, recordingJournal } from '../../conformance/destination-suite.ts';
import {
  attempt,
  encodingOf,
  firstJob,
  manifestPath,
  openedBy,
  openIntervalBench,
  readableKeys,
  receiptOf,
} from '../../support/interval-bench.ts';
import { firstByDay } from '../../support/nightly.ts';
import { useEach, useStage } from '../../support/use-stage.ts';

/** Objects of other exports and programs at an export's keys. */

const bench = useStage(() => openIntervalBench(20));
let destination: Destination;

const bare = firstJob({ writesManifest: false });
const { sign } = bare;
const other = { ...bare, exportId: String(randomUUID()), runId: randomUUID() };

/** A first run by `bare`, its file's bytes and tag. */
async function runBare() {
  const { result } = await attempt(bench, destination, bare).exported;
  const [file] = result.files;
  if (!file) throw new Error('there is no file');
  return { result, file, key: file.key, before: await readAll(destination, file.key) };
}

/** Removes one leftover at a key as the run of a job, of generation 2. */
const remove = (
  { runId, exportId }: typeof bare,
  { key = '', etag = null as string | null, knows = true },
) =>
  removeLeftovers(
    destination,
    { ...bare, runId, exportId, generation: 2, attemptGeneration: 2, manifestKey: null },
    [{ key, generation: 1, manifestKey: null, etag, isRecent: false }],
    { keepsRecent: false, knows: async () => knows, sign, confirm: async (asked) => asked },
    AbortSignal.timeout(30_000),
  );

/** Puts an object as another program does: it does not say whose it is. */
async function putWithoutOwner(key: string) {
  const writer = await destination.createFile(
    { key, contentType: 'text/plain' },
    recordingJournal().journal,
  );
  await writer.write(Buffer.from('as it was'));
  return (await writer.complete()).etag;
}

describe.each(firstByDay(1, ['S3', 'File'] as const))('at a destination %s', (type) => {
  const opened = useEach(openedBy[type]);
  beforeEach(() => {
    ({ destination } = opened);
  });

  describe('two exports without a manifest at one prefix', () => {
    it('do not replace the file of each other', async () => {
      const { key, before } = await runBare();
      const request = { ...other.request, includeEvents: ['event 1'] };
      const refused = attempt(bench, destination, { ...other, request });
      expect(await codeOf(refused.exported)).toBe('destination.key_taken');
      expect((await readAll(destination, key))?.equals(before ?? Buffer.alloc(0))).toBe(true);
    });

    it('do not remove the file of each other, though a refused attempt has noted it', async () => {
      const { key } = await runBare();
      expect(await remove(other, { key })).toEqual({ removed: [], foreign: [key], fault: null });
      expect(await readableKeys(destination)).toEqual([key]);
      await remove({ ...other, exportId: bare.exportId }, { key });
      expect(await readableKeys(destination)).toEqual([]);
    });
  });

  describe('a file that a database with another history has replaced', () => {
    const unknown = { knowsCommit: async () => false };
    const ours = { ...bare, runId: randomUUID() };

    it('is not replaced, and the file of our own receipt is', async () => {
      const { result, key } = await runBare();
      const request = { ...bare.request, includeEvents: ['event 1'] };
      const again = attempt(bench, destination, { ...ours, request }, unknown);
      expect(await codeOf(again.exported)).toBe('run.unknown_history');
      const there = await readAll(destination, key);
      const current = { ...ours, request, current: receiptOf(result) };
      await attempt(bench, destination, current, unknown).exported;
      expect(await readAll(destination, key)).not.toEqual(there);
    });

    it('is not removed, and the file of our own receipt is', async () => {
      const { key, file } = await runBare();
      const removed = (etag: string | null = null) => remove(ours, { key, etag, knows: false });
      expect(await removed('another')).toEqual({ removed: [], foreign: [key], fault: null });
      expect(await removed(file.etag)).toEqual({ removed: [key], foreign: [], fault: null });
    });
  });

  it.each([
    ['is replaced if the receipt has its tag', 'its tag'],
    ['is not replaced if the receipt has another tag', 'another tag'],
    ['is not replaced otherwise', 'no receipt'],
  ])('a file that does not say whose it is %s', async (_, receipt) => {
    const { result, file, key } = await runBare();
    await destination.deleteFiles([key]);
    const etag = await putWithoutOwner(key);
    const current = receiptOf(
      receipt === 'its tag' ? { ...result, files: [{ ...file, etag }] } : result,
    );
    const next = receipt === 'no receipt' ? bare : { ...bare, runId: randomUUID(), current };
    const { exported } = attempt(bench, destination, next);
    if (receipt === 'its tag') await exported;
    else expect(await codeOf(exported)).toBe('destination.key_taken');
    expect(String(await readAll(destination, key)) === 'as it was').toBe(receipt !== 'its tag');
  });

  describe('a commit with a manifest', () => {
    const job = firstJob();
    const gzip = firstJob({
      ...other,
      writesManifest: true,
      encoding: encodingOf({ file_format: 'JSONLines', compression: 'gzip' }),
    });

    it('withdraws the key at which another program has put an object, and leaves that object', async () => {
      const [file] = (await attempt(bench, destination, job).exported).result.files;
      const key = file?.key ?? '';
      await destination.deleteFiles(await readableKeys(destination));
      await putWithoutOwner(key);
      const refused = attempt(bench, destination, { ...job, runId: randomUUID() });
      expect(await codeOf(refused.exported)).toBe('destination.conflict');
      expect(refused.asked).toContain(`withdraw ${key}`);
      expect(await readableKeys(destination)).toEqual([key]);
    });

    it('deletes its files at once if the manifest of another export has refused its own', async () => {
      const refused = attempt(bench, destination, job, {
        confirmCommit: async () => void (await attempt(bench, destination, gzip).exported),
      });
      expect(await codeOf(refused.exported)).toBe('destination.conflict');
      expect(await readableKeys(destination)).toEqual([expect.stringMatching(/gz$/), manifestPath]);
      expect(refused.asked.at(-1)).toMatch(/^withdraw p\/\S+\.jsonl,p\/\S+_manifest\.json$/);
    });

    it('writes no file if the manifest of another export was there before', async () => {
      await attempt(bench, destination, gzip).exported;
      const before = await readableKeys(destination);
      const late = attempt(bench, destination, job);
      expect([await codeOf(late.exported), late.asked]).toEqual(['destination.key_taken', []]);
      expect(await readableKeys(destination)).toEqual(before);
    });
  });
});
