/** What one interval costs the source's server: statements, counted by pg_stat_statements. */

import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createPostgresSource } from '../../../src/rows/sources/index.ts';
import type { Source, SourceRequest } from '../../../src/rows/sources/source.ts';
import { type OwnPostgres, startOwnPostgres } from '../../support/postgres-server.ts';
import { createEvents, eventsRequest, insertEvents, readAll } from '../../support/source-tables.ts';

const never = new AbortController().signal;
const day = '2024-03-01T00:00:00Z';
const hourOf = (team: number) => eventsRequest(team, day, '2024-03-01T01:00:00Z');

let server: OwnPostgres;
let admin: pg.Client;
let source: Source;

beforeAll(async () => {
  server = await startOwnPostgres({ shared_preload_libraries: 'pg_stat_statements' });
  admin = new pg.Client(server.adminUrl);
  await admin.connect();
  await admin.query(`CREATE EXTENSION pg_stat_statements; ${createEvents};
    CREATE ROLE reader LOGIN PASSWORD 'reader'; GRANT SELECT ON events TO reader;
    GRANT pg_read_all_stats TO reader`);
  await insertEvents(admin, { team: 2, start: day, count: 1_000, everyMs: 3_500 });
  await admin.query('ANALYZE events');
  const url = new URL(server.adminUrl);
  url.username = 'reader';
  url.password = 'reader';
  source = createPostgresSource({ connectionString: url.href, keepConnectionMs: 60_000 });
});

afterAll(async () => {
  await admin?.end();
  await server?.stop();
});

/** Settles, opens, counts and reads. @returns how many rows came */
async function readInterval(request: SourceRequest): Promise<number> {
  const settlement = await source.settle(request.interval, never);
  expect(settlement).toMatchObject({ settled: true });
  const snapshot = await source.open(request, never, settlement.position);
  const rows = (await readAll(snapshot, never)).reduce((sum, block) => sum + block.rowCount, 0);
  expect(rows).toBe(snapshot.totalCount);
  await snapshot.close();
  return rows;
}

/**
 * Statements of the source's role during `work`: all, and with their number of calls. A SET takes microseconds and no round trip,
 * so it does not count.
 */
async function countStatements(work: () => Promise<void>) {
  await admin.query('SELECT pg_stat_statements_reset()');
  await work();
  const { rows } = await admin.query<{ calls: number; text: string }>(
    `SELECT s.calls::int, left(regexp_replace(s.query, '\\s+', ' ', 'g'), 100) AS text
       FROM pg_stat_statements s JOIN pg_roles r ON r.oid = s.userid
      WHERE r.rolname = 'reader' AND s.query !~* '^set ' ORDER BY s.calls DESC, s.query`,
  );
  return {
    total: rows.reduce((sum, { calls }) => sum + calls, 0),
    list: rows.map(({ calls, text }) => `${calls} × ${text}`).join('\n'),
  };
}

test.each([
  ['an empty interval', 1, 0, 6],
  ['an interval of 1,000 rows', 2, 1_000, 7],
])('%s takes few statements', async (_, team, rows, most) => {
  // The first read of a process also learns the names of types.
  await readInterval(hourOf(team));
  // A look is made again if it meets autovacuum, or a session that has just answered, as this test's own, and does not yet wait
  // for its client (`isStirring`): a busy machine shows it.
  const counts = [];
  for (let time = 0; time < 3; time++) {
    const count = await countStatements(async () => {
      expect(await readInterval(hourOf(team))).toBe(rows);
    });
    counts.push(count);
  }
  const { total, list } = counts.reduce((least, count) =>
    count.total < least.total ? count : least,
  );
  expect(total, list).toBeLessThanOrEqual(most);
  expect(total, list).toBeGreaterThan(0);
});
