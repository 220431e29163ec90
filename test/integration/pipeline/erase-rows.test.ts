import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Destination } from '../../../src/rows/destinations/destination.ts';
import { manifestKey } from '../../../src/foundation/domain/object-keys.ts';
import { csv } from '../../../src/rows/encoders/csv/definition.ts';
import { encoders } from '../../../src/rows/encoders/index.ts';
import { armFailpoints, type FailpointName } from '../../../src/foundation/failpoints/failpoint.ts';
import type { ExportedInterval } from '../../../src/rows/pipeline/export-interval.ts';
import type { IntervalJob } from '../../../src/rows/pipeline/interval-job.ts';
import { codeOf, readAll } from '../../conformance/destination-suite.ts';
import { compressionsOf } from '../../support/compressions.ts';
import { readByIcebird } from '../../support/icebird.ts';
import {
  attempt,
  encodingOf,
  firstJob,
  jobAfter,
  manifestPath,
  openIntervalBench,
  openedBy,
  readManifest,
  readableKeys,
  tableBelow,
  type IntervalBench,
  rowsIn,
} from '../../support/interval-bench.ts';
import { firstByDay, isNightly } from '../../support/nightly.ts';
import { bucket } from '../../support/s3-destination.ts';
import { unpack } from '../../support/unpack.ts';
import { useEach, useStage } from '../../support/use-stage.ts';

const rows = 60;
const person = 'person "x",\r\n😀 = 50%';
const erased = { column: 'distinct_id', value: person };
const opened = useEach(openedBy.S3);
let destination: Destination;

const bench = useStage(() => openIntervalBench(rows));
beforeAll(async () => {
  await bench.database.sql`
    update events set distinct_id = ${person} where properties ->> 'n' in ('0', '1', '40')`;
  // Rows that Parquet rejects, one of them the person's.
  await bench.database.sql`
    update events set created_at = 'infinity' where properties ->> 'n' in ('40', '41')`;
});
beforeEach(async () => {
  ({ destination } = opened);
  await destination.probe(new AbortController().signal);
});
afterEach(() => armFailpoints(async () => {}));

/** An erasure asks no source. */
const sourceless = {
  source: new Proxy({} as IntervalBench['source'], {
    get(_, name) {
      throw new Error(`an erasure asked its source: ${String(name)}`);
    },
  }),
};

const proof = {
  snapshot: '1:1:',
  digest: 'of the source',
  count: rows,
  settled: true,
  pending: [],
};

function eraseAfter(
  job: IntervalJob,
  before: ExportedInterval,
  changes: Partial<IntervalJob> = {},
) {
  return jobAfter(job, before, {
    purpose: 'erase',
    erased,
    current: { ...before.result, proof },
    ...changes,
  });
}

/** A worker dies at a step. */
function dieAt(step: FailpointName): void {
  armFailpoints(async (name) => {
    if (name === step) throw new Error('killed');
  });
}

/** The rows of the current files in the order of the files, as JSON of their values. */
async function readRows(job: IntervalJob, result: ExportedInterval['result'], names: string[]) {
  const columns = names.map((name) => ({ name, type: 'text' as const }));
  return (await rowsIn(destination, job, result, columns)).map(({ row }) => JSON.stringify(row));
}

const all = 'uuid event distinct_id properties timestamp created_at inserted_at'.split(' ');
const isOther = (row: string) => !row.includes(JSON.stringify(person));

const pairs = encoders.flatMap((definition) =>
  compressionsOf(definition).map((compression) => ({ definition, compression })),
);
const cases = [
  ...pairs.map((pair) => ({ ...pair, writesManifest: true, settings: {} })),
  ...pairs.map((pair) => ({ ...pair, writesManifest: false, settings: {} })),
  { definition: csv, compression: null, writesManifest: true, settings: { csv_header: false } },
];
/** By day Parquet has a compression, CSV no header. JSON Lines go without a manifest. */
const isByDay = ({ definition, compression, writesManifest, settings }: (typeof cases)[number]) =>
  'csv_header' in settings ||
  (writesManifest
    ? definition.format === 'Parquet' && compression === 'zstd'
    : definition.format === 'JSONLines' && compression === null);

it.each(isNightly ? cases : cases.filter(isByDay))(
  'removes the rows of a person from $definition.format with $compression, manifest $writesManifest, $settings, and no others',
  async ({ definition, compression, writesManifest, settings }) => {
    const encoding = encodingOf({ file_format: definition.format, compression, ...settings });
    const job = firstJob({ encoding, maxFileBytes: 1_800, writesManifest });
    const first = await attempt(bench, destination, job).exported;
    const before = first.result;
    expect(before.files.length).toBeGreaterThan(2);
    expect(before.rejectedFiles).toHaveLength(definition.format === 'Parquet' ? 1 : 0);
    const rowsBefore = await readRows(job, before, all);
    expect(rowsBefore.filter((row) => !isOther(row))).toHaveLength(3);
    const bytesBefore = new Map<string, Buffer | null>();
    for (const { key } of before.files) bytesBefore.set(key, await readAll(destination, key));

    const again = eraseAfter(job, first);
    const { result, replaced } = await attempt(sourceless, destination, again).exported;
    expect(await readRows(job, result, all)).toEqual(rowsBefore.filter(isOther));

    // Its facts are true, and files without the person are the same objects.
    const sum = (of: 'rows' | 'bytes', files = result.files) =>
      files.reduce((total, file) => total + file[of], 0);
    expect(result.rows + result.rejectedRows).toBe(rows - 3);
    expect(sum('rows')).toBe(result.rows);
    expect(sum('rows', result.rejectedFiles)).toBe(result.rejectedRows);
    expect(result).toMatchObject({
      totalRows: rows - 3,
      snapshot: proof.snapshot,
      keyDigest: proof.digest,
      keyCount: proof.count,
      deliveredDigest: null,
      recipe: before.recipe,
    });
    const kept = result.files.filter(({ sha256 }) =>
      before.files.some((file) => file.sha256 === sha256),
    );
    expect(kept.length).toBeGreaterThan(0);
    expect(before.files).toEqual(expect.arrayContaining([...kept]));
    if (writesManifest) {
      const manifest = await readManifest(destination);
      expect(manifest).toMatchObject({ generation: 2, total_rows: result.rows });
      expect(manifest.files.map(({ key }) => key)).toEqual(result.files.map(({ key }) => key));
      const gone = before.files.filter(({ key }) => !result.files.some((file) => file.key === key));
      expect(gone.length).toBeGreaterThan(0);
      expect(replaced.map(({ key }) => key)).toEqual(
        expect.arrayContaining(gone.map(({ key }) => key)),
      );
      const made = result.files.filter((file) => !kept.includes(file));
      expect(made.map(({ generation }) => generation)).toEqual(made.map(() => 2));
      expect(kept.map(({ generation }) => generation)).toEqual(kept.map(() => 1));
    } else {
      expect(result.manifestKey).toBeNull();
      expect(result.generation).toBe(before.generation);
    }
    if (definition.format === 'Parquet') return;
    // A text keeps its bytes: each new file is an old one without some of its lines.
    for (const [index, { key }] of result.files.entries()) {
      const made = await unpack(compression, (await readAll(destination, key)) ?? Buffer.alloc(0));
      const packed = bytesBefore.get(before.files[index]?.key ?? '') ?? Buffer.alloc(0);
      const old = await unpack(compression, packed);
      let at = 0;
      for (const line of made.toString('latin1').split(/(?<=\n)/)) {
        at = old.indexOf(line, at, 'latin1');
        expect(at).toBeGreaterThanOrEqual(0);
        at += line.length;
      }
    }
  },
);

const whole = (changes: Partial<IntervalJob> = {}) =>
  firstJob({ encoding: encodingOf({ file_format: 'JSONLines' }), ...changes });

describe('an erasure', () => {
  it.each(
    firstByDay<FailpointName>(2, [
      'before_manifest',
      'after_manifest',
      'before_open',
      'before_complete',
      'after_complete',
    ]),
  )('that dies at %s leaves the old or the new files whole, and is resumed', async (step) => {
    const job = whole();
    const erase = eraseAfter(job, await attempt(bench, destination, job).exported);
    dieAt(step);
    const killed = attempt(sourceless, destination, erase);
    await expect(killed.exported).rejects.toThrow('killed');
    armFailpoints(async () => {});
    const between = await readManifest(destination);
    expect(between.total_rows).toBe(step === 'after_manifest' ? rows - 3 : rows);
    for (const { key, bytes } of between.files) {
      expect((await readAll(destination, key))?.length).toBe(bytes);
    }
    const began = killed.asked.includes('commit');
    const { result } = await attempt(sourceless, destination, {
      ...erase,
      attempt: 2,
      generation: began ? 3 : 2,
      intent: killed.intent,
      mayBeOvertaken: began,
    }).exported;
    expect(await readRows(job, result, ['distinct_id'])).toHaveLength(rows - 3);
    expect((await readManifest(destination)).total_rows).toBe(rows - 3);
    expect(result.generation).toBe(step === 'after_manifest' ? 2 : began ? 3 : 2);
  });

  it('without a manifest goes on where an attempt died between two files', async () => {
    const encoding = encodingOf({ file_format: 'JSONLines' });
    const job = whole({ encoding, writesManifest: false, maxFileBytes: 3_000 });
    const first = await attempt(bench, destination, job).exported;
    const before = await readRows(job, first.result, all);
    const erase = eraseAfter(job, first);
    let completed = 0;
    const killed = attempt(
      sourceless,
      new Proxy(destination, {
        get(target, name) {
          const value = Reflect.get(target, name);
          if (name !== 'createFile')
            return typeof value === 'function' ? value.bind(target) : value;
          return async (...args: Parameters<Destination['createFile']>) => {
            const writer = await target.createFile(...args);
            const complete = writer.complete.bind(writer);
            writer.complete = async (options) => {
              completed += 1;
              if (completed === 2) throw new Error('killed');
              return complete(options);
            };
            return writer;
          };
        },
      }),
      erase,
    );
    await expect(killed.exported).rejects.toThrow('killed');
    const changes = { attempt: 2, generation: 3, intent: killed.intent, mayBeOvertaken: true };
    const { result } = await attempt(sourceless, destination, { ...erase, ...changes }).exported;
    expect(await readRows(job, result, all)).toEqual(before.filter(isOther));
    for (const { key, bytes } of result.files) {
      expect((await readAll(destination, key))?.length).toBe(bytes);
    }
  });

  it('of every row leaves no file', async () => {
    const only = { includeEvents: ['event 0'] };
    const job = whole({ request: { ...firstJob().request, ...only } });
    const first = await attempt(bench, destination, job).exported;
    const by = { column: 'event', value: 'event 0' };
    const erase = eraseAfter(job, first, { erased: by });
    const { result } = await attempt(sourceless, destination, erase).exported;
    expect(result).toMatchObject({ rows: 0, files: [], rejectedFiles: [] });
    const none = { files: [], total_rows: 0, generation: 2 };
    expect(await readManifest(destination)).toMatchObject(none);
  });

  it('commits nothing if no file has the value, unless another commit may still come', async () => {
    const job = whole();
    const first = await attempt(bench, destination, job).exported;
    const stranger = { column: 'distinct_id', value: 'a stranger' };
    const none = eraseAfter(job, first, { erased: stranger });
    const unchanged = attempt(sourceless, destination, none);
    const { result, replaced } = await unchanged.exported;
    expect(unchanged.asked).not.toContain('commit');
    expect(result).toMatchObject({ files: first.result.files, generation: 1 });
    expect(replaced).toEqual([]);
    const sealing = eraseAfter(job, first, { erased: stranger, mayBeOvertaken: true });
    const sealed = await attempt(sourceless, destination, sealing).exported;
    expect(sealed.result.files).toEqual(first.result.files);
    expect(sealed.replaced).toEqual([]);
    expect(await readManifest(destination)).toMatchObject({ generation: 2, run_id: sealing.runId });
  });

  it('stays at the place of the files if the export has another prefix since', async () => {
    const job = whole();
    const erase = eraseAfter(job, await attempt(bench, destination, job).exported);
    expect(erase.current?.manifestKey).toBe(manifestKey(job.names));
    await attempt(sourceless, destination, erase).exported;
    expect(await readableKeys(destination)).toContain(manifestPath);
  });

  it.each([
    ['a file is missing', (key: string) => destination.deleteFiles([key])],
    [
      'a file has other bytes',
      (key: string) => destination.commitManifest(key, Buffer.from('x'), null),
    ],
    [
      'the manifest is another one',
      async () => {
        const manifest = await readManifest(destination);
        const { etag } = (await destination.statFile(manifestPath)) ?? {};
        const other = Buffer.from(JSON.stringify({ ...manifest, files: [] }));
        await destination.commitManifest(manifestPath, other, etag ?? null);
      },
    ],
    ['the manifest is missing', () => destination.deleteFiles([manifestPath])],
  ])('changes nothing if %s', async (_, spoil) => {
    const job = whole();
    const first = await attempt(bench, destination, job).exported;
    const key = first.result.files[0]?.key ?? '';
    if (_ === 'a file has other bytes') await destination.deleteFiles([key]);
    await spoil(key);
    const keys = await readableKeys(destination);
    const erase = attempt(sourceless, destination, eraseAfter(job, first));
    expect(await codeOf(erase.exported)).toBe('destination.files_differ');
    expect(erase.asked).not.toContain('commit');
    expect(await readableKeys(destination)).toEqual(keys);
  });

  it('in an Iceberg table replaces the files with the rows, and keeps the entries of the others', async () => {
    const table = tableBelow(bucket, firstJob().exportId);
    const settings = { file_format: 'Parquet', table_format: 'iceberg' };
    const job = firstJob({ encoding: encodingOf(settings), table, maxFileBytes: 6_000 });
    const first = await attempt(bench, destination, job).exported;
    const read = await readByIcebird(destination, 'p');
    const { result } = await attempt(sourceless, destination, eraseAfter(job, first)).exported;
    const uuids = (found: readonly Record<string, unknown>[]) =>
      found.map(({ uuid }) => uuid).toSorted();
    expect(uuids(await readByIcebird(destination, 'p'))).toEqual(
      uuids(read.filter((row) => row.distinct_id !== person)),
    );
    expect(await table.verify(destination, result.files)).toEqual([]);
  });
});
