import { afterAll, afterEach, beforeAll, beforeEach, expect, it, onTestFinished } from 'vitest';
import { describeError } from '../../../src/foundation/domain/describe-error.ts';
import { toSluiceError } from '../../../src/foundation/domain/errors.ts';
import { readAll } from '../../conformance/destination-suite.ts';
import {
  attempt,
  encodingOf,
  firstJob,
  type IntervalBench,
  type OpenedDestination,
  openedBy,
  openIntervalBench,
  readableKeys,
  readManifest,
} from '../../support/interval-bench.ts';

let bench: IntervalBench;
let opened: OpenedDestination;

beforeAll(async () => {
  bench = await openIntervalBench(40);
  await bench.database.pool.query(
    `update events set created_at = case event when 'event 1' then 'infinity'::timestamptz else '-infinity' end
      where event in ('event 1', 'event 2')`,
  );
  await bench.database.pool.query(
    `update events set properties = '{"n": "NaN"}' where properties ->> 'n' = '3'`,
  );
});
afterAll(() => bench?.drop());
beforeEach(async () => {
  opened = await openedBy.File();
});
afterEach(() => opened.close());

const parquet = encodingOf({ file_format: 'Parquet' });

/** Exports the hour, and keeps what the run logs. */
function run(changes: Parameters<typeof firstJob>[0]) {
  const logged: string[] = [];
  const log = (level: string, message: string) => void logged.push(`${level} ${message}`);
  return { logged, ...attempt(bench, opened.destination, firstJob(changes), { log }) };
}

it('logs a warning for each reason with its rows and the key of the first', async () => {
  const { exported, logged } = run({ encoding: parquet });
  const { result } = await exported;
  expect([result.rows, result.rejectedRows]).toEqual([14, 26]);
  const warnings = logged.filter((line) => line.startsWith('WARNING'));
  expect(warnings).toHaveLength(2);
  for (const [index, word] of ['infinity', '-infinity'].entries()) {
    expect(warnings[index]).toMatch(
      new RegExp(
        `^WARNING 13 rows were rejected. Column created_at: ${word} has no Parquet timestamp. The first: {"uuid":"[-0-9a-f]{36}"}`,
      ),
    );
  }
});

it('fails before it commits anything if the export allows no rejected row', async () => {
  const { exported, asked } = run({ encoding: parquet, onRejected: 'fail' });
  const error = toSluiceError(await exported.catch((thrown: unknown) => thrown));
  expect(error.code).toBe('run.rows_rejected');
  expect(error.spec).toMatchObject({ fault: 'customer', retryable: false });
  expect(error.detail).toMatch(
    /13 rows were rejected. Column created_at: .*"uuid":".*26 rows in all/,
  );
  expect(asked).not.toContain('commit');
  expect(await readableKeys(opened.destination)).toEqual([]);
});

it('reads no row if a column that is to be DECIMAL is not one of numeric', async () => {
  const decimal_columns = ['event decimal(9,2)', 'total decimal(9,2)'];
  const config = { file_format: 'Parquet', decimal_columns };
  const { exported, asked } = run({ encoding: encodingOf(config) });
  const error = toSluiceError(await exported.catch((thrown: unknown) => thrown));
  expect(error.code).toBe('destination.decimal_mismatch');
  expect(error.spec).toMatchObject({ fault: 'customer', retryable: false });
  expect(error.detail).toBe(
    'event is text, not numeric; the rows have no column total. Columns of type numeric: none',
  );
  expect(asked).not.toContain('commit');
  expect(await readableKeys(opened.destination)).toEqual([]);
});

it('completes an export that allows no rejected row if there is none', async () => {
  const { request } = firstJob();
  const { exported } = run({
    encoding: parquet,
    onRejected: 'fail',
    request: { ...request, includeEvents: ['event 0'] },
  });
  expect((await exported).result.rows).toBe(14);
});

it.each([
  ['null', [null, null]],
  ['limit', ['9999-12-31T23:59:59.999999Z', '0001-01-01T00:00:00.000000Z']],
  ['reject', ['infinity', '-infinity']],
] as const)('writes infinite times as the export says: %s', async (infinity, [high, low]) => {
  const { exported, logged } = run({ encoding: encodingOf({ infinity }) });
  const { result } = await exported;
  expect(result.recipe).toEqual(
    expect.objectContaining(infinity === 'reject' ? { format: 'JSONLines' } : { infinity }),
  );
  const [file] = (await readManifest(opened.destination)).files;
  const lines = (await readAll(opened.destination, file?.key ?? ''))?.toString().trim().split('\n');
  const found = new Map(
    (lines ?? []).map((line) => JSON.parse(line)).map((row) => [row.event, row.created_at]),
  );
  expect([found.get('event 1'), found.get('event 2')]).toEqual([high, low]);
  expect(found.get('event 0')).toMatch(/^2024-03-01T00:/);
  expect(logged.filter((line) => line.startsWith('WARNING'))).toEqual([]);
});

it.each(['null', 'limit'])(
  'keeps all rows of a Parquet file if infinity becomes %s',
  async (infinity) => {
    const encoding = encodingOf({ file_format: 'Parquet', infinity });
    const { exported } = run({ encoding });
    const { result } = await exported;
    expect([result.rows, result.rejectedRows]).toEqual([40, 0]);
  },
);

it.each(['JSONLines', 'CSV', 'Parquet'] as const)(
  'writes no row of too deep JSON to %s: the run fails with its key, column and remedy',
  async (file_format) => {
    const deepen = (levels: number) =>
      bench.database.pool.query(
        `update events set properties = (repeat('[', $1) || repeat(']', $1))::jsonb
          where uuid = (select min(uuid::text)::uuid from events)`,
        [levels],
      );
    const encoding = encodingOf({ file_format });
    onTestFinished(() => deepen(1).then(() => {}));
    await deepen(1_001);
    const { exported } = run({ encoding });
    const error = toSluiceError(await exported.catch((thrown: unknown) => thrown));
    expect(describeError(error)).toMatch(
      /^source\.json_too_deep: .*column properties of the row with the key \{"uuid":"[-0-9a-f]{36}"\} has more than 1,000 levels.* drop the property/,
    );
    expect(error.spec).toMatchObject({ fault: 'customer', retryable: false });
    expect(await readableKeys(opened.destination)).toEqual([]);
    // Not selected, or as deep as is allowed.
    const { request } = firstJob();
    const without = { ...request, dslQuery: 'SELECT uuid, event FROM events' };
    expect((await run({ encoding, request: without }).exported).result.rows).toBe(40);
    await deepen(1_000);
    const { result } = await run({ encoding, generation: 2 }).exported;
    expect(result.rows + result.rejectedRows).toBe(40);
  },
);
