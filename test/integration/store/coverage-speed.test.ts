import { timelineOf } from '../../../src/service/scheduling/timeline.ts';
import { beforeAll, expect, it } from 'vitest';
import { toTimestamp } from '../../../src/foundation/domain/time.ts';
import { findCoverage, findHoles } from '../../../src/state/store/intervals/coverage.ts';
import type { Sql } from '../../../src/state/store/database/database.ts';
import { coverageOf } from '../../../src/service/use-cases/exports/read-coverage.ts';
import { allowBriefReceipts } from '../../support/brief-receipts.ts';
import { createExportOfThePast, hourMs } from '../../support/run-side.ts';
import { until } from '../../support/until.ts';
import { useRunSide } from '../../support/use-run-side.ts';

const side = useRunSide();
beforeAll(() => allowBriefReceipts(side.db));

it('two years of hours come from one pass over an index, and many holes from few rows', async () => {
  const years = 17_544;
  const item = await createExportOfThePast(side, { createdMsAgo: years * hourMs });
  const first = item.schedule.openIntervalStart;
  // The triggers of a table without statistics read all of it for each row.
  const portion = 1_000;
  for (let from = 0; from < years; from += portion) {
    await side.db.query(
      `with made as (
         insert into runs (export_id, team_id, status, data_interval_start, data_interval_end, finished_at)
         select $1, $2, case when n % 1000 = 7 then 'Failed' else 'Completed' end,
                $3::timestamptz + n * interval '1 h', $3::timestamptz + (n + 1) * interval '1 h', now()
           from generate_series($4::int, $5::int) n
         returning id, status, data_interval_start, data_interval_end)
       insert into receipts (export_id, data_interval_start, data_interval_end, run_id, files, rows, bytes, settled)
       select $1, data_interval_start, data_interval_end, id, '[]', 1, 1, true from made where status = 'Completed'`,
      [item.id, side.teamId, toTimestamp(first), from, Math.min(from + portion, years) - 1],
    );
    if (from === 0) await side.db.query('analyze receipts, runs');
  }
  // As autovacuum leaves it; a snapshot that is open elsewhere puts it off.
  await until(async () => {
    await side.db.query('vacuum analyze receipts');
    const [row] = await side.db.query<{ done: boolean }>(
      `select relallvisible >= relpages * 0.99 as done from pg_class where oid = 'receipts'::regclass`,
    );
    return row?.done;
  });
  const range = { start: first, end: first + years * hourMs };
  let plan = '';
  const explaining: Sql = {
    async query<Row extends object>(text: string, values: readonly unknown[] = []) {
      const lines = await side.db.query<{ 'QUERY PLAN': string }>(
        `explain (analyze, timing off, buffers) ${text}`,
        values,
      );
      plan += lines.map((line) => line['QUERY PLAN']).join('\n');
      return side.db.query<Row>(text, values);
    },
  };
  await findCoverage(explaining, item.id, range);
  expect(plan).toMatch(/Index Only Scan using receipts_pkey/);
  expect(plan).not.toMatch(/Seq Scan on receipts/);
  // The first line of buffers is that of the whole plan. The receipts themselves have over 900 blocks.
  const blocks =
    Number(/shared hit=(\d+)/.exec(plan)?.[1]) +
    Number(/shared hit=\d+ read=(\d+)/.exec(plan)?.[1] ?? 0);
  expect(blocks, plan).toBeLessThan(500);
  const ranges = await coverageOf(side.db, item, timelineOf(item.schedule, []), range);
  expect(ranges).toHaveLength(37);
  expect((await findHoles(side.db, item.id))?.missing).toEqual({
    count: 18,
    since: first + 7 * hourMs,
  });
});
