import pg from 'pg';
import { poolSqlOf } from './sql.ts';

/** Sessions of a source database, whose transactions a test opens and ends as it needs them. */
const sessions: pg.Client[] = [];

/** Ended by `endSessions`. */
export async function openSession(url: string): Promise<pg.Client> {
  const session = new pg.Client(url);
  sessions.push(session);
  await session.connect();
  return session;
}

export async function endSessions(): Promise<void> {
  await Promise.all(sessions.splice(0).map((session) => session.end()));
}

/** One event of team 1. */
export const insertEvent = (session: pg.Client, name: string) =>
  session.query(`INSERT INTO events (uuid, team_id, event) VALUES (gen_random_uuid(), 1, $1)`, [
    name,
  ]);

/** The time of the database, which gives `inserted_at`: milliseconds since 1970. */
export async function timeOf(pool: pg.Pool | pg.Client): Promise<number> {
  const { rows } = await poolSqlOf(pool)<{ ms: number }>`SELECT ceil(extract(epoch
    FROM clock_timestamp()) * 1000)::float8 AS ms`;
  return rows[0]?.ms ?? 0;
}

/** Whether the name of a pending transaction is its virtual id. */
export const isVirtual = (name: string) => /^\d+\/\d+/.test(name);
