/** What one interval costs the source's server: statements, counted by pg_stat_statements. */

import { timeOf } from '../../support/source-sessions.ts';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { createPostgresSource } from '../../../src/rows/sources/index.ts';
import type { Source, SourceRequest } from '../../../src/rows/sources/source.ts';
import { type OwnPostgres, startOwnPostgres } from '../../support/postgres-server.ts';
import { createEvents, eventsRequest, insertEvents, readAll } from '../../support/source-tables.ts';
import { until } from '../../support/until.ts';
import { readConfig } from '../../../src/foundation/config/config.ts';
import { eventsModel } from '../../../src/foundation/domain/events-model.ts';
import { createLogger } from '../../../src/foundation/telemetry/logger.ts';
import { createMetrics } from '../../../src/foundation/telemetry/metrics.ts';
import { joinSources } from '../../../src/main/models.ts';
import { watchSources } from '../../../src/main/watch-sources.ts';
import { createEmptyDatabase } from '../../support/database.ts';
import { openRunSide, type RunSide } from '../../support/run-side.ts';
import { useStage } from '../../support/use-stage.ts';
import { asRole } from '../../support/template-database.ts';

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
  const url = asRole(server.adminUrl, 'reader');
  source = createPostgresSource({ connectionString: url, keepConnectionMs: 60_000 });
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

/** Settling at a server on which no other transaction writes. */
describe('a quiet server', () => {
  let server: OwnPostgres;
  let reader: pg.Client;
  let writer: pg.Client;

  beforeAll(async () => {
    server = await startOwnPostgres({ fsync: 'off', autovacuum: 'off' });
    [reader, writer] = [new pg.Client(server.url), new pg.Client(server.url)];
    await Promise.all([reader.connect(), writer.connect()]);
  });
  afterAll(async () => {
    await Promise.all([reader?.end(), writer?.end()]);
    await server?.stop();
  });

  test('a transaction that was prepared before an interval is not what an open one without writes became', async () => {
    await writer.query('CREATE TABLE events (id int)');
    // From here on, no transaction with a later id completes.
    await writer.query(`BEGIN; INSERT INTO events VALUES (1); PREPARE TRANSACTION 'earlier'`);
    await reader.query('BEGIN; SELECT FROM events');
    const end = (await timeOf(writer)) + 1;
    let looks = 0;
    const source = createPostgresSource({
      ...{ connectionString: server.url, applicationName: 'quiet settling' },
      ...{ settlePollMs: 20, settleTimeoutMs: 5_000, onSettleLook: () => (looks += 1) },
    });
    const settling = source.settle({ start: end, end }, never);
    await until(() => looks > 3, { message: 'it waits for the reader' });
    await reader.query('COMMIT');
    expect(await settling).toMatchObject({ settled: true, pending: [] });
    await writer.query(`COMMIT PREPARED 'earlier'`);
  });
});

describe('a source that is looked at', () => {
  const source = useStage(createEmptyDatabase);
  const side = useStage(openRunSide);

  /** Sessions that were ever opened at the source. */
  async function countSessions(): Promise<number> {
    const name = new URL(source.url).pathname.slice(1);
    const [row] = await side.sql<{ sessions: number }>`
      select sessions from pg_stat_database where datname = ${name}`;
    return Number(row?.sessions);
  }

  test('a source is looked at once for all of its models, and again only while runs need it', async () => {
    const models = ['events', ...Array.from({ length: 10 }, (_, n) => `model_${n}`)].map(
      (name) => ({ model: { ...eventsModel, name }, sourceUrl: null, primaryUrl: null }),
    );
    const { url } = source;
    let looks = 0;
    // Each round begins with a look at our own database.
    const db: RunSide['db'] = {
      ...side.db,
      query: (text, values) => {
        if (text.startsWith('select distinct model')) looks += 1;
        return side.db.query(text, values);
      },
    };
    const metrics = createMetrics();
    const watch = watchSources(
      {
        ...{ db, models, metrics, logger: createLogger('silent', { role: 'test' }) },
        sourceOf: joinSources(readConfig({}), models, url),
      },
      50,
    );
    const untilRounds = (more: number) => {
      const wanted = looks + more;
      return until(() => looks >= wanted);
    };
    onTestFinished(() => watch.close());
    await untilRounds(2);
    expect(await countSessions()).toBe(1);
    expect((await metrics.source.clockOffsetSeconds.get()).values).toHaveLength(models.length);
    await untilRounds(5);
    expect(await countSessions()).toBe(1);
    await side.createExport();
    await side.decide();
    await until(async () => (await countSessions()) > 2);
    await side.sql`update runs set status = 'Cancelled', finished_at = now() - interval '1 hour'`;
    await untilRounds(2);
    const before = await countSessions();
    await untilRounds(5);
    expect(await countSessions()).toBe(before);
    expect(watch.fault()).toBe(null);
  });
});
