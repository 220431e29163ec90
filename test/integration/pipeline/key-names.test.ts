import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { expect, it, onTestFinished } from 'vitest';
import { encoders } from '../../../src/rows/encoders/index.ts';
import type { Destination } from '../../../src/rows/destinations/destination.ts';
import type { ExportedInterval } from '../../../src/rows/pipeline/export-interval.ts';
import type { IntervalJob, PinnedChain } from '../../../src/rows/pipeline/interval-job.ts';
import { keyOfRow } from '../../../src/rows/pipeline/row-keys.ts';
import { madeBy } from '../../../src/rows/pipeline/read-back.ts';
import { verifyFiles } from '../../../src/service/verify/verify-files.ts';
import type { Receipt } from '../../../src/state/store/intervals/receipts.ts';
import { findTransform } from '../../../src/rows/transforms/index.ts';
import { compileStep } from '../../../src/rows/transforms/step.ts';
import { codeOf } from '../../conformance/destination-suite.ts';
import { compressionsOf } from '../../support/compressions.ts';
import {
  attempt,
  encodingOf,
  firstJob,
  jobAfter,
  openedBy,
  openIntervalBench,
  receiptOf,
  rowsIn,
} from '../../support/interval-bench.ts';
import { firstByDay, isNightly } from '../../support/nightly.ts';
import { useStage } from '../../support/use-stage.ts';

/**
 * Files name a column as the query does: the data files, the lines of rejected rows, and all that reads them back. These tests
 * vary the names, the steps of the chain, the format and what is done with the files.
 */

const bench = useStage(() => openIntervalBench(0));

const query = (sql: string, values: readonly unknown[] = []) =>
  bench.database.pool.query<{ uuid: string }>(sql, [...values]);

/** Adds rows. `n` is no number in those that the rejecting step rejects. @returns their keys */
async function addRows(count: number, properties: string, person = 'someone'): Promise<string[]> {
  const { rows } = await query(
    `insert into events (uuid, team_id, event, distinct_id, properties, inserted_at)
     select gen_random_uuid(), 1, 'bought', $2, $3::jsonb, '2024-03-01T00:30:00Z'
       from generate_series(1, $1) returning uuid`,
    [count, person, properties],
  );
  return rows.map(({ uuid }) => uuid);
}

const good = '{"n": 1, "email": "a@b.c"}';
const bad = '{"n": "one", "email": "a@b.c"}';

function chainOf(names: readonly StepName[]): PinnedChain | null {
  if (names.length === 0) return null;
  const steps = names.map((name, index) => {
    const { plugin, config } = stepsByName[name];
    const transform = findTransform(plugin);
    if (!transform) throw new Error(`there is no plugin ${plugin}`);
    return compileStep({ id: index + 1, name, config }, transform);
  });
  const recipe = steps.map(({ id }) => ({ config: id, version: 1, digest: 'digest' }));
  return { steps, recipe };
}

const stepsByName = {
  drop: { plugin: 2, config: { events: 'unwanted' } },
  rename: { plugin: 4, config: { names: '{"email": "mail"}' } },
  mask: { plugin: 10, config: { properties: 'email' } },
  reject: {
    plugin: 9,
    config: { types: '{"n": "number"}', on_error: 'reject', max_error_share: '1' },
  },
} as const;
type StepName = keyof typeof stepsByName;

/** Names of outputs; some are those of other columns of the model, or of every JavaScript object. */
const aliases = ['id', 'uuid', 'event', 'distinct_id', 'Ключ "x"', 'constructor', '__proto__'];

interface Selected {
  readonly column: string;
  readonly alias: string;
}

const selected: fc.Arbitrary<readonly Selected[]> = fc
  .tuple(
    fc.shuffledSubarray(aliases, { minLength: 3 }),
    fc.shuffledSubarray(['uuid', 'uuid', 'distinct_id', 'event', 'created_at'], { minLength: 1 }),
  )
  .map(([names, columns]) =>
    columns
      .slice(0, names.length)
      .map((column, index) => ({ column, alias: names[index] as string })),
  );

const formats = encoders.flatMap((definition) =>
  compressionsOf(definition).map((compression) => ({
    file_format: definition.format,
    compression,
  })),
);

const given = fc.record({
  selected,
  steps: fc.shuffledSubarray(Object.keys(stepsByName) as StepName[]),
  config: fc.constantFrom(...formats),
  writesManifest: fc.boolean(),
});
type Given = typeof given extends fc.Arbitrary<infer T> ? T : never;

const quote = (name: string) => `"${name.replaceAll('"', '""')}"`;

function jobOf({ selected: all, steps, config, writesManifest }: Given): IntervalJob {
  const list = all.map(({ column, alias }) => `${column} AS ${quote(alias)}`);
  const dslQuery = `SELECT ${list.join(', ')}, properties AS props FROM events`;
  const { request } = firstJob();
  return firstJob({
    request: { ...request, dslQuery },
    encoding: encodingOf(config),
    chain: chainOf(steps),
    writesManifest,
    dropsMissing: false,
  });
}

/** Each value of a column in the current files, null for a null. Fails if a row does not have the column. */
async function valuesIn(
  destination: Destination,
  job: IntervalJob,
  result: ExportedInterval['result'],
  name: string,
): Promise<readonly string[]> {
  const columns = [{ name, type: 'text' as const }];
  const rows = await rowsIn(destination, job, result, columns);
  return rows.map(({ row }) => keyOfRow(row, columns)).toSorted();
}

/** What each purpose makes of one interval, one after the other. */
async function exportAll(one: Given): Promise<void> {
  await query('truncate events');
  const keys = [...(await addRows(5, good)), ...(await addRows(3, bad))];
  const { destination, close } = await openedBy.File();
  try {
    const names = one.selected.filter(({ column }) => column === 'uuid').map(({ alias }) => alias);
    const rejects = one.steps.includes('reject');
    let job = jobOf(one);
    let last = await attempt(bench, destination, job).exported;
    const run = async (changes: Partial<IntervalJob>) => {
      job = jobAfter(job, last, { erased: null, ...changes });
      // Without the digest of what is delivered, the keys decide.
      const current = job.current && { ...job.current, deliveredDigest: null };
      last = await attempt(bench, destination, { ...job, current }).exported;
      return last.result;
    };
    const expectKeys = async (wanted: readonly string[]) => {
      for (const name of names) {
        expect(await valuesIn(destination, job, last.result, name)).toEqual(wanted.toSorted());
      }
    };
    expect(last.result).toMatchObject({ rejectedRows: rejects ? 3 : 0 });
    await expectKeys(keys);

    if (names.length === 0) {
      const late = jobAfter(job, last, { purpose: 'supplement' });
      expect(await codeOf(attempt(bench, destination, late).exported)).toBe('run.late_rows_wait');
      return;
    }
    expect(await run({ purpose: 'supplement' })).toMatchObject({ rows: 0, madeFiles: 0 });
    keys.push(...(await addRows(1, good)), ...(await addRows(2, bad)));
    expect(await run({ purpose: 'supplement' })).toMatchObject({ totalRows: 3 });
    expect(await run({ purpose: 'supplement' })).toMatchObject({ totalRows: 0, madeFiles: 0 });
    await expectKeys(keys);

    // The files are made anew, though nothing has changed: other bytes.
    const others = formats.filter(({ file_format }) => file_format !== one.config.file_format);
    const [other = one.config] = others;
    if (one.writesManifest) await run({ purpose: 'whole', encoding: encodingOf(other) });
    await expectKeys(keys);

    const gone = keys.splice(6, 1);
    await query('delete from events where uuid = any ($1)', [gone]);
    const erased = { column: names.at(-1) as string, value: gone[0] as string };
    await run({ purpose: 'erase', erased });
    await expectKeys(keys);

    // The step was corrected: what it rejected is delivered.
    const steps = one.steps.filter((name) => name !== 'reject');
    const remade = await run({ purpose: 'whole', chain: chainOf(steps) });
    expect(remade).toMatchObject({ rows: keys.length, rejectedRows: 0, rejectedFiles: [] });
    await expectKeys(keys);
  } finally {
    await close();
  }
}

it('are those of the query in all files, whatever is done with these', async () => {
  await fc.assert(fc.asyncProperty(given, exportAll), { numRuns: isNightly ? 100 : 4 });
});

it.each(firstByDay(1, ['CSV', 'JSONLines', 'Parquet']))(
  'are those of the query in lines of %s rows that a step rejects',
  async (file_format) => {
    await exportAll({
      selected: [
        { column: 'uuid', alias: 'id' },
        { column: 'event', alias: 'uuid' },
      ],
      steps: ['reject'],
      config: { file_format, compression: null },
      writesManifest: true,
    });
  },
);

it.each(firstByDay(1, ['Parquet', 'JSONLines', 'CSV']))(
  'are read in %s by the query that made the files, if another query exchanges the names',
  async (file_format) => {
    await query('truncate events');
    await addRows(5, good);
    // Read by the wrong column, the delivered rows would be those that the source has later.
    const later = randomUUID();
    const { rows } = await query(
      `update events set person_id = case when uuid = (select min(uuid::text)::uuid from events)
         then $1::uuid else uuid end returning uuid`,
      [later],
    );
    const [gone] = rows.map(({ uuid }) => uuid).toSorted();
    const { destination, close } = await openedBy.File();
    onTestFinished(() => close());
    const { request } = firstJob();
    const encoding = encodingOf({ file_format });
    const dslQuery = 'SELECT uuid AS a, person_id AS b FROM events';
    const job = firstJob({ request: { ...request, dslQuery }, encoding, dropsMissing: false });
    const first = await attempt(bench, destination, job).exported;
    const exchanged = { ...request, dslQuery: 'SELECT person_id AS a, uuid AS b FROM events' };
    const remake = (changes: Partial<IntervalJob> = {}) =>
      attempt(bench, destination, jobAfter(job, first, { request: exchanged, ...changes }))
        .exported;
    await query('delete from events where uuid = $1', [gone]);
    await query(
      `insert into events (uuid, team_id, event, inserted_at) values ($1, 1, 'other', '2024-03-01T00:40:00Z')`,
      [later],
    );
    expect(await codeOf(remake())).toBe('source.rows_missing');
    await query(
      `insert into events (uuid, team_id, event, inserted_at) values ($1, 1, 'again', '2024-03-01T00:40:00Z')`,
      [gone],
    );
    expect((await remake()).result.rows).toBe(6);
  },
);

it('a search by a column that rejected rows lack counts these, and a comparison refuses them', async () => {
  await query('truncate events');
  await addRows(2, good);
  await addRows(3, bad);
  const { destination, close } = await openedBy.File();
  onTestFinished(() => close());
  const job = jobOf({
    selected: [
      { column: 'uuid', alias: 'id' },
      { column: 'distinct_id', alias: 'person' },
    ],
    steps: ['reject'],
    config: { file_format: 'JSONLines', compression: null },
    writesManifest: true,
  });
  const { result } = await attempt(bench, destination, job).exported;
  const receipt = { ...receiptOf(result), sideFiles: [] } as unknown as Receipt;
  const found: string[] = [];
  let passed = 0;
  const verify = (passOver: (() => void) | null) =>
    verifyFiles(
      { destination, readRows: job.readRows },
      receipt,
      madeBy(result.recipe),
      [{ name: 'person', type: 'text' }],
      (key) => found.push(key),
      passOver,
    );
  expect(
    await verify(() => {
      passed += 1;
    }),
  ).toEqual([]);
  expect([found, passed]).toEqual([['someone', 'someone'], 3]);
  await expect(verify(null)).rejects.toThrow('rejected rows have no person');
});
