import type { Sql } from './database.ts';

export type LogLevel = 'DEBUG' | 'LOG' | 'INFO' | 'WARNING' | 'ERROR';

export const logLevels: readonly LogLevel[] = ['DEBUG', 'LOG', 'INFO', 'WARNING', 'ERROR'];

/** A line for the export's owner: no stack trace, no secret, nothing of another tenant. */
export interface NewLogEntry {
  readonly teamId: number;
  readonly exportId: string;
  readonly runId: string | null;
  readonly level: LogLevel;
  readonly message: string;
}

export async function appendLogEntries(sql: Sql, entries: readonly NewLogEntry[]): Promise<void> {
  if (entries.length === 0) return;
  await sql.query(
    `insert into log_entries (team_id, export_id, run_id, level, message)
     select * from unnest($1::int[], $2::uuid[], $3::uuid[], $4::text[], $5::text[])`,
    [
      entries.map((entry) => entry.teamId),
      entries.map((entry) => entry.exportId),
      entries.map((entry) => entry.runId),
      entries.map((entry) => entry.level),
      // Postgres text holds no NUL.
      entries.map((entry) => entry.message.replaceAll('\0', '\u2400')),
    ],
  );
}
