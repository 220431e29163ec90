import { createHash, randomBytes } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { SluiceError } from '../../../src/foundation/domain/errors.ts';
import { keyNames, usualFileName } from '../../../src/foundation/domain/file-name.ts';
import { allTraits } from '../../../src/rows/destinations/destination.ts';
import { FileSet, type FileSetOptions } from '../../../src/rows/pipeline/file-set.ts';
import { openPartitions } from '../../../src/rows/pipeline/partitioned-rows.ts';
import { boundedDestination } from '../../../src/service/admission/memory-gate.ts';
import {
  keysUnder,
  readAll,
  recordingJournal,
  uploadsUnder,
} from '../../conformance/destination-suite.ts';
import { encodingOf, openedBy, type OpenedDestination } from '../../support/interval-bench.ts';
import { columnsOf, rowBlock } from '../../support/row-blocks.ts';
import { openStore } from '../../support/s3-destination.ts';

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
    exportId: 'export',
    runId: 'run',
    era: 'era',
    destination,
    journal: recordingJournal().journal,
    encoding: encodingOf({ file_format: 'JSONLines' }),
    columns,
    keyIndices: [0],
    names: keyNames('p', usualFileName, interval),
    interval,
    generation: 1,
    writesManifest: true,
    maxFileBytes: null,
    partitions: null,
    signal: never,
    ...changes,
  });
}

describe.each(['File', 'S3'] as const)('the files of an interval at %s', (type) => {
  let store: OpenedDestination;
  beforeEach(async () => {
    store = await openedBy[type]();
  });
  afterEach(() => store.close());

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
      expect(
        createHash('sha256')
          .update(body ?? '')
          .digest('hex'),
      ).toBe(sha256);
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
    const store = await openStore();
    try {
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
    } finally {
      await store.close();
    }
  });

  it('of many partitions need the memory of a large run, before they are made', async () => {
    const store = await openStore();
    try {
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
    } finally {
      await store.close();
    }
  });

  it('stop at once if a file cannot be sent', async () => {
    const store = await openStore();
    try {
      store.server.faults.add({
        match: { operation: 'UploadPart' },
        effect: { status: 403, code: 'AccessDenied' },
      });
      const files = open({ destination: store.open() }, { maxFileBytes: 1 });
      await expect(async () => {
        for (let block = 0; block < 3; block += 1) await files.write(blockOf(block * 10, 10));
      }).rejects.toMatchObject({ code: 'destination.access_denied' });
      await files.abort();
    } finally {
      await store.close();
    }
  });
});
