import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { keyNames, usualFileName } from '../../../src/foundation/domain/file-name.ts';
import { armFailpoints, type FailpointName } from '../../../src/foundation/failpoints/failpoint.ts';
import type { Destination } from '../../../src/rows/destinations/destination.ts';
import type { IntervalJob } from '../../../src/rows/pipeline/interval-job.ts';
import { codeOf, readAll } from '../../conformance/destination-suite.ts';
import {
  attempt,
  encodingOf,
  firstJob,
  type IntervalBench,
  jobAfter,
  manifestPath,
  type OpenedDestination,
  openedBy,
  openIntervalBench,
  readableKeys,
  readManifest,
} from '../../support/interval-bench.ts';

const rows = 40;
const latestKey = 'p/latest_manifest.json';
const success = manifestPath.replace('_manifest.json', '_SUCCESS');
const all = { checksumFiles: true, successFile: true, latestKey };

let bench: IntervalBench;
beforeAll(async () => {
  bench = await openIntervalBench(rows);
});
afterAll(() => bench?.drop());

describe.each(['File', 'S3'] as const)('beside the files of an interval at %s', (type) => {
  let opened: OpenedDestination;
  let destination: Destination;

  beforeEach(async () => {
    opened = await openedBy[type]();
    ({ destination } = opened);
    await destination.probe(new AbortController().signal);
  });
  afterEach(async () => {
    armFailpoints(async () => {});
    await opened.close();
  });

  const job = (changes: Partial<IntervalJob> = {}) =>
    firstJob({ ...all, maxFileBytes: 4_000, ...changes });
  const gzip = encodingOf({ file_format: 'JSONLines', compression: 'gzip' });
  const latest = async () => JSON.parse(String(await readAll(destination, latestKey)));

  /** Has `sha256sum` check every file that the manifest names. */
  async function checkSums(): Promise<number> {
    const folder = mkdtempSync(join(tmpdir(), 'sums-'));
    try {
      const { files, rejected_files: rejected } = await readManifest(destination);
      for (const { key } of [...files, ...rejected]) {
        for (const each of [key, `${key}.sha256`]) {
          const bytes = await readAll(destination, each);
          if (bytes === null) throw new Error(`${each} is missing`);
          writeFileSync(join(folder, each.replace('p/', '')), bytes);
        }
        const name = `${key.replace('p/', '')}.sha256`;
        execFileSync('sha256sum', ['--check', '--strict', '--quiet', name], { cwd: folder });
      }
      return files.length + rejected.length;
    } finally {
      rmSync(folder, { recursive: true });
    }
  }

  it('are a checksum of each, an empty file for the whole and the name of the newest manifest', async () => {
    const { result, replaced } = await attempt(bench, destination, job()).exported;
    expect(result.files.length).toBeGreaterThan(1);
    expect(await checkSums()).toBe(result.files.length);
    expect(await readAll(destination, success)).toEqual(Buffer.alloc(0));
    expect(await latest()).toEqual({
      batch_export_id: job().exportId,
      data_interval_start: '2024-03-01T00:00:00.000000Z',
      data_interval_end: '2024-03-01T01:00:00.000000Z',
      manifest: manifestPath,
    });
    const keys = result.files.map(({ key }) => key);
    const side = [...keys.map((key) => `${key}.sha256`), success];
    expect(result.sideFiles?.map(({ key }) => key)).toEqual(side);
    expect(await readableKeys(destination)).toEqual(
      [...keys, ...side, manifestPath, latestKey].sort(),
    );
    expect(replaced).toEqual([]);
  });

  it('stay with the same bytes, and follow the files of a re-run with others', async () => {
    const first = await attempt(bench, destination, job()).exported;
    const same = await attempt(bench, destination, jobAfter(job(), first)).exported;
    expect(same.replaced).toEqual([]);
    expect(same.result).toMatchObject({ generation: 1, sideFiles: first.result.sideFiles });
    const again = await attempt(bench, destination, jobAfter(job(), first, { encoding: gzip }))
      .exported;
    await checkSums();
    const gone = first.result.files.flatMap(({ key }) => [key, `${key}.sha256`]);
    expect(again.replaced.map(({ key }) => key).sort()).toEqual(gone.sort());
    expect(again.result.sideFiles?.map(({ key }) => key)).toContain(success);
  });

  it('are made again if a person has deleted one, and are replaced once they are turned off', async () => {
    const first = await attempt(bench, destination, job()).exported;
    await destination.deleteFiles([success]);
    const again = await attempt(bench, destination, jobAfter(job(), first)).exported;
    expect(again.result.generation).toBe(2);
    expect(await readAll(destination, success)).toEqual(Buffer.alloc(0));
    const off = { checksumFiles: false, successFile: false };
    const without = await attempt(bench, destination, jobAfter(job(), again, off)).exported;
    expect(without.result.sideFiles).toEqual([]);
    expect(without.replaced.map(({ key }) => key)).toEqual(
      expect.arrayContaining(again.result.sideFiles?.map(({ key }) => key) ?? []),
    );
  });

  it('stay at the former place until they are removed there, if the interval moves', async () => {
    const first = await attempt(bench, destination, job()).exported;
    const names = keyNames('p', 'e_{start}_{end}', job().interval);
    const moved = await attempt(bench, destination, jobAfter(job(), first, { names })).exported;
    const left = [...first.result.files, ...(first.result.sideFiles ?? [])].map(({ key }) => key);
    expect(moved.replaced.map(({ key }) => key).sort()).toEqual([...left, manifestPath].sort());
    expect(await readAll(destination, `${names.stem}_SUCCESS`)).toEqual(Buffer.alloc(0));
    expect((await latest()).manifest).toBe(`${names.stem}_manifest.json`);
    expect(keyNames('p', usualFileName, job().interval).stem).not.toBe(names.stem);
  });

  it('are renewed by an erasure, which keeps those of other files', async () => {
    await bench.database.pool.query(
      `update events set distinct_id = 'gone' where properties ->> 'n' = '3'`,
    );
    const first = await attempt(bench, destination, job()).exported;
    const proof = { snapshot: '1:1:', digest: null, count: rows, settled: true, pending: [] };
    const erase = jobAfter(job(), first, {
      purpose: 'erase',
      erased: { column: 'distinct_id', value: 'gone' },
      current: { ...first.result, proof },
    });
    const { result, replaced } = await attempt(bench, destination, erase).exported;
    expect(result.rows).toBe(rows - 1);
    expect(await checkSums()).toBe(result.files.length);
    expect(replaced.map(({ key }) => key)).toEqual([
      first.result.files[0]?.key,
      `${first.result.files[0]?.key}.sha256`,
    ]);
  });

  it.each<FailpointName>(['after_complete', 'before_manifest', 'after_manifest'])(
    'are whole after an attempt that died at %s and the next one',
    async (step) => {
      armFailpoints(async (name) => {
        if (name === step) throw new Error('killed');
      });
      const begun = job();
      const killed = attempt(bench, destination, begun);
      await expect(killed.exported).rejects.toThrow('killed');
      armFailpoints(async () => {});
      expect(await readAll(destination, success)).toBeNull();
      expect(await readAll(destination, latestKey)).toBeNull();
      const changes = { attempt: 2, generation: 2, intent: killed.intent, mayBeOvertaken: true };
      const { result } = await attempt(bench, destination, { ...begun, ...changes }).exported;
      expect(result.generation).toBe(step === 'after_manifest' ? 1 : 2);
      await checkSums();
      expect(await readAll(destination, success)).toEqual(Buffer.alloc(0));
      expect((await latest()).manifest).toBe(manifestPath);
      expect(killed.intent?.sideFiles?.map(({ key }) => key)).toContain(success);
    },
  );

  describe('the name of the newest manifest', () => {
    const hour = (start: number) => ({
      start: Date.UTC(2024, 2, 1, start),
      end: Date.UTC(2024, 2, 1, start + 1),
    });
    const jobOf = (start: number) => {
      const interval = hour(start);
      const names = keyNames('p', usualFileName, interval);
      const request = { ...job().request, interval };
      return job({ interval, names, request, exportId: job().exportId });
    };
    const named = async () => (await latest()).data_interval_start.slice(11, 13);

    it('never goes back, whichever interval ends first, or several at once', async () => {
      for (const start of [1, 3, 2]) await attempt(bench, destination, jobOf(start)).exported;
      expect(await named()).toBe('03');
      const starts = [9, 4, 8, 5, 7, 6];
      await Promise.all(starts.map((start) => attempt(bench, destination, jobOf(start)).exported));
      expect(await named()).toBe('09');
    });

    it('is refused before anything is written if the object is of another export', async () => {
      await destination.commitManifest(latestKey, Buffer.from('{"batch_export_id":"x"}'), null);
      const refused = attempt(bench, destination, job()).exported;
      expect(await codeOf(refused)).toBe('destination.key_taken');
      expect(await readableKeys(destination)).toEqual([latestKey]);
    });
  });
});

it('the name of the newest manifest is refused at a store that cannot keep it from going back', async () => {
  const store = await openedBy.S3();
  try {
    const { destination } = store;
    const weak = new Proxy(destination, {
      get(target, name) {
        if (name === 'traits') return { ...target.traits, ifNoneMatch: false, ifMatch: 'none' };
        const value = Reflect.get(target, name);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
    const refused = attempt(bench, weak, firstJob(all)).exported;
    await expect(refused).rejects.toThrow(/conditional writes.*Set latest_manifest to false/);
    expect(await readableKeys(destination)).toEqual([]);
  } finally {
    await store.close();
  }
});
