import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { armFailpoints } from '../../../src/foundation/failpoints/failpoint.ts';
import type { Destination } from '../../../src/rows/destinations/destination.ts';
import type { ExportedInterval } from '../../../src/rows/pipeline/export-interval.ts';
import type { IntervalJob, PinnedChain } from '../../../src/rows/pipeline/interval-job.ts';
import { removeLeftovers } from '../../../src/rows/pipeline/leftovers.ts';
import { usualPartitionLimits } from '../../../src/rows/pipeline/partitioned-rows.ts';
import { renderInterval } from '../../../src/rows/pipeline/render-interval.ts';
import { findTransform } from '../../../src/rows/transforms/index.ts';
import { compileStep } from '../../../src/rows/transforms/step.ts';
import {
  attempt,
  deliveredKeys,
  encodingOf,
  firstJob,
  type IntervalBench,
  jobAfter,
  openedBy,
  readableKeys,
  readManifest,
  rowsIn,
} from '../../support/interval-bench.ts';
import { useDividedBench } from '../../support/divided-events.ts';

const rows = 200;
const side = useDividedBench(rows);
let bench: IntervalBench;
let destination: Destination;
beforeEach(() => {
  ({ bench } = side);
  ({ destination } = side.opened);
});
afterEach(() => armFailpoints(async () => {}));

const partitionBy = ['event', 'day(timestamp)'];
const settings = {
  JSONLines: { file_format: 'JSONLines', compression: 'gzip' },
  CSV: { file_format: 'CSV' },
  Parquet: { file_format: 'Parquet', compression: 'zstd' },
};
const job = (changes: Partial<IntervalJob> = {}) => firstJob({ partitionBy, ...changes });
/** The disk, several rounds, and few rows in a block. */
const small = { ...usualPartitionLimits, memoryBytes: 8_000, blockBytes: 1_500, passBytes: 10_000 };

/** The folder of a key, without the prefix. */
const partitionOf = (key: string) => key.slice('p/'.length, key.lastIndexOf('/'));
const undo = (folder: string | undefined) => decodeURIComponent(folder?.split('=')[1] ?? '');

/** Each row's event and day as its file has them, with the folders of the file. */
async function readRows(of: IntervalJob, result: ExportedInterval['result']) {
  const columns = [
    { name: 'event', type: 'text' as const },
    { name: 'timestamp', type: 'timestamptz' as const },
  ];
  const rows = await rowsIn(destination, of, { ...result, rejectedFiles: [] }, columns);
  for (const { key, rows: count } of result.files)
    expect(rows.filter((one) => one.key === key)).toHaveLength(count);
  return rows.map(({ key, row: [event = null, at] }) => {
    return { event, day: at?.slice(0, 10), folders: partitionOf(key).split('/') };
  });
}

describe.each(['Parquet', 'CSV', 'JSONLines'] as const)('partitions of %s', (format) => {
  const encoding = encodingOf(settings[format]);

  it('have the rows of their values, whatever is in them, in one commit', async () => {
    const { result } = await attempt(bench, destination, job({ encoding })).exported;
    expect(result.rows).toBe(rows);
    const found = await readRows(job({ encoding }), result);
    expect(found).toHaveLength(rows);
    for (const { event, day, folders } of found) {
      expect(undo(folders[1])).toBe(day);
      const value = undo(folders[0]);
      if (!event) expect(value).toBe('__HIVE_DEFAULT_PARTITION__');
      else if (event.length > 100) expect(value).toMatch(/^l{60}-[0-9a-f]{32}$/);
      else expect(value).toBe(event);
    }
    const folders = result.files.map(({ key }) => partitionOf(key));
    expect(folders).toEqual([...new Set(folders)].sort());
    expect((await readManifest(destination)).files.map(({ key }) => key)).toEqual(
      result.files.map(({ key }) => key),
    );
  });

  it('have the same bytes whatever memory there is, and with the same rows nothing is committed', async () => {
    const few = { ...small, passBytes: usualPartitionLimits.passBytes };
    const sums = ({ result }: ExportedInterval) => result.files.map(({ sha256 }) => sha256);
    const large = job({ encoding, partitionLimits: { ...few, memoryBytes: 1 << 24 } });
    const first = await attempt(bench, destination, large).exported;
    const again = jobAfter(large, first, { partitionLimits: few });
    const { result, replaced } = await attempt(bench, destination, again).exported;
    expect([result.generation, replaced]).toEqual([1, []]);
    const other = await openedBy.File();
    const elsewhere = await attempt(
      bench,
      other.destination,
      job({ encoding, partitionLimits: few }),
    ).exported;
    expect(sums(elsewhere)).toEqual(sums(first));
    await other.close();
  });

  it('have more parts after each round and at the limit of a file, in the order of the rows', async () => {
    const limits = { partitionLimits: small, maxFileBytes: 3_000 };
    const parted = job({ encoding, ...limits, chain: noChange });
    const { result } = await attempt(bench, destination, parted).exported;
    expect(result.rows + result.droppedRows).toBe(rows);
    const keys = result.files.map(({ key }) => key);
    const parts = new Map<string, number>();
    for (const key of keys) {
      const part = (parts.get(partitionOf(key)) ?? 0) + 1;
      parts.set(partitionOf(key), part);
      expect(key).toContain(`-${String(part).padStart(5, '0')}.`);
    }
    const folders = keys.map(partitionOf);
    expect(folders).toEqual(folders.toSorted());
    expect(Math.max(...parts.values())).toBeGreaterThan(2);
    expect((await deliveredKeys(destination, parted, result)).length).toBe(result.rows);
    // As a verification makes them again.
    const other = await openedBy.File();
    const { signal } = new AbortController();
    const rendering = { ...parted, steps: noChange.steps };
    const again = await renderInterval(rendering, bench.source, other.destination, signal);
    expect(again.files.map(({ sha256 }) => sha256)).toEqual(
      result.files.map(({ sha256 }) => sha256),
    );
    await other.close();
  });

  it('get a late row beside their files', async () => {
    const { pool } = bench.database;
    const whole = job({ encoding });
    const first = await attempt(bench, destination, whole).exported;
    const before = await readableKeys(destination);
    await pool.query(
      `insert into events (uuid, team_id, event, "timestamp", inserted_at)
       values ('00000000-0000-4000-8000-00000000000a', 1, 'a/b', '2026-11-25T00:00:00Z', '2024-03-01T00:59:59Z')`,
    );
    onTestFinished(async () => {
      await pool.query(`delete from events where uuid = '00000000-0000-4000-8000-00000000000a'`);
    });
    const late = jobAfter(whole, first, { purpose: 'supplement', generation: 2 });
    const { result, replaced } = await attempt(bench, destination, late).exported;
    expect([result.rows, result.madeFiles, replaced]).toEqual([1, 1, []]);
    const added = result.files.at(-1)?.key ?? '';
    expect(partitionOf(added)).toBe('event=a%2Fb/day=2026-11-25');
    expect(added).toContain('.v2.');
    expect(await readableKeys(destination)).toEqual([...before, added].toSorted());
    expect(await readRows(late, result)).toHaveLength(rows + 1);
  });

  it('lose the rows of a person, and whole files with no other row', async () => {
    const whole = job({ encoding });
    const first = await attempt(bench, destination, whole).exported;
    const erased = { column: 'event', value: 'x=1' };
    const erase = jobAfter(whole, first, { purpose: 'erase', erased });
    const { result } = await attempt(bench, destination, erase).exported;
    const of = first.result.files.filter(({ key }) => key.includes('x%3D1')).length;
    expect(of).toBeGreaterThan(0);
    expect(result.files).toEqual(
      first.result.files
        .filter(({ key }) => !key.includes('x%3D1'))
        .map((file) => expect.objectContaining(file)),
    );
    const one = { column: 'distinct_id', value: 'user 3' };
    const second = jobAfter(erase, { result, replaced: [] }, { erased: one });
    const { result: left, replaced } = await attempt(bench, destination, second).exported;
    expect(left.rows).toBeLessThan(result.rows);
    expect(left.files.map(({ key }) => partitionOf(key))).toEqual(
      result.files.map(({ key }) => partitionOf(key)),
    );
    expect(replaced.length).toBeGreaterThan(0);
    await remove(second, left, replaced);
    const named = left.files.map(({ key }) => key);
    expect((await readableKeys(destination)).filter((key) => key.includes('event='))).toEqual(
      expect.arrayContaining(named),
    );
  });
});

const transform = findTransform(2);
if (!transform) throw new Error('there is no plugin that filters events');
const noChange: PinnedChain = {
  steps: [compileStep({ id: 1, name: null, config: { events: 'Signup' } }, transform)],
  recipe: [{ config: 1, version: 1, digest: 'digest' }],
};

async function remove(
  of: IntervalJob,
  { generation, manifestKey }: ExportedInterval['result'],
  replaced: ExportedInterval['replaced'],
) {
  const commit = { ...of, generation, attemptGeneration: generation, manifestKey };
  const { signal } = new AbortController();
  const confirm = async (keys: readonly string[]) => keys;
  const rules = { keepsRecent: false, knows: async () => true, sign: of.sign, confirm };
  return removeLeftovers(destination, commit, replaced, rules, signal);
}

describe('the layout of an interval', () => {
  it('follows a change at its next run: files move, and the former ones go', async () => {
    const flat = firstJob();
    const first = await attempt(bench, destination, flat).exported;
    const by = jobAfter(flat, first, { partitionBy: ['hour(inserted_at)'] });
    const second = await attempt(bench, destination, by).exported;
    // The same rows in one file with the same bytes, and yet at another place.
    expect(second.result.files.map(({ key, sha256 }) => [partitionOf(key), sha256])).toEqual([
      ['hour=2024-03-01-00', first.result.files[0]?.sha256],
    ]);
    expect(second.replaced.map(({ key }) => key)).toEqual(first.result.files.map(({ key }) => key));
    await remove(by, second.result, second.replaced);
    // A database that was restored has no record of these files, but the manifest names them.
    const wide = jobAfter(by, second, { partitionBy: ['event'], current: null });
    const third = await attempt(bench, destination, wide).exported;
    await remove(wide, third.result, third.replaced);
    const named = (await readManifest(destination)).files.map(({ key }) => key);
    expect((await readableKeys(destination)).filter((key) => key.endsWith('.jsonl'))).toEqual(
      named.toSorted(),
    );
    expect(third.result.recipe.partitionBy).toEqual(['event']);
  });

  it('takes the values after the chain', async () => {
    const chained = job({ chain: noChange });
    const { result } = await attempt(bench, destination, chained).exported;
    expect(result.droppedRows).toBeGreaterThan(0);
    expect(result.files.some(({ key }) => key.includes('event=Signup/'))).toBe(false);
    expect(await readRows(chained, result)).toHaveLength(rows - result.droppedRows);
  });

  it('keeps rejected rows of all partitions in one file beside the manifest', async () => {
    const { pool } = bench.database;
    await pool.query(`update events set created_at = 'infinity' where event in ('x=1', 'a/b')`);
    onTestFinished(async () => {
      await pool.query(`update events set created_at = "inserted_at"`);
    });
    const parquet = job({ encoding: encodingOf(settings.Parquet) });
    const { result } = await attempt(bench, destination, parquet).exported;
    expect(result.rejectedFiles.map(({ key }) => key)).toEqual([
      'p/20240301T000000Z-20240301T010000Z.parquet_rejected.jsonl',
    ]);
    expect(result.rows + result.rejectedRows).toBe(rows);
    expect((await deliveredKeys(destination, parquet, result)).length).toBe(rows);
  });

  it('works without a manifest: files are replaced at their keys', async () => {
    const inPlace = job({ writesManifest: false });
    const first = await attempt(bench, destination, inPlace).exported;
    const again = await attempt(bench, destination, jobAfter(inPlace, first)).exported;
    expect(again.result.files.map(({ key }) => key)).toEqual(
      first.result.files.map(({ key }) => key),
    );
    const moved = jobAfter(inPlace, first, { partitionBy: ['event'] });
    const { replaced, result } = await attempt(bench, destination, moved).exported;
    expect(replaced.map(({ key }) => key)).toEqual(first.result.files.map(({ key }) => key));
    await remove(moved, result, replaced);
    expect(await readableKeys(destination)).toEqual(result.files.map(({ key }) => key).toSorted());
  });

  it.each(['before_complete', 'before_manifest'] as const)(
    'is byte for byte the same after a death at %s',
    async (name) => {
      armFailpoints(async (at) => {
        if (at === name) throw new Error('killed');
      });
      const limits = { partitionLimits: small, encoding: encodingOf(settings.CSV) };
      await expect(attempt(bench, destination, job(limits)).exported).rejects.toThrow();
      armFailpoints(async () => {});
      const second = job({ ...limits, attempt: 2, generation: 2, mayBeOvertaken: true });
      const { result } = await attempt(bench, destination, second).exported;
      const other = await openedBy.File();
      const alone = await attempt(bench, other.destination, job(limits)).exported;
      expect(result.files.map(({ sha256 }) => sha256)).toEqual(
        alone.result.files.map(({ sha256 }) => sha256),
      );
      await other.close();
    },
  );
});
