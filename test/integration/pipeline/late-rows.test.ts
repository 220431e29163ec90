import { afterEach, expect, it } from 'vitest';
import type { IntervalJob, RunPorts } from '../../../src/rows/pipeline/interval-job.ts';
import type { ExportedInterval } from '../../../src/rows/pipeline/export-interval.ts';
import { createPostgresSource, planModels } from '../../../src/rows/sources/index.ts';
import { eventsModel } from '../../../src/foundation/domain/events-model.ts';
import {
  attempt,
  deliveredKeys,
  encodingOf,
  firstJob,
  jobAfter,
  openIntervalBench,
  readableKeys,
} from '../../support/interval-bench.ts';
import { firstByDay } from '../../support/nightly.ts';
import { type OpenedStore, start } from '../../support/s3-destination.ts';
import { useStage } from '../../support/use-stage.ts';

/** Late rows of sources that change in stranger ways than those of `supplement.test.ts`. */

const rows = 20;
let store: OpenedStore;
const bench = useStage(() => openIntervalBench(0));
afterEach(() => bench.database.sql`truncate events`);

const query = (sql: string, values: readonly unknown[] = []) =>
  bench.database.pool.query<{ uuid: string }>(sql, [...values]);

/** Rows of a person that come late. @returns their keys */
async function addLate(person: string, count = 1, createdAt = '2024-03-01'): Promise<string[]> {
  const { rows: added } = await query(
    `insert into events (uuid, team_id, event, distinct_id, created_at, inserted_at)
     select gen_random_uuid(), 1, 'late', $1, $3::timestamptz, '2024-03-01T00:59:59Z'
       from generate_series(1, $2) returning uuid`,
    [person, count, createdAt],
  );
  return added.map(({ uuid }) => uuid);
}

/** Runs of one interval, one after the other. */
async function open(changes: Partial<IntervalJob> = {}, source = bench.source) {
  store = await start();
  const { destination } = store;
  await destination.probe(new AbortController().signal);
  let job = firstJob({ dropsMissing: false, ...changes });
  let generation = 1;
  let last: ExportedInterval | null = null;
  const logged: string[] = [];
  const ports: Partial<RunPorts> = { log: (_, message) => void logged.push(message) };
  return {
    destination,
    logged,
    async run(more: Partial<IntervalJob> = {}) {
      if (last) {
        generation += 1;
        const { keyDigest: digest, keyCount: count, snapshot, settled, pending } = last.result;
        const proof = { digest, count, snapshot, settled, pending };
        const current = { ...last.result, proof };
        job = jobAfter(job, last, { purpose: 'whole', erased: null, current, generation, ...more });
      }
      last = await attempt({ source }, destination, job, ports).exported;
      return last.result;
    },
    supplement() {
      return this.run({ purpose: 'supplement' });
    },
    /** Sorted. */
    async keys() {
      return last ? (await deliveredKeys(destination, job, last.result)).toSorted() : [];
    },
  };
}

it.each(
  firstByDay<Readonly<Record<string, unknown>>>(1, [
    { file_format: 'JSONLines' },
    { file_format: 'CSV', csv_header: false },
  ]),
)(
  'supplements, re-runs and erasures follow one another in %j, and each row is in the files once',
  async (config) => {
    await bench.addEvents(rows);
    const runs = await open({ encoding: encodingOf(config) });
    await runs.run();
    const first = await runs.keys();
    const one = await addLate('one', 2);
    await runs.supplement();
    const two = await addLate('two');
    await runs.supplement();
    expect(await runs.keys()).toEqual([...first, ...one, ...two].toSorted());
    expect((await runs.run()).files).toHaveLength(1);
    const three = await addLate('three');
    expect(await runs.supplement()).toMatchObject({ totalRows: 1 });
    await query('delete from events where distinct_id = $1', ['one']);
    const erased = { column: 'distinct_id', value: 'one' };
    await runs.run({ purpose: 'erase', erased });
    // Of the others many leave the source, and none is erased for that.
    await query(`delete from events where event like 'event%'`);
    const four = await addLate('four');
    expect(await runs.supplement()).toMatchObject({ totalRows: 1, rows: 1 });
    await query('delete from events where distinct_id = $1', ['four']);
    await runs.run({ purpose: 'erase', erased: { ...erased, value: 'four' } });
    expect(await runs.supplement()).toMatchObject({ totalRows: 0 });
    expect(await runs.keys()).toEqual([...first, ...two, ...three].toSorted());
    expect(four).toHaveLength(1);
    await expect(runs.run()).rejects.toMatchObject({ code: 'source.rows_missing' });
  },
);

it.each(firstByDay(1, [true, false]))(
  'an interval without rows gets late ones, with manifest: %s',
  async (writesManifest) => {
    const runs = await open({ writesManifest });
    expect(await runs.run()).toMatchObject({ files: [] });
    expect(await runs.supplement()).toMatchObject({ files: [] });
    const late = await addLate('one', 3);
    expect(await runs.supplement()).toMatchObject({ rows: 3, keyCount: 3 });
    expect(await runs.keys()).toEqual(late.toSorted());
  },
);

it('a late row that the format rejects is added once', async () => {
  await bench.addEvents(rows);
  const runs = await open({ encoding: encodingOf({ file_format: 'Parquet' }) });
  await runs.run();
  const first = await runs.keys();
  const late = await addLate('one', 2, 'infinity');
  expect(await runs.supplement()).toMatchObject({ rows: 0, rejectedRows: 2 });
  expect(await runs.supplement()).toMatchObject({ totalRows: 0 });
  expect(await runs.keys()).toEqual([...first, ...late].toSorted());
});

it('a row with the key of a delivered one is that row', async () => {
  await bench.addEvents(rows);
  const runs = await open();
  await runs.run();
  const first = await runs.keys();
  await query(`with gone as (delete from events returning uuid)
    insert into events (uuid, team_id, event, inserted_at) select uuid, 1, 'again', '2024-03-01T00:30:00Z' from gone`);
  expect(await runs.supplement()).toMatchObject({ totalRows: 0 });
  expect(await runs.keys()).toEqual(first);
});

it('rows that share their key with delivered ones wait for a person; late ones that share a key do not', async () => {
  await bench.addEvents(rows);
  await query('alter table events drop constraint events_pkey');
  const runs = await open();
  await runs.run();
  const first = await runs.keys();
  const [late = ''] = await addLate('one');
  await query('insert into events select * from events where uuid = $1', [late]);
  expect(await runs.supplement()).toMatchObject({ totalRows: 2 });
  expect(await runs.supplement()).toMatchObject({ totalRows: 0 });
  await query('insert into events select * from events where uuid = $1', [first[0]]);
  await expect(runs.supplement()).rejects.toMatchObject({ code: 'run.late_rows_wait' });
  expect(await runs.keys()).toEqual([...first, late, late].toSorted());
  await query(`truncate events; alter table events add primary key (uuid)`);
});

it.each(firstByDay(1, [true, false]))(
  'keys of another type wait for a person, with manifest: %s',
  async (writesManifest) => {
    await bench.addEvents(rows);
    const source = createPostgresSource({
      connectionString: bench.database.url,
      plan: planModels([{ ...eventsModel, onSchemaChange: 'follow' }]),
    });
    const runs = await open({ writesManifest }, source);
    await runs.run();
    const first = await runs.keys();
    await query('alter table events alter uuid type text using upper(uuid::text)');
    await expect(runs.supplement()).rejects.toMatchObject({
      code: 'run.late_rows_wait',
      message: expect.stringContaining('uuid text instead of uuid uuid'),
    });
    expect(await runs.keys()).toEqual(first);
    await query('alter table events alter uuid type uuid using uuid::uuid');
  },
);

it.each(firstByDay(1, ['a key may not read the files', 'the query leaves out the key']))(
  'late rows wait for a person if %s, who reads what is known',
  async (why) => {
    await bench.addEvents(rows);
    const denied = why.includes('may not read');
    const job = firstJob();
    const dslQuery = denied ? null : 'SELECT event FROM events';
    const runs = await open({ request: { ...job.request, dslQuery } });
    await runs.run();
    const before = await readableKeys(runs.destination);
    if (denied) {
      const effect = { status: 403, code: 'AccessDenied' };
      store.fault('GetObject', effect, { times: 1_000 });
    }
    await addLate('one', 2);
    await expect(runs.supplement()).rejects.toMatchObject({
      code: 'run.late_rows_wait',
      message: expect.stringContaining(
        `The source has ${rows + 2} rows now, and ${rows} were delivered, so at least 2 came late`,
      ),
    });
    expect(await readableKeys(runs.destination)).toEqual(before);
  },
);
