import { expect, test } from 'vitest';
import { toTimestamp } from '../../src/domain/time.ts';
import { readNow } from '../../src/store/ticks.ts';
import { openLane } from './simulate.ts';

test("the store's SQL and the columns' defaults have the time that is set", async () => {
  const lane = await openLane(null);
  try {
    const then = Date.UTC(2001, 1, 3);
    await lane.sim.setTime(then);
    expect(await readNow(lane.db)).toBe(then);
    await lane.db.query(`insert into workers (id, capacity) values ('a worker', 1)`);
    // `sim` is searched first: what is shadowed is printed with its schema.
    const rows = await lane.db.query(
      `select c.relname, pg_get_expr(d.adbin, d.adrelid) as text from pg_attrdef d join pg_class c on c.oid = d.adrelid
        where pg_get_expr(d.adbin, d.adrelid) ~* 'current_(time|date)|pg_catalog\\.(now|clock_timestamp|gen_random_uuid)\\('`,
    );
    expect(rows).toEqual([]);
  } finally {
    await lane.close();
  }
});
