import { Pool } from 'pg';
import { poolSqlOf } from './sql.ts';

/** How often each statement was executed, by its text. */
export type Calls = ReadonlyMap<string, number>;

/** Of one database of a server with pg_stat_statements. */
export interface StatementCounter {
  /** All calls so far, also BEGIN and COMMIT. */
  read(): Promise<Calls>;
  close(): Promise<void>;
}

/** @param ignored statements that are the test's own */
export async function openStatementCounter(
  url: string,
  ignored: RegExp,
): Promise<StatementCounter> {
  const pool = new Pool({ connectionString: url, max: 1 });
  await pool.query('create extension if not exists pg_stat_statements');
  return {
    async read() {
      const { rows } = await poolSqlOf(pool)<{ text: string; calls: number }>`
        select s.query as text, s.calls::int as calls from pg_stat_statements s
           join pg_database d on d.oid = s.dbid where d.datname = current_database()`;
      const calls = new Map<string, number>();
      for (const row of rows) {
        // A COPY keeps its values, so that each would be a statement of its own.
        const text = row.text
          .replace(/'[^']*'/g, "'…'")
          .replace(/\s+/g, ' ')
          .trim();
        const isOwn = text.includes('pg_stat_statements') || ignored.test(text);
        if (!isOwn) calls.set(text, (calls.get(text) ?? 0) + row.calls);
      }
      return calls;
    },
    close: () => pool.end(),
  };
}

/** The calls between two readings. */
export function callsBetween(before: Calls, after: Calls): Calls {
  const calls = [...after].map(([text, n]) => [text, n - (before.get(text) ?? 0)] as const);
  return new Map(calls.filter(([, n]) => n > 0));
}

/** Calls per run, less `times` what a service executes that has nothing to do. */
export function callsPerRun(calls: Calls, runs: number, idle: Calls, times: number): Calls {
  return new Map(
    [...calls].map(([text, n]) => [text, Math.max(0, n - times * (idle.get(text) ?? 0)) / runs]),
  );
}

export function sumCalls(calls: Calls): number {
  return [...calls.values()].reduce((sum, n) => sum + n, 0);
}

/** A line for each statement, the most frequent first. */
export function describeCalls(title: string, calls: Calls): string {
  const lines = [...calls]
    .filter(([, n]) => n >= 0.05)
    .toSorted(([, a], [, b]) => b - a)
    .map(([text, n]) => `${n.toFixed(2).padStart(8)}  ${text.slice(0, 150)}`);
  return [`${sumCalls(calls).toFixed(2).padStart(8)}  ${title}, in all`, ...lines].join('\n');
}
