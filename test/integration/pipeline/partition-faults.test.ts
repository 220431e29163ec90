import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmdirSync } from 'node:fs';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { toSluiceError } from '../../../src/foundation/domain/errors.ts';
import { keyNames } from '../../../src/foundation/domain/file-name.ts';
import type { Destination } from '../../../src/rows/destinations/destination.ts';
import type { IntervalJob } from '../../../src/rows/pipeline/interval-job.ts';
import { usualPartitionLimits } from '../../../src/rows/pipeline/partitioned-rows.ts';
import { dividing, useDividedBench } from '../../support/divided-events.ts';
import {
  attempt,
  firstJob,
  type IntervalBench,
  jobAfter,
  readableKeys,
} from '../../support/interval-bench.ts';

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
      const usual = process.env.TMPDIR;
      try {
        process.env.TMPDIR = disk;
        const limited = job({ partitionLimits: small });
        const run = attempt(bench, destination, limited);
        const error = await run.exported.catch((caught: unknown) => toSluiceError(caught));
        expect(error).toMatchObject({ code: 'internal.disk_full' });
        expect(await readableKeys(destination)).toEqual([]);
        expect(await readdir(disk)).toEqual([]);
        if (usual === undefined) delete process.env.TMPDIR;
        else process.env.TMPDIR = usual;
        const { result } = await attempt(bench, destination, { ...limited, attempt: 2 }).exported;
        expect(result.rows).toBe(rows);
      } finally {
        if (usual === undefined) delete process.env.TMPDIR;
        else process.env.TMPDIR = usual;
        spawnSync('umount', [disk]);
        await rm(disk, { recursive: true });
      }
    },
  );

  it('ends a run whose rows have too many values, before anything is sent', async () => {
    const limits = { ...usualPartitionLimits, partitions: 10 };
    const run = attempt(
      bench,
      destination,
      job({ partitionBy: ['uuid'], partitionLimits: limits }),
    );
    const error = await run.exported.catch((caught: unknown) => caught);
    expect(error).toMatchObject({ code: 'destination.too_many_partitions' });
    expect(String(error)).toContain('partition_by (uuid) makes more than 10 partitions');
    expect(await readableKeys(destination)).toEqual([]);
    const exact = { ...usualPartitionLimits, partitions: rows };
    const { result } = await attempt(
      bench,
      destination,
      job({ partitionBy: ['uuid'], partitionLimits: exact }),
    ).exported;
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
