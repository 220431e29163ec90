import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Database, Sql } from '../../../src/state/store/database/database.ts';
import { listLogEntries, type LogLevel } from '../../../src/state/store/exports/log-entries.ts';
import { findExportDetails } from '../../../src/state/store/exports/export-lists.ts';
import { listRuns } from '../../../src/state/store/runs/runs.ts';
import { type ApiUnderTest, startApiUnderTest } from '../../support/api-under-test.ts';
import { exportBody } from '../../support/batch-export-bodies.ts';
import { until } from '../../support/until.ts';

/** `SPEED_ROWS=1000000` is the size that the bounds are for. */
const logRows = Number(process.env.SPEED_ROWS ?? 150_000);
/** Times mean something on a quiet machine only; blocks read mean the same on any. */
const strict = process.env.SPEED_STRICT === '1';
const runRows = logRows / 10;

let api: ApiUnderTest;
let exportId: string;

beforeAll(async () => {
  api = await startApiUnderTest();
  exportId = (await api.client.post(`${api.project}/batch_exports`, exportBody())).body.id;
  const team = api.tenant.projectIds[0];
  const other = (await api.client.post(`${api.project}/batch_exports`, exportBody())).body.id;
  // In portions: a statement may take a minute at most.
  for (let first = 1; first <= logRows; first += 50_000) {
    await api.db.query(
      `insert into log_entries (team_id, export_id, level, message)
       select $1, owner, (array['DEBUG','INFO','INFO','INFO','ERROR'])[1 + n % 5], 'line ' || n
         from generate_series($4::int, $5::int) n, unnest(array[$2, $3]::uuid[]) owner`,
      [team, exportId, other, first, Math.min(first + 49_999, logRows)],
    );
  }
  await api.db.query(
    `insert into runs (export_id, team_id, status, data_interval_start, data_interval_end, created_at, finished_at)
     select $2, $1, 'Completed', t, t + interval '1 minute', t, t
       from generate_series(1, $3) n, lateral (select timestamptz '2020-01-01Z' + n * interval '1 minute' as t) at`,
    [team, exportId, runRows],
  );
  await vacuum('log_entries');
  await vacuum('runs');
});
afterAll(() => api.stop());

/** As autovacuum leaves a table; a snapshot that is open elsewhere puts it off. */
async function vacuum(table: string): Promise<void> {
  await until(async () => {
    await api.db.query(`vacuum analyze ${table}`);
    const [row] = await api.db.query<{ done: boolean }>(
      'select relallvisible >= relpages * 0.99 as done from pg_class where oid = $1::regclass',
      [table],
    );
    return row?.done;
  });
}

/** How Postgres gives what a read asks, and how long it takes: the median of several times. */
async function explain(read: (sql: Sql) => Promise<unknown>) {
  const plans: string[] = [];
  const milliseconds: number[] = [];
  for (let time = 0; time < (strict ? 11 : 1); time += 1) {
    plans.length = 0;
    await read(explaining(api.db, plans));
    milliseconds.push(sumOf(plans, /Execution Time: ([\d.]+)/));
  }
  milliseconds.sort((a, b) => a - b);
  return {
    plan: plans.join('\n'),
    milliseconds: milliseconds[milliseconds.length >> 1],
    // The first line of buffers is that of the whole plan.
    blocks: sumOf(plans, /shared hit=(\d+)/) + sumOf(plans, /Buffers:.* read=(\d+)/),
  };
}

function sumOf(plans: readonly string[], number: RegExp): number {
  return plans.reduce((sum, plan) => sum + Number(number.exec(plan)?.[1] ?? 0), 0);
}

function explaining(db: Database, plans: string[]): Sql {
  return {
    async query<Row extends object>(text: string, values: readonly unknown[] = []) {
      const lines = await db.query<{ 'QUERY PLAN': string }>(
        `explain (analyze, timing off, buffers) ${text}`,
        values,
      );
      const plan = lines.map((line) => line['QUERY PLAN']).join('\n');
      plans.push(plan);
      return db.query<Row>(text, values);
    },
  };
}

const logs = { runId: null, levels: null, after: null, before: null, search: null };

test.each<[string, readonly LogLevel[] | null, number, number]>([
  ['page 1', null, 0, 1_800],
  ['page 1,000', null, 99_900, 3_500],
  ['a page of one level', ['ERROR'], 20_000, 1_200],
  ['a page of three levels', ['ERROR', 'INFO', 'DEBUG'], 20_000, 2_700],
])('logs, %s: indexes give it, and a true count', async (_what, levels, offset, most) => {
  const page = { limit: 100, offset };
  const request = { ...logs, exportId, levels };
  const { plan, milliseconds, blocks } = await explain((sql) => listLogEntries(sql, request, page));
  expect(plan).not.toMatch(/Seq Scan on log_entries/);
  expect(blocks, plan).toBeLessThan(most);
  if (strict) expect(milliseconds, plan).toBeLessThan(20);
  const { count, results } = await listLogEntries(api.db, request, page);
  expect(count).toBe(levels?.length === 1 ? logRows / 5 : logRows);
  expect(results).toHaveLength(100);
});

test.each(['created_at', 'data_interval_start'] as const)(
  'runs by %s, first page and one far back: an index gives each, in order',
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
    for (const position of [null, far]) {
      const { plan, milliseconds, blocks } = await explain((sql) =>
        listRuns(sql, { ...request, position }),
      );
      expect(plan).toMatch(/Index Scan/);
      expect(plan).not.toMatch(/Seq Scan|Sort Key/);
      // Two for each row are of its element, found by an index.
      expect(blocks, plan).toBeLessThan(450);
      if (strict) expect(milliseconds, plan).toBeLessThan(20);
    }
  },
);

test('what a whole page shows of its exports is one query', async () => {
  let queries = 0;
  const counting: Sql = {
    query<Row extends object>(text: string, values?: readonly unknown[]) {
      queries += 1;
      return api.db.query<Row>(text, values);
    },
  };
  const details = await findExportDetails(counting, [exportId, crypto.randomUUID()]);
  expect(queries).toBe(1);
  expect(details.get(exportId)?.latestRuns).toHaveLength(10);
  expect(details.size).toBe(1);
});
