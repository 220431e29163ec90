import { describe, expect, it } from 'vitest';
import { SluiceError } from '../../../src/foundation/domain/errors.ts';
import { readThrough } from '../../../src/service/admission/small-run.ts';
import type { IntervalSource } from '../../../src/rows/pipeline/interval-job.ts';
import { codeOf, uploadsUnder } from '../../conformance/destination-suite.ts';
import {
  attempt,
  countLines,
  encodingOf,
  firstJob,
  jobAfter,
  manifestPath,
  openedBy,
  openedOtherwise,
  openIntervalBench,
  readableKeys,
  readManifest,
  team,
} from '../../support/interval-bench.ts';
import { firstByDay } from '../../support/nightly.ts';
import { inTest, useEach, useStage } from '../../support/use-stage.ts';

const rows = 40;
const bench = useStage(() => openIntervalBench(rows));

describe.each(firstByDay(1, ['S3', 'File'] as const))('exporting an interval to %s', (type) => {
  const opened = useEach(openedBy[type]);

  it('writes the rows of the interval and a manifest that says what they are', async () => {
    const { destination } = opened;
    const job = firstJob();
    const { result } = await attempt(bench, destination, job).exported;
    const manifest = await readManifest(destination);
    expect(manifest).toMatchObject({
      ...{ batch_export_id: job.exportId, run_id: job.runId, generation: 1, era: 'era' },
      ...{ format: 'JSONLines', total_rows: rows },
    });
    expect(result).toMatchObject({ totalRows: rows, rows, rejectedRows: 0, settled: true });
    const keys = [...manifest.files.map(({ key }) => key), manifestPath];
    expect(await readableKeys(destination)).toEqual(keys.toSorted());
    expect(await countLines(destination)).toBe(rows);
  });

  it('writes a manifest without files for an interval without rows', async () => {
    const { destination } = opened;
    const { request } = firstJob();
    const job = firstJob({ request: { ...request, tenantKey: String(team + 1) } });
    await attempt(bench, destination, job).exported;
    expect(await readManifest(destination)).toMatchObject({ files: [], total_rows: 0 });
    expect(await readableKeys(destination)).toEqual([manifestPath]);
  });

  it('names the files that the commit replaced, if the rows have changed', async () => {
    const { destination } = opened;
    const job = firstJob({ encoding: encodingOf({ file_format: 'CSV' }) });
    const first = await attempt(bench, destination, job).exported;
    const { request } = job;
    const next = jobAfter(job, first, { request: { ...request, includeEvents: ['event 1'] } });
    const { result, replaced } = await attempt(bench, destination, next).exported;
    expect(result.generation).toBe(2);
    expect(result.rows).toBeLessThan(rows);
    const known = { generation: 1, manifestKey: manifestPath, isRecent: true };
    expect(replaced).toEqual(first.result.files.map(({ key, etag }) => ({ key, etag, ...known })));
  });

  it('writes above the generation of a bucket that is ahead of the database', async () => {
    const { destination } = opened;
    const job = firstJob({ generation: 6 });
    await attempt(bench, destination, job).exported;
    // The database was restored: it knows no receipt, and gives the run number 2.
    const request = { ...job.request, includeEvents: ['event 1'] };
    const again = attempt(bench, destination, firstJob({ generation: 2, request }));
    expect((await again.exported).result.generation).toBe(7);
    expect(again.asked).toEqual(['generation above 6', 'reading', 'commit']);
  });

  it.each([-1, 0.5, 1e9, 2 ** 31, 1e300])(
    'refuses a manifest of generation %d, after which none can follow',
    async (generation) => {
      const { destination } = opened;
      const facts = { batch_export_id: firstJob().exportId, run_id: 'a run', files: [] };
      const body = Buffer.from(JSON.stringify({ ...facts, generation }));
      await destination.commitManifest(manifestPath, body, null);
      const refused = attempt(bench, destination, firstJob({ generation: 2 }));
      expect(await codeOf(refused.exported)).toBe('destination.key_taken');
      expect(refused.asked).toEqual([]);
      expect(await readableKeys(destination)).toEqual([manifestPath]);
    },
  );

  it('leaves nothing behind if it is stopped before it reads', async () => {
    const { destination } = opened;
    const stop = new AbortController();
    const stopped = attempt(bench, destination, firstJob(), {
      signal: stop.signal,
      at: (step) => {
        if (step === 'first_row') stop.abort(new Error('stopped'));
      },
    });
    await expect(stopped.exported).rejects.toThrow();
    expect(await readableKeys(destination)).toEqual([]);
    expect(await uploadsUnder(destination, 'p/')).toEqual([]);
  });

  it.each([
    ['a transient error', 'source.timeout'],
    ['an error that no retry helps', 'source.permission_denied'],
    ['the loss of its lease', 'run.lease_lost'],
  ] as const)('aborts its uploads after %s', async (_, code) => {
    const { destination } = opened;
    const failed = attempt(bench, destination, firstJob(), {
      progressed: async ({ files }) => {
        if (files > 0) throw new SluiceError(code);
      },
    });
    expect(await codeOf(failed.exported)).toBe(code);
    expect(await readableKeys(destination)).toEqual([]);
    expect(await uploadsUnder(destination, 'p/')).toEqual([]);
  });
});

/** The bench's source, which loses a row of each block and may count only once the rows are read. */
function losingRows(countsAtEnd: boolean): IntervalSource {
  return openedOtherwise(bench.source, async (...asked) => {
    const snapshot = await bench.source.open(...asked);
    let isRead = false;
    const losing = readThrough(snapshot, (inner) => {
      return async function* (slice, signal) {
        for await (const block of inner.read(slice, signal)) {
          yield { ...block, rowCount: block.rowCount - 1 };
        }
        isRead = true;
      };
    });
    const countRows = async (signal: AbortSignal) => {
      if (countsAtEnd && !isRead) throw new SluiceError('source.unavailable');
      return snapshot.countRows(signal);
    };
    return Object.defineProperties(losing, {
      totalCount: { value: null },
      countRows: { value: countRows },
    });
  });
}

it.each([
  ['while they are read', false],
  ['after they were read', true],
])('nothing is committed if a row is lost of those counted %s', async (_, countsAtEnd) => {
  const { destination } = await inTest(openedBy.File());
  const failed = attempt({ source: losingRows(countsAtEnd) }, destination, firstJob());
  expect(await codeOf(failed.exported)).toBe('source.count_mismatch');
  expect(failed.asked).toEqual(['reading']);
  expect(await readableKeys(destination)).toEqual([]);
});
