import { createHash, randomBytes } from 'node:crypto';
import { describe, expect, it, test } from 'vitest';
import type { CommitIntent } from '../../../src/foundation/domain/receipt.ts';
import type { RowBlock } from '../../../src/foundation/domain/row-block.ts';
import type { FileWriter } from '../../../src/rows/destinations/destination.ts';
import { prepareCommit } from '../../../src/rows/pipeline/commit.ts';
import { HashedFile } from '../../../src/rows/pipeline/file-set.ts';
import { Portions } from '../../../src/rows/pipeline/portions.ts';
import { InfiniteValues } from '../../../src/rows/pipeline/value-rules.ts';
import { firstJob } from '../../support/interval-bench.ts';
import { countLoopTurns } from '../../support/loop-turns.ts';
import { columnsOf, rowBlock } from '../../support/row-blocks.ts';

const mebibyte = 1024 ** 2;

function openFile() {
  const written: Uint8Array[] = [];
  const writer: FileWriter = {
    upload: { key: 'a', uploadId: '1' },
    write: async (bytes) => void written.push(bytes),
    flush: async () => {},
    complete: async () => ({ etag: '' }),
    abort: async () => {},
  };
  return { file: new HashedFile('a', 1, writer), written };
}

it('counts and hashes what it passes on, in the same order', async () => {
  const chunks = [3 * mebibyte + 1, 0, 17, mebibyte, 2 * mebibyte].map((size) => randomBytes(size));
  const { file, written } = openFile();
  await file.write(chunks.slice(0, 2), 5);
  await file.write(chunks.slice(2), 7);
  const bytes = Buffer.concat(chunks);
  expect(Buffer.concat(written).equals(bytes)).toBe(true);
  expect(file.entry()).toEqual({
    key: 'a',
    generation: 1,
    rows: 12,
    bytes: bytes.length,
    sha256: createHash('sha256').update(bytes).digest('hex'),
  });
});

it.each([
  ['one chunk', [16 * mebibyte]],
  ['many', Array.from({ length: 64 }, () => mebibyte / 4)],
])('lets others have their turn after each MiB: 16 MiB as %s', async (_, sizes) => {
  const { file } = openFile();
  const chunks = sizes.map((size) => Buffer.alloc(size));
  const loop = countLoopTurns();
  await file.write(chunks, 1);
  loop.stop();
  expect(loop.turns()).toBeGreaterThanOrEqual(15);
});

const job = firstJob();

/** What a run with so many files is about to commit. */
function intentOf(files: number): CommitIntent {
  const file = { generation: 1, rows: 1, bytes: 1, sha256: '0'.repeat(64) };
  return {
    generation: 1,
    era: job.era,
    totalRows: files,
    rows: files,
    rejectedRows: 0,
    droppedRows: 0,
    bytes: files,
    files: Array.from({ length: files }, (_, index) => ({ key: `p/file-${index}`, ...file })),
    rejectedFiles: [],
    manifestKey: 'p/a_manifest.json',
    recipe: { format: 'JSONLines', compression: null, ...job.request },
    snapshot: '1:1:',
    settled: true,
    pending: [],
    keyDigest: null,
    keyCount: files,
    deliveredDigest: null,
    madeFiles: files,
  };
}

test('a manifest that is too long to be read back is refused before the commit', () => {
  const commit = () => prepareCommit(job, intentOf(200_000), []);
  expect(commit).toThrow(/200000 files would be longer than 16 MiB; raise max_file_size_mb/);
});

test('a manifest of 50,000 files is not too long', () => {
  expect(prepareCommit(job, intentOf(50_000), []).intent.begunManifests).toHaveLength(1);
});

const columns = columnsOf({ id: 'text' });
const numbers = (from: number, count: number) => Array.from({ length: count }, (_, n) => from + n);
const blockOf = (from: number, count: number): RowBlock =>
  rowBlock(
    columns,
    numbers(from, count).map((n) => [Buffer.from(String(n))]),
  );
const idsOf = ({ bytes, offsets, lengths, rowCount }: RowBlock) =>
  numbers(0, rowCount).map((row) => {
    const start = offsets[row] ?? 0;
    return Number(bytes.toString('utf8', start, start + (lengths[row] ?? 0)));
  });

/** Cuts blocks of 1,000 rows for a chain that makes so many bytes of each row. */
function cut(blocks: number, bytesPerRow: number) {
  const portions = new Portions();
  const parts: number[] = [];
  const ids: number[] = [];
  for (let n = 0; n < blocks; n += 1) {
    for (const part of portions.of(blockOf(n * 1_000, 1_000))) {
      parts.push(part.rowCount);
      ids.push(...idsOf(part));
      const bytes = { length: part.rowCount * bytesPerRow } as Buffer;
      portions.see([{ block: { ...part, bytes }, rejected: [], dropped: 0 }]);
    }
  }
  expect(ids).toEqual(numbers(0, blocks * 1_000));
  return parts;
}

test('what a chain makes at once stays small, also of the first block, and each row comes once', () => {
  const parts = cut(1, 4 * 1024 ** 2);
  expect(Math.max(...parts)).toBe(2);
});

test('a chain that makes little of a row soon gets whole blocks', () => {
  const parts = cut(5, 100);
  expect(parts.slice(0, 4)).toEqual([1, 2, 4, 8]);
  expect(parts.filter((rows) => rows === 1_000)).toHaveLength(4);
});

test('a chain whose rows become large later gets fewer of them', () => {
  const portions = new Portions();
  const see = (rows: number, bytes: number) => {
    const [part] = portions.of(blockOf(0, rows));
    if (!part) throw new Error('no rows');
    const made = { ...part, bytes: { length: bytes } as Buffer };
    portions.see([{ block: made, rejected: [], dropped: 0 }]);
    return part.rowCount;
  };
  for (const rows of [1, 2, 4, 8, 16]) expect(see(1_000, 100)).toBe(rows);
  expect(see(1_000, 128 * 1024 ** 2)).toBe(32);
  expect(see(1_000, 100)).toBe(2);
});

describe('values without an end', () => {
  const columns = columnsOf({ id: 'date', day: 'date', moment: 'timestamp', n: 'int8' });
  const block = () =>
    rowBlock(columns, [
      ['infinity', 'infinity', 'infinity', 2n ** 63n - 1n],
      ['-infinity', '-infinity', '-infinity', -(2n ** 63n)],
      [1, null, 1n, 1n],
    ]);

  /** The fields of the rows; the bytes of each as hexadecimal. */
  const fieldsOf = ({ bytes, offsets, lengths }: ReturnType<typeof block>) =>
    Array.from(lengths, (length, field) =>
      length < 0
        ? null
        : bytes.subarray(offsets[field], (offsets[field] as number) + length).toString('hex'),
    );

  describe('infinite values', () => {
    it('become null, but not in keys and in columns without an infinity', () => {
      const before = fieldsOf(block());
      const after = fieldsOf(new InfiniteValues(columns, [0], 'null').replaceIn(block()));
      expect(after).toEqual(before.map((field, at) => ([1, 2, 5, 6].includes(at) ? null : field)));
    });

    it('become the first and last moments of the years 1 to 9999', () => {
      const after = fieldsOf(new InfiniteValues(columns, [0], 'limit').replaceIn(block()));
      const days = (date: string) => (Date.parse(date) - Date.parse('2000-01-01')) / 86_400_000;
      const hex = (value: bigint, bits: number) =>
        BigInt.asUintN(bits, value)
          .toString(16)
          .padStart(bits / 4, '0');
      const end = BigInt(days('9999-12-31') + 1) * 86_400_000_000n - 1n;
      const start = BigInt(days('0001-01-01')) * 86_400_000_000n;
      expect(after[1]).toBe(hex(BigInt(days('9999-12-31')), 32));
      expect(after[2]).toBe(hex(end, 64));
      expect(after[5]).toBe(hex(BigInt(days('0001-01-01')), 32));
      expect(after[6]).toBe(hex(start, 64));
      const before = fieldsOf(block());
      for (const at of [0, 3, 4, 7, 8, 9, 10, 11]) expect(after[at]).toBe(before[at]);
    });

    it('stay as they are if the rows are to be rejected', () => {
      const given = block();
      expect(new InfiniteValues(columns, [0], 'reject').replaceIn(given)).toBe(given);
    });
  });
});
