import type { Sql } from '../database/database.ts';

/** Counts the log entries and the errors of runs of an export that quote a value of a row, such as the key of a rejected one. */
export async function countQuotes(sql: Sql, exportId: string, value: string): Promise<number> {
  const inJson = JSON.stringify(value).slice(1, -1);
  const forms = [...new Set([value, inJson])].map(escapeForPattern);
  // `7` is not quoted by `17 rows`.
  const pattern = `(^|[^[:alnum:]])(${forms.join('|')})($|[^[:alnum:]])`;
  const [row] = await sql.query<{ count: number }>(
    `select (select count(*) from log_entries where export_id = $1 and message ~ $2)
          + (select count(*) from runs where export_id = $1 and latest_error ~ $2) as count`,
    [exportId, pattern],
  );
  return row?.count ?? 0;
}

/** PostgreSQL takes a punctuation mark after a backslash as itself. */
const escapeForPattern = (text: string): string => text.replace(/[!-/:-@[-`{-~]/g, '\\$&');
