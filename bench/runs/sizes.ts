import type pg from 'pg';

/** Reported by each connection when it is idle for a while, and by the worker's when it ends. */
const settleMs = 2_000;

const mib = 1_048_576;

/**
 * What the runs left in the tables, the queue's too: Markdown, a line for each table that is larger than 64 KiB or was updated
 * often. Then each table is rewritten, for the size that its rows need.
 */
export async function printSizes(pool: pg.Pool): Promise<string> {
  await new Promise((resolve) => setTimeout(resolve, settleMs));
  const { rows } = await pool.query<Sizes>(
    `select relid::regclass::text as name, pg_table_size(relid)::int8::float8 as heap, pg_indexes_size(relid)::float8 as indexes,
            n_live_tup::float8 as live, n_dead_tup::float8 as dead, n_tup_upd::float8 as updates, n_tup_hot_upd::float8 as hot, autovacuum_count::int as vacuums
       from pg_stat_user_tables where schemaname in ('public', 'bullmq') and relname not in ('events', 'bare_runs')
      order by pg_total_relation_size(relid) desc`,
  );
  const shown = rows.filter(
    ({ heap, indexes, updates }) => heap + indexes > 65_536 || updates > 100,
  );
  const lines: string[] = [];
  for (const row of shown) {
    await pool.query(`vacuum full ${row.name}`);
    const { rows: after } = await pool.query<{ bytes: number }>(
      `select pg_total_relation_size($1::regclass)::float8 as bytes`,
      [row.name],
    );
    const bytes = row.heap + row.indexes;
    const cells = [
      `\`${row.name}\``,
      (row.heap / mib).toFixed(1),
      (row.indexes / mib).toFixed(1),
      (bytes / (after[0]?.bytes || 1)).toFixed(2),
      String(row.live),
      String(row.dead),
      String(row.updates),
      row.updates > 0 ? `${Math.round((row.hot / row.updates) * 100)} %` : '',
      String(row.vacuums),
    ];
    lines.push(`| ${cells.join(' | ')} |`);
  }
  const head = [
    'table',
    'rows, MiB',
    'indexes, MiB',
    'times its rows',
    'live rows',
    'dead rows',
    'updates',
    'HOT',
    'autovacuums',
  ];
  return [`| ${head.join(' | ')} |`, `|${head.map(() => '---|').join('')}`, ...lines].join('\n');
}

interface Sizes {
  readonly name: string;
  readonly heap: number;
  readonly indexes: number;
  readonly live: number;
  readonly dead: number;
  readonly updates: number;
  readonly hot: number;
  readonly vacuums: number;
}
