import { digestOfBytes } from '../../../src/rows/pipeline/manifest.ts';
import { randomBytes } from 'node:crypto';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmdirSync } from 'node:fs';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { SluiceError, toSluiceError } from '../../../src/foundation/domain/errors.ts';
import { keyNames, usualFileName } from '../../../src/foundation/domain/file-name.ts';
import { allTraits, type Destination } from '../../../src/rows/destinations/destination.ts';
import { FileSet, type FileSetOptions } from '../../../src/rows/pipeline/file-set.ts';
import {
  openPartitions,
  usualPartitionLimits,
} from '../../../src/rows/pipeline/partitioned-rows.ts';
import { boundedDestination } from '../../../src/service/admission/small-run.ts';
import {
  keysUnder,
  readAll,
  recordingJournal,
  uploadsUnder,
} from '../../conformance/destination-suite.ts';
import {
  attempt,
  encodingOf,
  firstJob,
  type IntervalBench,
  jobAfter,
  openedBy,
  type OpenedDestination,
  readableKeys,
} from '../../support/interval-bench.ts';
import { firstByDay } from '../../support/nightly.ts';
import { columnsOf, rowBlock } from '../../support/row-blocks.ts';
import { openStore } from '../../support/s3-destination.ts';
import type { IntervalJob } from '../../../src/rows/pipeline/interval-job.ts';
import { dividing, useDividedBench } from '../../support/divided-events.ts';
import { inTest, useEach } from '../../support/use-stage.ts';

const columns = columnsOf({ n: 'int4', words: 'text', moment: 'timestamptz' });
const interval = { start: Date.parse('2024-03-01T00:00Z'), end: Date.parse('2024-03-01T01:00Z') };
const never = new AbortController().signal;

/** A block of rows with about `bytes` of text each. */
const blockOf = (first: number, rows: number, bytes = 10) =>
  rowBlock(
    columns,
    Array.from({ length: rows }, (_, index) => [first + index, 'x'.repeat(bytes), 0n]),
  );

function open(
  { destination }: Pick<OpenedDestination, 'destination'>,
  changes: Partial<FileSetOptions> = {},
): FileSet {
  return new FileSet({
    ...{ exportId: 'export', runId: 'run', era: 'era', destination },
    journal: recordingJournal().journal,
    encoding: encodingOf({ file_format: 'JSONLines' }),
    columns,
    keyIndices: [0],
    names: keyNames('p', usualFileName, interval),
    ...{ interval, generation: 1, writesManifest: true, maxFileBytes: null, partitions: null },
    ...{ signal: never, ...changes },
  });
}

describe.each(firstByDay(1, ['S3', 'File'] as const))('the files of an interval at %s', (type) => {
  const store = useEach(openedBy[type]);

  const complete = (files: FileSet) => files.complete((file) => file.complete({ replaces: null }));
  const lines = async (key: string) =>
    (await readAll(store.destination, key))?.toString().split('\n').slice(0, -1) ?? [];

  it('are readable all together once they are complete, with the digests that were named', async () => {
    const files = open(store, { maxFileBytes: 1_000 });
    for (let block = 0; block < 6; block += 1) await files.write(blockOf(block * 10, 10));
    const made = await files.finish();
    expect(await keysUnder(store.destination, 'p/')).toEqual([]);
    const tags = await complete(files);
    const found = await keysUnder(store.destination, 'p/');
    expect(found).toEqual(made.files.map(({ key }) => key));
    expect([...tags.keys()]).toEqual(found);
    for (const { key, bytes, sha256 } of made.files) {
      const body = await readAll(store.destination, key);
      expect(body?.length).toBe(bytes);
      expect(digestOfBytes(body ?? Buffer.alloc(0))).toBe(sha256);
    }
  });

  it('end once they hold as many bytes as allowed; each row is in one of them, in order', async () => {
    const files = open(store, { maxFileBytes: 1_000 });
    for (let block = 0; block < 6; block += 1) await files.write(blockOf(block * 10, 10));
    const made = await files.finish();
    await complete(files);
    expect(made.files.length).toBeGreaterThan(1);
    expect(made.files.map(({ key }) => key.match(/-(\d{5})\.jsonl$/)?.[1])).toEqual(
      made.files.map((_, index) => String(index + 1).padStart(5, '0')),
    );
    const rows = (await Promise.all(made.files.map(({ key }) => lines(key)))).flat();
    expect(rows.map((line) => JSON.parse(line).n)).toEqual(Array.from({ length: 60 }, (_, n) => n));
    expect([files.rows, files.count]).toEqual([60, made.files.length]);
  });

  it.each(['JSONLines', 'Parquet'])(
    'of %s land with at most the bytes of the limit',
    async (format) => {
      const encoding = encodingOf({ file_format: format, compression: 'zstd' });
      const files = open(store, { encoding, maxFileBytes: 20_000 });
      const block = (first: number) =>
        rowBlock(
          columns,
          Array.from({ length: 200 }, (_, at) => [
            first + at,
            randomBytes(150).toString('hex'),
            0n,
          ]),
        );
      for (let first = 0; first < 1_000; first += 200) await files.write(block(first));
      const made = await files.finish();
      await complete(files);
      const sizes = made.files.map(({ bytes }) => bytes);
      expect(Math.max(...sizes)).toBeLessThanOrEqual(20_000);
      expect(Math.min(...sizes.slice(0, -1))).toBeGreaterThanOrEqual(18_000);
      expect(made.files.reduce((sum, file) => sum + file.rows, 0)).toBe(1_000);
      expect([files.rows, files.count]).toEqual([1_000, sizes.length]);
    },
  );

  it('are none for no rows', async () => {
    const files = open(store);
    await files.write(blockOf(0, 0));
    expect(await files.finish()).toEqual({ files: [], rejectedFiles: [] });
    await complete(files);
    expect(await keysUnder(store.destination, 'p/')).toEqual([]);
  });

  it('have a file beside them for the rows that the format cannot hold', async () => {
    const files = open(store, { encoding: encodingOf({ file_format: 'Parquet' }) });
    await files.write(
      rowBlock(columns, [
        [1, 'good', 0n],
        [2, 'bad', 'infinity'],
        [3, 'good', 0n],
      ]),
    );
    const made = await files.finish();
    await complete(files);
    expect([files.rows, files.rejectedRows]).toEqual([2, 1]);
    expect(made.files.map(({ rows }) => rows)).toEqual([2]);
    expect(made.rejectedFiles.map(({ rows }) => rows)).toEqual([1]);
    const [rejected] = await lines(made.rejectedFiles[0]?.key ?? '');
    expect(rejected).toContain('"bad"');
  });

  it('leave nothing after abort', async () => {
    const aborted = open(store, { maxFileBytes: 1 });
    await aborted.write(blockOf(0, 10));
    expect(await uploadsUnder(store.destination, 'p/')).not.toEqual([]);
    await aborted.abort();
    expect(await uploadsUnder(store.destination, 'p/')).toEqual([]);
    expect(await keysUnder(store.destination, 'p/')).toEqual([]);
  });
});

describe('the files of an interval at S3', () => {
  it('do not gather in memory: all but the first are sent when they end', async () => {
    const store = await inTest(openStore());
    const files = open({ destination: store.open(allTraits) }, { maxFileBytes: 1 });
    const count = 6;
    for (let file = 0; file < count; file += 1) await files.write(blockOf(file * 10, 10));
    // The last that ended may still be on its way.
    expect(store.sent('UploadPart')).toBeGreaterThanOrEqual(count - 2);
    const made = await files.finish();
    expect(store.sent('PutObject')).toBe(0);
    await files.complete((file) => file.complete({ replaces: null }));
    expect(store.sent('PutObject')).toBe(1);
    expect(await keysUnder(store.open(), 'p/')).toEqual(made.files.map(({ key }) => key));
  });

  it('of many partitions need the memory of a large run, before they are made', async () => {
    const store = await inTest(openStore());
    const taken: number[] = [];
    const destination = boundedDestination(store.open(), (bytes) => {
      taken.push(bytes);
      if (taken.reduce((sum, each) => sum + each, 0) > 512 * 1024) {
        throw new SluiceError('run.released');
      }
    });
    const encoding = encodingOf({ file_format: 'JSONLines' });
    const partitions = openPartitions({ partitionBy: ['n'], encoding }, columns);
    const files = open({ destination }, { partitions });
    await files.write(blockOf(0, 200));
    await expect(files.finish()).rejects.toMatchObject({ code: 'run.released' });
    expect(taken.length).toBeGreaterThan(50);
    await files.abort();
    expect(await keysUnder(store.destination, 'p/')).toEqual([]);
  });

  it('stop at once if a file cannot be sent', async () => {
    const store = await inTest(openStore());
    store.fault('UploadPart', { status: 403, code: 'AccessDenied' });
    const files = open({ destination: store.open() }, { maxFileBytes: 1 });
    await expect(async () => {
      for (let block = 0; block < 3; block += 1) await files.write(blockOf(block * 10, 10));
    }).rejects.toMatchObject({ code: 'destination.access_denied' });
    await files.abort();
  });
});

describe('folders by values', () => {
  const rows = 100;
  const side = useDividedBench(rows);
  let bench: IntervalBench;
  let destination: Destination;
  beforeEach(() => {
    ({ bench } = side);
    ({ destination } = side.opened);
  });

  /** A disk of 16 KiB. @returns whether it could be mounted: a container may not be allowed to, and only root is */
  const mount = (folder: string): boolean =>
    spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=16k', 'tmpfs', folder]).status === 0;
  const probed = mkdtempSync(join(tmpdir(), 'sluice-mount-'));
  const mayMount = mount(probed);
  if (mayMount) spawnSync('umount', [probed]);
  rmdirSync(probed);

  const job = (changes: Partial<IntervalJob> = {}) =>
    firstJob({ partitionBy: ['event', 'day(timestamp)'], ...changes });
  const folderOf = (key: string) => key.split('/')[1];
  /** The disk, and few rows in a block. */
  const small = { ...usualPartitionLimits, memoryBytes: 8_000, blockBytes: 1_500 };

  describe('an interval with folders by values', () => {
    it('has the folders between the prefix and any file_name', async () => {
      const template = 'events_{start}_{end}.{generation}-{part}';
      const names = keyNames('p', template, job().interval);
      const named = job({ names, maxFileBytes: 4_000 });
      const first = await attempt(bench, destination, named).exported;
      for (const { key } of first.result.files) {
        expect(key).toMatch(
          /^p\/event=[^/]+\/day=[^/]+\/events_20240301T000000Z_20240301T010000Z-\d{5}\.jsonl$/,
        );
      }
      expect(first.result.manifestKey).toBe(
        'p/events_20240301T000000Z_20240301T010000Z_manifest.json',
      );
      const again = await attempt(bench, destination, jobAfter(named, first)).exported;
      expect([again.result.generation, again.replaced]).toEqual([1, []]);
      // Texts that only look alike have folders of their own.
      const folders = new Set(first.result.files.map(({ key }) => folderOf(key)));
      expect(folders.size).toBe(dividing.length - 1);
    });

    it.runIf(mayMount)(
      'fails by name if the disk of the rows that wait is full, and the retry has every row',
      async () => {
        const disk = await mkdtemp(join(tmpdir(), 'sluice-full-'));
        mount(disk);
        vi.stubEnv('TMPDIR', disk);
        onTestFinished(async () => {
          vi.unstubAllEnvs();
          spawnSync('umount', [disk]);
          await rm(disk, { recursive: true });
        });
        const limited = job({ partitionLimits: small });
        const run = attempt(bench, destination, limited);
        const error = await run.exported.catch((caught: unknown) => toSluiceError(caught));
        expect(error).toMatchObject({ code: 'internal.disk_full' });
        expect(await readableKeys(destination)).toEqual([]);
        expect(await readdir(disk)).toEqual([]);
        vi.unstubAllEnvs();
        const { result } = await attempt(bench, destination, { ...limited, attempt: 2 }).exported;
        expect(result.rows).toBe(rows);
      },
    );

    it('ends a run whose rows have too many values, before anything is sent', async () => {
      const limits = { ...usualPartitionLimits, partitions: 10 };
      const many = job({ partitionBy: ['uuid'], partitionLimits: limits });
      const run = attempt(bench, destination, many);
      const error = await run.exported.catch((caught: unknown) => caught);
      expect(error).toMatchObject({ code: 'destination.too_many_partitions' });
      expect(String(error)).toContain('partition_by (uuid) makes more than 10 partitions');
      expect(await readableKeys(destination)).toEqual([]);
      const exact = { ...usualPartitionLimits, partitions: rows };
      const { result } = await attempt(bench, destination, { ...many, partitionLimits: exact })
        .exported;
      expect(result.files).toHaveLength(rows);
    });

    it.each([
      ['evnt', 'the rows have no column evnt (did you mean event?)'],
      ['day(event)', 'only a date or a timestamp has a day'],
    ])('ends a run whose rows cannot be divided by %s', async (entry, detail) => {
      const run = attempt(bench, destination, job({ partitionBy: [entry] }));
      const error = await run.exported.catch((caught: unknown) => caught);
      expect(error).toMatchObject({ code: 'destination.partition_mismatch' });
      expect(String(error)).toContain(detail);
    });
  });
});
