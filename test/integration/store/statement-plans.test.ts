/** Any plan of PostgreSQL with default settings is good enough, for each statement of the store. */

import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { Client } from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { pinSession, plansOnce } from '../../../src/state/store/database/sessions.ts';
import { createExportOfThePast, openRunSide, type RunSide } from '../../support/run-side.ts';

const folder = path.resolve(import.meta.dirname, '../../statements');
const exportsInAll = 1_000;

interface Statement {
  readonly name: string;
  readonly types: readonly string[];
  readonly isPlannedOnce: boolean;
  readonly sql: string;
}

/** As `statements.test.ts` writes them. */
const statements: readonly Statement[] = readdirSync(folder).flatMap((file) =>
  readFileSync(path.join(folder, file), 'utf8')
    .split(/^(?=-- \w+\/[\w-]+\.ts )/m)
    .filter((part) => part.startsWith('-- '))
    .map((part) => {
      const [name = '', ...lines] = part.trim().split('\n');
      const takes = lines.find((line) => line.startsWith('-- takes ')) ?? '';
      return {
        name: name.slice(3),
        types: [...takes.matchAll(/\$\d+ ([^$]+?)(?=, \$|$)/g)].map(([, type = '']) => type),
        isPlannedOnce: lines.includes('-- is planned once'),
        sql: lines.filter((line) => !/^-- (takes|gives|is) /.test(line)).join('\n'),
      };
    }),
);

let side: RunSide;
let client: Client;

beforeAll(async () => {
  side = await openRunSide();
  const { id } = await createExportOfThePast(side);
  await side.db.query(
    `insert into batch_exports select (jsonb_populate_record(e, jsonb_build_object('id', gen_random_uuid()))).*
       from batch_exports e, generate_series(2, $2::int) where e.id = $1`,
    [id, exportsInAll],
  );
  await side.db.query(
    `with made as (
       insert into runs (export_id, team_id, data_interval_start, data_interval_end)
       select e.id, e.team_id, at, at + interval '1 hour'
         from batch_exports e, lateral (select date_trunc('hour', now(), 'UTC') - interval '30 hours' as at) t returning *
     )
     insert into outbox (run_id, team_id, export_id, data_interval_start, available_at, ready, small)
     select id, team_id, export_id, data_interval_start, now(), true, true from made`,
  );
  client = new Client({ connectionString: side.url });
  await client.connect();
  await pinSession(client);
});
afterAll(async () => {
  await client?.end();
  await side?.stop();
});

interface Explained {
  readonly Plan: PlanNode;
  readonly JIT?: unknown;
  readonly 'Execution Time': number;
}

interface PlanNode {
  readonly 'Total Cost': number;
  /** From PostgreSQL 18 on. */
  readonly Disabled?: boolean;
  readonly Plans?: readonly PlanNode[];
}

/** Until PostgreSQL 17 a node that a setting has disabled costs as much. */
const disabledCost = 1e10;

const isDisabled = (node: PlanNode): boolean =>
  node.Disabled === true ||
  node['Total Cost'] >= disabledCost ||
  (node.Plans ?? []).some(isDisabled);

/** In the session that it has in production, and a transaction that is rolled back; what a value of null makes fail is only planned. */
async function explain({ types, sql, isPlannedOnce }: Statement): Promise<readonly Explained[]> {
  const nulls = types.length === 0 ? '' : `(${types.map(() => 'null').join(', ')})`;
  await client.query(`prepare p${types.length === 0 ? '' : ` (${types.join(', ')})`} as ${sql}`);
  const plans: Explained[] = [];
  const seqscan = isPlannedOnce ? plansOnce.enable_seqscan : 'on';
  await client.query(`set enable_seqscan = ${seqscan}`);
  for (const mode of ['force_custom_plan', 'force_generic_plan']) {
    await client.query(`set plan_cache_mode = ${mode}`);
    await client.query('begin');
    const ask = (options: string) =>
      client.query<{ 'QUERY PLAN': readonly Explained[] }>(
        `explain (format json${options}) execute p${nulls}`,
      );
    plans.push(...((await ask('')).rows[0]?.['QUERY PLAN'] ?? []));
    const executed = await ask(', analyze').catch(() => null);
    plans.push(...(executed?.rows[0]?.['QUERY PLAN'] ?? []));
    await client.query('rollback');
  }
  await client.query('deallocate p');
  return plans;
}

const isPlanned = ({ sql }: Statement) => /^(with|select|insert|update|delete)\b/i.test(sql);

it('no statement is compiled, or has a plan with a disabled node, or takes long, beside 1,000 exports', async () => {
  expect(statements.length).toBeGreaterThan(200);
  const bad: string[] = [];
  let slowest = { name: '', ms: 0 };
  expect(statements.filter(({ isPlannedOnce }) => isPlannedOnce).length).toBeGreaterThan(3);
  for (const statement of statements.filter(isPlanned)) {
    for (const { Plan, JIT, 'Execution Time': ms = 0 } of await explain(statement)) {
      if (isDisabled(Plan)) bad.push(`${statement.name}: a disabled node`);
      if (JIT !== undefined) bad.push(`${statement.name}: compiled`);
      if (ms > slowest.ms) slowest = { name: statement.name, ms };
    }
  }
  expect(bad).toEqual([]);
  if (process.env.SPEED_STRICT === '1') expect(slowest.ms, slowest.name).toBeLessThan(50);
}, 120_000);
