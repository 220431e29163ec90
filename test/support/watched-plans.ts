import { Client, types } from 'pg';
import {
  joinTransaction,
  type Sql,
  type Transactor,
} from '../../src/state/store/database/database.ts';

/** What one statement read, also those of triggers and foreign keys. */
export interface WatchedPlan {
  readonly text: string;
  /** Relations that it read from end to end. */
  readonly scanned: readonly string[];
  /** Rows that it looked at, in tables and indexes. */
  readonly rows: number;
  /** Pages that it touched. */
  readonly pages: number;
  /** Its nodes, with their indexes. */
  readonly nodes: string;
}

interface PlanNode {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Index Name'?: string;
  readonly 'Actual Rows': number;
  readonly 'Actual Loops': number;
  readonly 'Rows Removed by Filter'?: number;
  readonly 'Rows Removed by Index Recheck'?: number;
  readonly 'Shared Hit Blocks': number;
  readonly 'Shared Read Blocks': number;
  readonly Plans?: readonly PlanNode[];
}

/** Plans as the server chooses them: with the values of the parameters, or without. */
export type PlanMode = 'force_custom_plan' | 'force_generic_plan';

/**
 * Does `work` in a transaction, which is rolled back, and reports the plan of each statement that it ran. The
 * plans are those of the execution itself: the server's `auto_explain` sends them.
 */
export async function watchPlans(
  url: string,
  mode: PlanMode,
  work: (db: Transactor) => Promise<unknown>,
): Promise<readonly WatchedPlan[]> {
  const client = new Client({ connectionString: url, types: { getTypeParser: parserOf } });
  const plans: WatchedPlan[] = [];
  client.on('notice', ({ message }) => {
    const json = /^duration: .* plan:\n(\{.*\})$/s.exec(message ?? '')?.[1];
    if (json !== undefined) plans.push(toWatched(JSON.parse(json)));
  });
  await client.connect();
  try {
    for (const statement of [
      `load 'auto_explain'`,
      'set auto_explain.log_analyze = on; set auto_explain.log_timing = off; set auto_explain.log_buffers = on',
      `set auto_explain.log_format = json; set auto_explain.log_nested_statements = on`,
      `set auto_explain.log_level = notice; set timezone = 'UTC'; set plan_cache_mode = ${mode}`,
      'begin',
      'set auto_explain.log_min_duration = 0',
    ]) {
      await client.query(statement);
    }
    const sql: Sql = {
      async query<Row extends object>(text: string, values: readonly unknown[] = []) {
        return (await client.query<Row>({ text, values: [...values] })).rows;
      },
    };
    await work(joinTransaction(sql));
    // The server reports a statement once the next one begins.
    await client.query('rollback');
    return plans;
  } finally {
    await client.end();
  }
}

/** As our own pool reads them. */
function parserOf(oid: number, format?: 'text' | 'binary') {
  if (oid === types.builtins.INT8) return Number;
  if (oid === types.builtins.TIMESTAMPTZ)
    return (text: string) => `${text.replace(' ', 'T').slice(0, -3)}Z`;
  return types.getTypeParser(oid, format as 'text');
}

function toWatched(logged: {
  readonly 'Query Text': string;
  readonly Plan: PlanNode;
}): WatchedPlan {
  const nodes = flatten(logged.Plan);
  return {
    text: logged['Query Text'],
    scanned: nodes.flatMap((node) =>
      node['Node Type'] === 'Seq Scan' && node['Actual Loops'] > 0
        ? (node['Relation Name'] ?? [])
        : [],
    ),
    rows: nodes
      .filter((node) => /Scan$/.test(node['Node Type']) && node['Relation Name'] !== undefined)
      .map(
        (node) =>
          (node['Actual Rows'] +
            (node['Rows Removed by Filter'] ?? 0) +
            (node['Rows Removed by Index Recheck'] ?? 0)) *
          node['Actual Loops'],
      )
      .reduce((sum, rows) => sum + rows, 0),
    nodes: nodes
      .map((node) => [node['Node Type'], node['Index Name'] ?? node['Relation Name']].join(' '))
      .join(' > '),
    pages: logged.Plan['Shared Hit Blocks'] + logged.Plan['Shared Read Blocks'],
  };
}

function flatten(node: PlanNode): readonly PlanNode[] {
  return [node, ...(node.Plans ?? []).flatMap(flatten)];
}
