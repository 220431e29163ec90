import { afterEach, describe, expect, it } from 'vitest';
import type { Destination } from '../../../src/rows/destinations/destination.ts';
import { eventsModel } from '../../../src/foundation/domain/events-model.ts';
import type { IntervalJob, PinnedChain } from '../../../src/rows/pipeline/interval-job.ts';
import { digestOfSchema } from '../../../src/rows/pipeline/manifest.ts';
import { findTransform } from '../../../src/rows/transforms/index.ts';
import { compileStep } from '../../../src/rows/transforms/step.ts';
import { readAll } from '../../conformance/destination-suite.ts';
import { createPostgresSource, planModels } from '../../../src/rows/sources/index.ts';
import { readByIcebird, snapshotsOf } from '../../support/icebird.ts';
import {
  attempt,
  deliveredKeys,
  encodingOf,
  firstJob,
  jobAfter,
  openIntervalBench,
  readManifest,
  readableKeys,
  tableBelow,
} from '../../support/interval-bench.ts';
import { firstByDay, isNightly } from '../../support/nightly.ts';
import { openStore } from '../../support/s3-destination.ts';
import type { S3Quirks } from '../../support/s3-server/quirks.ts';
import { inTest, useStage } from '../../support/use-stage.ts';

const rows = 50;
const signal = new AbortController().signal;
const bench = useStage(() => openIntervalBench(0));

afterEach(() => bench.database.sql`truncate events`);

/** A store to which a first run has exported the rows, unless it has a source of its own. */
async function deliver(job: IntervalJob, quirks: S3Quirks = {}) {
  await bench.addEvents(rows);
  const { destination } = await inTest(openStore({ quirks }));
  await destination.probe(signal);
  const first = await attempt(bench, destination, job).exported;
  return { destination, first, keys: await readableKeys(destination) };
}

const bytesOf = (destination: Destination, files: readonly { readonly key: string }[]) =>
  Promise.all(files.map(({ key }) => readAll(destination, key)));

/** @param isWanted of the names of events */
async function sourceKeys(
  isWanted: (event: string) => boolean = () => true,
): Promise<readonly string[]> {
  const found = await bench.database.sql<{ uuid: string; event: string }>`
    select uuid, event from events`;
  return found.rows.flatMap(({ uuid, event }) => (isWanted(event) ? [uuid] : []));
}

/** Nearly all rows leave the source, one of the others is changed, and one comes late. @returns its key */
async function changeSource(): Promise<string> {
  const { pool } = bench.database;
  await pool.query(
    `delete from events where uuid in (select uuid from events order by inserted_at limit ${rows - 5})`,
  );
  await pool.query(
    `update events set event = 'changed' where uuid = (select max(uuid::text)::uuid from events where event <> $1)`,
    [dropped],
  );
  const late = await pool.query<{ uuid: string }>(
    `insert into events (uuid, team_id, event, inserted_at)
     values (gen_random_uuid(), 1, 'late', '2024-03-01T00:59:59Z') returning uuid`,
  );
  return late.rows[0]?.uuid ?? '';
}

const transform = findTransform(2);
if (!transform) throw new Error('there is no plugin that filters events');
const dropped = 'event 2';
/** Drops events of a name. */
const chain: PinnedChain = {
  steps: [compileStep({ id: 1, name: null, config: { events: dropped } }, transform)],
  recipe: [{ config: 1, version: 1, digest: 'digest' }],
};

/** In what a supplement is made, beside the format. */
const circumstances: Readonly<
  Record<string, { readonly job?: Partial<IntervalJob>; readonly quirks?: S3Quirks }>
> = {
  'to a plain bucket': {},
  'through a chain': { job: { chain } },
  'at a store without conditional writes': { quirks: { ifNoneMatch: 'ignore', ifMatch: 'ignore' } },
  'without a manifest': { job: { writesManifest: false } },
};

const formats = {
  Parquet: { file_format: 'Parquet', compression: 'zstd' },
  JSONLines: { file_format: 'JSONLines', compression: 'gzip' },
  CSV: { file_format: 'CSV' },
};
const allCases = Object.entries(formats).flatMap(([format, config]) =>
  Object.entries(circumstances).map(([how, given]) => ({ format, config, how, ...given })),
);
/** Circumstances change nothing of a format: by day Parquet has all of them. `late-rows.test.ts` has JSON Lines. */
const isByDay = ({ format, how }: (typeof allCases)[number]) =>
  format === 'Parquet' || (format === 'CSV' && how === 'to a plain bucket');
const cases = isNightly ? allCases : allCases.filter(isByDay);

describe('a supplement', () => {
  it.each(cases)(
    'adds the late row in $format $how, and takes nothing',
    async ({ config, job: changes = {}, quirks = {} }) => {
      const job = firstJob({ encoding: encodingOf(config), ...changes });
      const isWanted = (event: string) => job.chain === null || event !== dropped;
      const { destination, first, keys: before } = await deliver(job, quirks);
      const bytes = await bytesOf(destination, first.result.files);
      const wanted = await sourceKeys(isWanted);
      const late = await changeSource();
      const left = await sourceKeys();

      const again = jobAfter(job, first, { purpose: 'supplement', generation: 2 });
      const { result, replaced } = await attempt(bench, destination, again).exported;
      expect(replaced).toEqual([]);
      expect(result).toMatchObject({ rows: 1, madeFiles: 1, keyCount: left.length });
      expect((await deliveredKeys(destination, job, result)).toSorted()).toEqual(
        [...wanted, late].toSorted(),
      );
      expect(result.files.slice(0, -1)).toEqual(first.result.files);
      expect(await bytesOf(destination, first.result.files)).toEqual(bytes);
      const keys = await readableKeys(destination);
      expect(keys).toEqual([...before, result.files.at(-1)?.key].toSorted());
      if (job.writesManifest) {
        const manifest = await readManifest(destination);
        const { files } = manifest;
        expect(result.recipe.schemaDigest).toBe(digestOfSchema(manifest.schema));
        expect(manifest).toMatchObject({ generation: 2, total_rows: wanted.length + 1 });
        expect(files.map(({ generation }) => generation)).toEqual([1, 2]);
      }

      // Nothing came since: nothing is written, and the second one sees what the first one added.
      const third = jobAfter(again, { result, replaced }, { generation: 3 });
      const nothing = await attempt(bench, destination, third).exported;
      expect(nothing.result).toMatchObject({ rows: 0, madeFiles: 0, files: result.files });
      expect(await readableKeys(destination)).toEqual(keys);
    },
  );

  it('is refused, like a whole run, if the interval column is a date and the interval ends within a day', async () => {
    const job = firstJob();
    const { destination, first, keys } = await deliver(job);
    await bench.database.sql`
      alter table events add day date generated always as ((inserted_at at time zone 'UTC')::date) stored`;
    const source = createPostgresSource({
      connectionString: bench.database.url,
      plan: planModels([{ ...eventsModel, intervalColumn: 'day' }]),
    });
    const refused = {
      code: 'source.model_invalid',
      detail: expect.stringMatching(/^the interval column is a date, .* end at midnight in UTC/),
    };
    for (const purpose of ['whole', 'supplement'] as const) {
      const again = jobAfter(job, first, { purpose });
      await expect(attempt({ source }, destination, again).exported).rejects.toMatchObject(refused);
    }
    expect(await readableKeys(destination)).toEqual(keys);
    const [start, end] = ['2024-03-01T00:00:00Z', '2024-03-02T00:00:00Z'].map(Date.parse);
    const interval = { start: start ?? 0, end: end ?? 0 };
    const request = { ...job.request, interval };
    const ofDay = await attempt({ source }, destination, firstJob({ interval, request })).exported;
    expect(ofDay.result.rows).toBe(rows);
    await bench.database.sql`alter table events drop day`;
  });

  it('adds nothing if rows only left, and says so', async () => {
    const job = firstJob();
    const { destination, first, keys } = await deliver(job);
    await bench.database.sql`truncate events`;
    const logged: string[] = [];
    const log = (_: string, message: string) => void logged.push(message);
    const again = jobAfter(job, first, { purpose: 'supplement' });
    const { result } = await attempt(bench, destination, again, { log }).exported;
    expect(result).toMatchObject({ totalRows: 0, keyCount: 0, files: first.result.files });
    expect(await readableKeys(destination)).toEqual(keys);
    expect(logged.join()).toContain(
      `${rows} delivered rows are no longer in the source; they stay.`,
    );
  });

  it('of an export without a manifest adds a file beside the others', async () => {
    const job = firstJob({ writesManifest: false });
    const { destination, first } = await deliver(job);
    const delivered = await sourceKeys();
    const late = await changeSource();
    const again = jobAfter(job, first, { purpose: 'supplement', generation: 2 });
    const added = await attempt(bench, destination, again).exported;
    expect(await readableKeys(destination)).toEqual(
      added.result.files.map(({ key }) => key).toSorted(),
    );
    expect((await deliveredKeys(destination, job, added.result)).toSorted()).toEqual(
      [...delivered, late].toSorted(),
    );
    // A run of the whole interval replaces the first file in place, and the other one is left over.
    const whole = jobAfter(job, added, { dropsMissing: true, generation: 3 });
    const { result, replaced } = await attempt(bench, destination, whole).exported;
    expect(result.files.map(({ key }) => key)).toEqual(first.result.files.map(({ key }) => key));
    expect(replaced.map(({ key }) => key)).toEqual(
      added.result.files.slice(1).map(({ key }) => key),
    );
  });

  it('is an append to an Iceberg table', async () => {
    const config = { file_format: 'Parquet', compression: 'zstd', table_format: 'iceberg' };
    const table = tableBelow('exports', firstJob().exportId);
    const job = firstJob({ encoding: encodingOf(config), table });
    const { destination, first } = await deliver(job);
    await changeSource();
    const again = jobAfter(job, first, { purpose: 'supplement' });
    await attempt(bench, destination, again).exported;
    expect(await readByIcebird(destination, 'p')).toHaveLength(rows + 1);
    expect(await snapshotsOf(destination, 'p')).toHaveLength(2);
  });

  it.each(firstByDay(1, ['splits', 'does not split']))(
    'of an interval whose export %s its files keeps the order of parts',
    async (how) => {
      const job = firstJob({ maxFileBytes: how === 'splits' ? 2_000 : null });
      const { destination, first } = await deliver(job);
      const late = await changeSource();
      const again = jobAfter(job, first, { purpose: 'supplement' });
      const { result } = await attempt(bench, destination, again).exported;
      const keys = await deliveredKeys(destination, job, result);
      expect(keys).toHaveLength(rows + 1);
      expect(keys.at(-1)).toBe(late);
    },
  );
});

describe('a run that makes an interval anew', () => {
  it.each(firstByDay(1, Object.entries(formats)))(
    'is refused in %s if it lacks delivered rows, and nothing changes',
    async (_, config) => {
      const job = firstJob({ encoding: encodingOf(config), dropsMissing: false });
      const { destination, first, keys } = await deliver(job);
      const before = await readManifest(destination);
      await changeSource();
      const refused = attempt(bench, destination, jobAfter(job, first));
      await expect(refused.exported).rejects.toMatchObject({
        code: 'source.rows_missing',
        message: expect.stringMatching(
          /50 rows are delivered, 6 rows are in the new files, and 45 delivered rows are missing/,
        ),
      });
      expect(refused.asked).not.toContain('commit');
      expect(await readManifest(destination)).toEqual(before);
      expect(await readableKeys(destination)).toEqual(keys);

      const asked = jobAfter(job, first, { dropsMissing: true, generation: 3 });
      expect((await attempt(bench, destination, asked).exported).result.rows).toBe(6);
    },
  );

  it('goes on if rows only came or changed', async () => {
    const job = firstJob({ dropsMissing: false });
    const { destination, first } = await deliver(job);
    await bench.addEvents(3);
    await bench.database.sql`update events set event = 'changed'`;
    const { result } = await attempt(bench, destination, jobAfter(job, first)).exported;
    expect(result.rows).toBe(rows + 3);
  });

  it('is refused if a delivered file cannot be read and the rows are others', async () => {
    const job = firstJob({ dropsMissing: false });
    const { destination, first } = await deliver(job);
    await destination.deleteFiles(first.result.files.map(({ key }) => key));
    // The same rows: a file that somebody deleted comes back.
    const restored = await attempt(bench, destination, jobAfter(job, first)).exported;
    expect(restored.result.rows).toBe(rows);
    await destination.deleteFiles(restored.result.files.map(({ key }) => key));
    await changeSource();
    const other = attempt(bench, destination, jobAfter(job, restored));
    await expect(other.exported).rejects.toMatchObject({
      code: 'source.rows_missing',
      message: expect.stringContaining('cannot be known: '),
    });
  });
});
