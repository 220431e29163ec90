import { describe, expect, it } from 'vitest';
import { allTraits } from '../../../src/rows/destinations/destination.ts';
import type { IntervalJob } from '../../../src/rows/pipeline/interval-job.ts';
import { codeOf, readAll } from '../../conformance/destination-suite.ts';
import {
  attempt,
  countLines,
  firstJob,
  manifestPath,
  openIntervalBench,
  readableKeys,
  readManifest,
} from '../../support/interval-bench.ts';
import { openStore } from '../../support/s3-destination.ts';
import { useEach, useStage } from '../../support/use-stage.ts';

const rows = 40;
const store = useEach(openStore);

const bench = useStage(() => openIntervalBench(rows));

/** As a run's attempt opens it, at a store that was probed. */
const open = (traits = allTraits) => store.open(traits);

/** The operations that a promise costs. */
async function operationsOf(work: Promise<unknown>): Promise<readonly string[]> {
  const before = store.server.requests.length;
  await work.catch(() => {});
  return store.server.requests.slice(before).map(({ operation }) => operation);
}

/** The attempt after one whose commit was refused: it has another lineage. */
function next(job: IntervalJob, changes: Partial<IntervalJob> = {}): IntervalJob {
  return { ...job, attempt: 2, generation: 2, mayBeOvertaken: true, ...changes };
}

describe('the first attempt of an interval that was never exported', () => {
  it('looks for a manifest, sends a file and a manifest, and nothing else', async () => {
    const destination = open();
    const work = attempt(bench, destination, firstJob());
    expect(await operationsOf(work.exported)).toEqual(['GetObject', 'PutObject', 'PutObject']);
    expect(work.uploads.heard).toEqual([]);
    expect(await countLines(destination)).toBe(rows);
  });

  it('with few rows looks for nothing', async () => {
    const destination = open();
    const work = attempt(bench, destination, firstJob({ isSmall: true }));
    expect(await operationsOf(work.exported)).toEqual(['PutObject', 'PutObject']);
    expect(await countLines(destination)).toBe(rows);
  });

  it.each([
    ['the store was not probed', {}, null],
    ['the store does not keep If-None-Match', {}, { ifNoneMatch: false }],
    ['uploads do not keep it', {}, { completeIfNoneMatch: false }],
    ['it is the second attempt', { attempt: 2 }, {}],
    ['there was a generation before', { generation: 2 }, {}],
    ['another commit was begun', { mayBeOvertaken: true }, {}],
  ])('with few rows looks for a manifest if %s', async (_, changes, traits) => {
    const destination = traits === null ? store.open(null) : open({ ...allTraits, ...traits });
    const work = attempt(bench, destination, firstJob({ isSmall: true, ...changes }));
    expect((await operationsOf(work.exported))[0]).toBe('GetObject');
    expect(await countLines(destination)).toBe(rows);
  });

  it('may lose both answers', async () => {
    const effect = { loseResponse: true } as const;
    const put = { operation: 'PutObject', nth: 1 } as const;
    store.server.faults.add({ match: put, effect });
    store.server.faults.add({ match: { ...put, key: /manifest/ }, effect });
    const destination = open();
    await attempt(bench, destination, firstJob()).exported;
    expect(await countLines(destination)).toBe(rows);
  });

  it('puts nothing without its lease', async () => {
    const destination = open();
    const lease = { holds: () => false, extend: async () => {} };
    const work = attempt(bench, destination, firstJob(), { lease });
    expect(await codeOf(work.exported)).toBe('run.lease_lost');
    expect(store.server.objects('exports')).toEqual([]);
  });

  it('uploads at a store without If-None-Match', async () => {
    const destination = open({ ...allTraits, ifNoneMatch: false });
    const work = attempt(bench, destination, firstJob());
    const operations = await operationsOf(work.exported);
    expect(operations[0]).toBe('GetObject');
    expect(operations).toContain('CompleteMultipartUpload');
  });

  it('writes only its files if the export has no manifest', async () => {
    const work = attempt(bench, open(), firstJob({ writesManifest: false }));
    const operations = await operationsOf(work.exported);
    expect(operations).toEqual(['CreateMultipartUpload', 'UploadPart', 'CompleteMultipartUpload']);
  });
});

describe('if there is something at the keys of such an interval', () => {
  const other = firstJob({ exportId: '00000000-0000-4000-8000-000000000002' });
  const few = firstJob({ isSmall: true });

  it.each([
    ['the same file', {}, false],
    ['only the same manifest', { encoding: { ...other.encoding, extension: 'other' } }, false],
    ['the same file', {}, true],
    ['only the same manifest', { encoding: { ...other.encoding, extension: 'other' } }, true],
  ])(
    'of another export, with %s: the attempt is refused, and names it (%j, few rows: %s)',
    async (_, changes, isSmall) => {
      const destination = open();
      await attempt(bench, destination, { ...other, ...changes }).exported;
      const keys = await readableKeys(destination);
      const contents = () => Promise.all(keys.map((key) => readAll(destination, key)));
      const before = await contents();
      // What an earlier probe found may be wrong by now.
      if (!isSmall) store.server.setQuirks({ ifNoneMatch: 'ignore' });
      const refused = attempt(bench, destination, firstJob({ isSmall }));
      expect(await codeOf(refused.exported)).toBe('destination.key_taken');
      expect(await readableKeys(destination)).toEqual(keys);
      expect(await contents()).toEqual(before);
      for (const { key } of (await readManifest(destination)).files) {
        expect(await destination.statFile(key)).toMatchObject({ owner: other.exportId });
      }
      // Without a look at the manifest, only the puts find it out.
      if (isSmall) expect(refused.asked.at(-1)).toMatch(/^withdraw /);
      else expect(refused.asked).toEqual([]);
    },
  );

  it.each([true, false])(
    'of a database with another history: the attempt is refused, and says so (few rows: %s)',
    async (isSmall) => {
      const destination = open();
      await attempt(bench, destination, firstJob({ era: 'other' })).exported;
      const before = await readAll(destination, manifestPath);
      const knowsCommit = async () => false;
      const held = attempt(bench, destination, firstJob({ isSmall }), { knowsCommit });
      expect(await codeOf(held.exported)).toBe('run.unknown_history');
      if (!isSmall) expect(held.asked).toEqual([]);
      expect(await readAll(destination, manifestPath)).toEqual(before);
    },
  );

  it.each([1, 3])(
    'because the database was restored, and the bucket has generation %d: an attempt with few rows leaves it to the next',
    async (generation) => {
      const destination = open();
      await attempt(bench, destination, firstJob({ era: 'before', attempt: 2, generation }))
        .exported;
      const before = await readAll(destination, manifestPath);
      expect(await codeOf(attempt(bench, destination, few).exported)).toBe('destination.conflict');
      expect(await readAll(destination, manifestPath)).toEqual(before);
      const { result } = await attempt(bench, destination, next(few)).exported;
      expect(result.generation).toBe(Math.max(2, generation + 1));
      expect(await countLines(destination)).toBe(rows);
    },
  );

  it('of another program: the attempt says so', async () => {
    const destination = open();
    await destination.commitManifest(manifestPath, Buffer.from('not ours'), null);
    expect(await codeOf(attempt(bench, destination, firstJob()).exported)).toBe(
      'destination.key_taken',
    );
    expect((await readAll(destination, manifestPath))?.toString()).toBe('not ours');
  });

  it.each([1, 3])(
    'because the database was restored, and the bucket has generation %d: the attempt goes above it',
    async (generation) => {
      const destination = open();
      const before = firstJob({ era: 'before', attempt: 2, generation });
      await attempt(bench, destination, before).exported;
      const { files } = await readManifest(destination);
      const { result, replaced } = await attempt(bench, destination, firstJob()).exported;
      expect(result.generation).toBe(generation + 1);
      expect(replaced.map(({ key }) => key)).toEqual(files.map(({ key }) => key));
      expect(await countLines(destination)).toBe(rows);
    },
  );

  it('and the credentials cannot read it, the manifest stays and the run says why', async () => {
    const destination = open();
    await attempt(bench, destination, { ...other, encoding: { ...other.encoding, extension: 'x' } })
      .exported;
    const keys = await readableKeys(destination);
    store.fault('GetObject', { status: 403, code: 'AccessDenied' }, { probability: 1 });
    const job = firstJob();
    for (const tried of [job, next(job)]) {
      const refused = attempt(bench, destination, tried).exported;
      await expect(refused).rejects.toThrow(/Grant the credentials permission to read it/);
      expect(await codeOf(refused)).toBe('destination.access_denied');
    }
    store.server.faults.clear();
    expect(await readableKeys(destination)).toEqual(expect.arrayContaining(keys));
    expect((await readManifest(destination)).batch_export_id).toBe(other.exportId);
  });

  it('and the credentials cannot read, an interval without files is exported all the same', async () => {
    store.fault('GetObject', { status: 403, code: 'AccessDenied' }, { probability: 1 });
    const destination = open();
    await attempt(bench, destination, firstJob()).exported;
    store.server.faults.clear();
    expect(await countLines(destination)).toBe(rows);
  });
});
