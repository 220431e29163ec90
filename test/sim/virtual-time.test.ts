import { expect, test } from 'vitest';
import { toTimestamp } from '../../src/foundation/domain/time.ts';
import { readNow } from '../../src/state/store/intervals/ticks.ts';
import { reportWorker } from '../../src/state/store/runs/workers.ts';
import { openLane } from './simulate.ts';
import { inTest } from '../support/use-stage.ts';

test("the store's SQL and the columns' defaults have the time that is set", async () => {
  const lane = await inTest(openLane(null));
  const then = Date.UTC(2001, 1, 3);
  await lane.sim.setTime(then);
  expect(await readNow(lane.db)).toBe(then);
  await reportWorker(lane.db, 'a worker', 1);
  const sql = 'select started_at as "startedAt", now() from workers';
  const now = toTimestamp(then);
  expect(await lane.db.query(sql)).toEqual([{ startedAt: now, now }]);
});

test('no default of a column calls the real clock', async () => {
  const lane = await inTest(openLane(null));
  // `sim` is searched first: what it shadows is printed with its schema.
  const sql = `select adrelid::regclass, pg_get_expr(adbin, adrelid) from pg_attrdef
      where pg_get_expr(adbin, adrelid) ~* 'current_(time|date)|pg_catalog\\.(now|clock_timestamp|gen_random_uuid)\\('`;
  expect(await lane.db.query(sql)).toEqual([]);
});
