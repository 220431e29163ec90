import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Destination } from '../../../src/rows/destinations/destination.ts';
import { SluiceError } from '../../../src/foundation/domain/errors.ts';
import { encodeManifest } from '../../../src/rows/pipeline/commit.ts';
import { digestOfBytes } from '../../../src/rows/pipeline/manifest.ts';
import { codeOf, readAll, uploadsUnder } from '../../conformance/destination-suite.ts';
import {
  attempt,
  countLines,
  firstJob,
  jobAfter,
  manifestPath,
  openedBy,
  openIntervalBench,
  readableKeys,
  readManifest,
} from '../../support/interval-bench.ts';
import { firstByDay } from '../../support/nightly.ts';
import { useEach, useStage } from '../../support/use-stage.ts';
import { buildTombstone, removeLeftovers } from '../../../src/rows/pipeline/leftovers.ts';
import { bucket, type OpenedStore, openStore } from '../../support/s3-destination.ts';
import { canonicalBytes } from '../../../src/foundation/domain/canonical-json.ts';
import {
  isSignedBy,
  makeSigningKey,
  signWith,
} from '../../../src/foundation/security/signing-keys.ts';

const rows = 40;
const bench = useStage(() => openIntervalBench(rows));

describe.each(firstByDay(1, ['S3', 'File'] as const))('a commit to %s', (type) => {
  const opened = useEach(openedBy[type]);
  let destination: Destination;
  beforeEach(() => {
    ({ destination } = opened);
  });

  /** Puts a manifest instead of the current one, as another worker would. */
  async function replaceManifest(body: object): Promise<void> {
    const found = await destination.readFile(manifestPath);
    if (found) for await (const _ of found.body);
    const bytes = Buffer.from(JSON.stringify(body));
    await destination.commitManifest(manifestPath, bytes, found?.etag ?? null);
  }

  /** An attempt that put its manifest and then died: the next one has its intent. */
  async function diedAfterManifest() {
    const job = firstJob();
    const died = attempt(bench, destination, job);
    const { result } = await died.exported;
    return { result, job: { ...job, attempt: 2, intent: died.intent } };
  }

  describe('that an earlier attempt of the run has made', () => {
    it('is only recorded: no row is read again', async () => {
      const { result, job } = await diedAfterManifest();
      const keys = await readableKeys(destination);
      const again = attempt(bench, destination, job);
      const adopted = (await again.exported).result;
      expect(again.asked).toEqual([]);
      expect(adopted.manifestEtag).toBe(result.manifestEtag);
      expect(adopted.files.map(({ sha256 }) => sha256)).toEqual(
        result.files.map(({ sha256 }) => sha256),
      );
      expect(await readableKeys(destination)).toEqual(keys);
    });

    it.each([
      ['another digest', { sha256: '0'.repeat(64) }],
      ['another size', { bytes: 1 }],
      ['other rows', { rows: 1 }],
    ])('is not taken over if a file has %s in the intent', async (_, change) => {
      const { job } = await diedAfterManifest();
      const { intent } = job;
      if (!intent) throw new Error('the first attempt had no intent');
      const files = intent.files.map((file) => ({ ...file, ...change }));
      const again = attempt(bench, destination, { ...job, intent: { ...intent, files } });
      const { result } = await again.exported;
      expect(again.asked).toContain('reading');
      expect(result.files).toMatchObject((await readManifest(destination)).files);
    });

    it.each([
      ['rejected files differ', { rejected_files: [{ key: 'x', rows: 1, bytes: 1, sha256: '0' }] }],
      ['the manifest is of another run', { run_id: randomUUID() }],
      ['the manifest is of another generation', { generation: 7 }],
      ['the manifest is a tombstone', { moved_to: null }],
    ])('is not taken over if %s', async (_, change) => {
      const { job } = await diedAfterManifest();
      await replaceManifest({ ...(await readManifest(destination)), ...change });
      const again = attempt(bench, destination, job);
      await again.exported;
      expect(again.asked).toContain('reading');
    });
  });

  describe('of rows that give the same files again', () => {
    it('changes nothing, and leaves no upload', async () => {
      const job = firstJob();
      const first = await attempt(bench, destination, job).exported;
      const manifest = await readAll(destination, manifestPath);
      const keys = await readableKeys(destination);
      const again = attempt(bench, destination, jobAfter(job, first));
      const { result, replaced } = await again.exported;
      expect(again.asked).toEqual(['reading']);
      expect(result).toMatchObject({ generation: 1, manifestEtag: first.result.manifestEtag });
      expect(replaced).toEqual([]);
      expect((await readAll(destination, manifestPath))?.equals(manifest ?? Buffer.alloc(0))).toBe(
        true,
      );
      expect(await readableKeys(destination)).toEqual(keys);
      expect(await uploadsUnder(destination, 'p/')).toEqual([]);
    });

    it('brings back a file that was deleted, under a new key', async () => {
      const job = firstJob();
      const first = await attempt(bench, destination, job).exported;
      await destination.deleteFiles(first.result.files.map(({ key }) => key));
      const { result, replaced } = await attempt(bench, destination, jobAfter(job, first)).exported;
      expect(result.generation).toBe(2);
      expect(await countLines(destination)).toBe(rows);
      expect(replaced.map(({ key }) => key)).toEqual(first.result.files.map(({ key }) => key));
    });

    it('is made anyway while another commit may still come', async () => {
      const job = firstJob();
      const first = await attempt(bench, destination, job).exported;
      const next = jobAfter(job, first, { mayBeOvertaken: true });
      const again = attempt(bench, destination, next);
      expect((await again.exported).result.generation).toBe(2);
      expect(again.asked).toEqual(['reading', 'commit']);
      expect((await readManifest(destination)).run_id).toBe(next.runId);
    });
  });

  it('is refused if another manifest came first, and that one stays', async () => {
    const job = firstJob();
    const facts = { ...job, ...job.encoding, generation: 5 };
    const other = encodeManifest(buildTombstone(facts, null), job.sign);
    const refused = attempt(bench, destination, job, {
      confirmCommit: async () => void (await destination.commitManifest(manifestPath, other, null)),
    });
    expect(await codeOf(refused.exported)).toBe('destination.conflict');
    expect((await readAll(destination, manifestPath))?.equals(other)).toBe(true);
  });

  it('makes nothing readable if the lease is lost, and leaves no upload', async () => {
    const refused = attempt(bench, destination, firstJob(), {
      confirmCommit: async () => {
        throw new SluiceError('run.lease_lost');
      },
    });
    expect(await codeOf(refused.exported)).toBe('run.lease_lost');
    expect(await readableKeys(destination)).toEqual([]);
    expect(await uploadsUnder(destination, 'p/')).toEqual([]);
  });

  it('makes nothing readable before the fence has confirmed it', async () => {
    const before: string[][] = [];
    const made = attempt(bench, destination, firstJob(), {
      confirmCommit: async () => void before.push(await readableKeys(destination)),
    });
    await made.exported;
    expect(before).toEqual([[]]);
    expect(await countLines(destination)).toBe(rows);
  });

  describe('of an export without a manifest', () => {
    const job = firstJob({ writesManifest: false });

    it('replaces its file in place, if it is the one of the receipt', async () => {
      const first = await attempt(bench, destination, job).exported;
      const [file] = first.result.files;
      const next = jobAfter(job, first, { encoding: firstJob().encoding, mayBeOvertaken: true });
      const { result } = await attempt(bench, destination, next).exported;
      expect(result.files.map(({ key }) => key)).toEqual([file?.key]);
      expect(await readableKeys(destination)).toEqual([file?.key]);
      expect(result.manifestKey).toBeNull();
    });

    it('asks the fence again before it replaces a file that the receipt does not know', async () => {
      await attempt(bench, destination, job).exported;
      const again = attempt(bench, destination, { ...job, runId: randomUUID() });
      await again.exported;
      expect(again.asked).toEqual(['reading', 'commit', 'lease']);
      const extend = async (always: boolean) => {
        if (always) throw new SluiceError('run.lease_lost');
      };
      const lease = { holds: () => true, extend };
      const lost = attempt(bench, destination, { ...job, runId: randomUUID() }, { lease });
      expect(await codeOf(lost.exported)).toBe('run.lease_lost');
    });
  });
});

describe('a tombstone at a store without conditions', () => {
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
    const made = { generation: 2, attemptGeneration: 2, manifestKey: 'new/a_manifest.json' };
    const commit = { ...job, ...made };
    const left = [{ key, generation: 1, manifestKey: key, etag: null, isRecent: false }];
    const answers = { knows: async () => knows, confirm: async () => confirmed };
    const rules = { keepsRecent: true, sign: job.sign, ...answers };
    const signal = AbortSignal.timeout(30_000);
    const removal = await removeLeftovers(destination, commit, left, rules, signal);
    const found = store.server.objects(bucket).find((object) => object.key === key);
    return { ...removal, movedTo: JSON.parse(String(found?.body())).moved_to };
  }

  it('is put if the key is still left over', async () => {
    const removal = { removed: [key], foreign: [], fault: null };
    expect(await leave([key])).toEqual({ ...removal, movedTo: 'new/a_manifest.json' });
  });

  it('is not put over the manifest of a run that has begun since, or of another history', async () => {
    const kept = { removed: [], movedTo: 'before' };
    expect(await leave([])).toMatchObject(kept);
    await store.close();
    expect(await leave([key], false)).toMatchObject(kept);
  });
});

describe('a signed manifest', () => {
  const opened = useEach(openedBy.S3);

  const [before, after] = [makeSigningKey(null, 'then'), makeSigningKey(null, 'now')];
  const job = firstJob({ sign: signWith(before.key) });
  const rotated = { sign: signWith(after.key) };

  it('a run with the same rows leaves the manifest, whichever key signs by now', async () => {
    const { destination } = opened;
    const first = await attempt(bench, destination, job).exported;
    const bytes = (await readAll(destination, manifestPath)) ?? Buffer.alloc(0);
    expect(first.result.manifestSha256).toBe(digestOfBytes(bytes));
    const { receipt, ...rest } = JSON.parse(String(bytes));
    expect(isSignedBy(before.entry.public_key, canonicalBytes(rest), receipt.signature)).toBe(true);
    const again = await attempt(bench, destination, jobAfter(job, first, rotated)).exported;
    expect(again.result).toMatchObject({ generation: 1, manifestSha256: digestOfBytes(bytes) });
    expect(await readAll(destination, manifestPath)).toEqual(bytes);
  });

  it('an attempt after a crash adopts the manifest that the former key signed', async () => {
    const { destination } = opened;
    const made = attempt(bench, destination, job);
    const { result } = await made.exported;
    const next = { ...job, ...rotated, attempt: 2, generation: 2, intent: made.intent };
    const adopted = await attempt(bench, destination, next).exported;
    expect(adopted.result).toMatchObject({ generation: 1, manifestSha256: result.manifestSha256 });
  });
});
