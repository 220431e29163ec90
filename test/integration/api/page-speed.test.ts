import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Database, Sql } from '../../../src/store/database.ts';
import { findLatestRuns } from '../../../src/store/latest-runs.ts';
import { listLogEntries } from '../../../src/store/log-lists.ts';
import { listRuns } from '../../../src/store/run-lists.ts';
import { type ApiUnderTest, startApiUnderTest } from '../../support/api-under-test.ts';
import { exportBody } from '../../support/batch-export-bodies.ts';

/** `SPEED_ROWS` makes it as big as wanted; the bound below is for a million. */
const logRows = Number(process.env.SPEED_ROWS ?? 200_000);
const runRows = logRows / 10;

let api: ApiUnderTest;
let exportId: string;

beforeAll(async () => {
  api = await startApiUnderTest();
  exportId = (await api.client.post(`${api.project}/batch_exports`, exportBody())).body.id;
  const team = api.tenant.projectIds[0];
  await api.db.query(
    `insert into log_entries (team_id, export_id, level, message)
     select $1, $2, (array['DEBUG','INFO','INFO','INFO','ERROR'])[1 + n % 5], 'line ' || n from generate_series(1, $3) n`,
    [team, exportId, logRows],
  );
  await api.db.query(
    `insert into runs (export_id, team_id, status, data_interval_start, data_interval_end, created_at, finished_at)
     select $2, $1, 'Completed', t, t + interval '1 minute', t, t
       from generate_series(1, $3) n, lateral (select timestamptz '2020-01-01Z' + n * interval '1 minute' as t) at`,
    [team, exportId, runRows],
  );
  await api.db.query('vacuum analyze log_entries');
  await api.db.query('vacuum analyze runs');
});
afterAll(() => api.stop());

/** Explains what a read asks, and how long Postgres took over it; the best of three. */
async function explain(read: (sql: Sql) => Promise<unknown>) {
  const plans: string[] = [];
  let milliseconds = Number.POSITIVE_INFINITY;
  for (let attempt = 0; attempt < 3; attempt += 1) {
    let total = 0;
    await read(explaining(api.db, plans, (ms) => (total += ms)));
    milliseconds = Math.min(milliseconds, total);
  }
  return { plan: plans.join('\n'), milliseconds };
}

function explaining(db: Database, plans: string[], took: (ms: number) => void): Sql {
  return {
    async query<Row extends object>(text: string, values: readonly unknown[] = []) {
      const lines = await db.query<{ 'QUERY PLAN': string }>(`explain analyze ${text}`, values);
      const plan = lines.map((line) => line['QUERY PLAN']).join('\n');
      plans.push(plan);
      took(Number(/Execution Time: ([\d.]+)/.exec(plan)?.[1]));
      return db.query<Row>(text, values);
    },
  };
}

const logs = { runId: null, levels: null, after: null, before: null, search: null };

test.each([
  ['logs, page 1', null, 0],
  ['logs, page 1,000', null, 99_900],
  ['logs of one level', ['ERROR'] as const, 20_000],
  ['logs of three levels', ['ERROR', 'INFO', 'DEBUG'] as const, 20_000],
])(
  '%s: an index gives it in under 20 ms, the true count with it',
  async (_what, levels, offset) => {
    const page = { limit: 100, offset };
    const request = { ...logs, exportId, levels };
    const { plan, milliseconds } = await explain((sql) => listLogEntries(sql, request, page));
    expect(plan).not.toMatch(/Seq Scan on log_entries/);
    expect(milliseconds, plan).toBeLessThan(20);
    const { count, results } = await listLogEntries(api.db, request, page);
    expect(count).toBe(levels?.length === 1 ? logRows / 5 : logRows);
    expect(results).toHaveLength(100);
  },
);

test.each(['created_at', 'data_interval_start'] as const)(
  'runs by %s, first page and one far back: an index gives each in under 20 ms',
  async (orderBy) => {
    const request = {
      exportId,
      statuses: null,
      createdAfter: null,
      createdBefore: null,
      intervalStart: null,
      intervalEnd: null,
      orderBy,
      descending: true,
      limit: 100,
    };
    const far = {
      direction: 'next',
      at: '2020-01-02T00:00:00.000000Z',
      id: '00000000-0000-4000-8000-000000000000',
    } as const;
    for (const place of [null, far]) {
      const { plan, milliseconds } = await explain((sql) => listRuns(sql, { ...request, place }));
      expect(plan).toMatch(/Index Scan/);
      expect(plan).not.toMatch(/Seq Scan|Sort Key/);
      expect(milliseconds, plan).toBeLessThan(20);
    }
  },
);

test('the latest runs of a whole page are one query', async () => {
  let queries = 0;
  const counting: Sql = {
    query<Row extends object>(text: string, values?: readonly unknown[]) {
      queries += 1;
      return api.db.query<Row>(text, values);
    },
  };
  const latest = await findLatestRuns(counting, [exportId, crypto.randomUUID()], 10);
  expect(queries).toBe(1);
  expect(latest.get(exportId)).toHaveLength(10);
});
