import type { Client } from 'pg';
import { type Instant, toTimestamp } from '../../../foundation/domain/time.ts';
import { newClient } from './client.ts';

/** The table of the built-in `events` model. */
export const eventsTableSql = `
  create table if not exists events (
    uuid uuid primary key,
    team_id int not null,
    event text,
    distinct_id text,
    properties jsonb,
    person_id uuid,
    person_properties jsonb,
    elements_chain text,
    timestamp timestamptz,
    created_at timestamptz,
    inserted_at timestamptz not null default now()
  );
  create index if not exists events_team_id_inserted_at on events (team_id, inserted_at);
`;

/**
 * Creates the `events` table if it is missing and the role's search path leads to a schema in which it may; an existing one is
 * left unchanged. Many processes may call it at once.
 */
export async function ensureEventsTable(connectionString: string): Promise<void> {
  await withClient(connectionString, 'sluice-migrate', async (client) => {
    const { rows } = await client.query<{ is_missing: boolean }>(
      `select to_regclass('events') is null and has_schema_privilege(current_schema(), 'create') as is_missing`,
    );
    if (!rows[0]?.is_missing) return;
    // Two processes that both found nothing: the second waits here.
    await client.query(`begin; select pg_advisory_xact_lock(7140551092); ${eventsTableSql} commit`);
  });
}

/** No setting of the role ends a session, or makes its statements wait for a compiler. */
const noLimits = `set statement_timeout = 0; set jit = off; set exit_on_error = off; set lock_timeout = 0;
  set idle_session_timeout = 0; set idle_in_transaction_session_timeout = 0; set standard_conforming_strings = on;
  set default_transaction_isolation = 'read committed'`;

/** Opens a connection for `work`, and closes it afterwards. */
export async function withClient<T>(
  connectionString: string,
  applicationName: string,
  work: (client: Client) => Promise<T>,
): Promise<T> {
  const client = newClient({ connectionString, applicationName, connectTimeoutMs: 10_000 });
  // A connection that breaks between two statements fails the next one, not the process.
  client.on('error', () => {});
  await client.connect();
  try {
    await client.query(noLimits);
    return await work(client);
  } finally {
    await client.end();
  }
}

/** Counts the events of a team that arrived before `end`. */
export async function countEvents(
  connectionString: string,
  teamId: number,
  { start, end }: { readonly start: Instant; readonly end: Instant },
): Promise<number> {
  return withClient(connectionString, 'sluice-count', async (client) => {
    const { rows } = await client.query<{ n: string }>(
      'select count(*) as n from events where team_id = $1 and inserted_at >= $2 and inserted_at < $3',
      [teamId, toTimestamp(start), toTimestamp(end)],
    );
    return Number(rows[0]?.n ?? 0);
  });
}
