import type { Client } from 'pg';
import { type Instant, toTimestamp } from '../../../foundation/domain/time.ts';
import { newClient } from './client.ts';

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

/** If the role's search path leads to a schema in which it may. Many processes may call it at once. */
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

interface EventsRequest {
  readonly teamId: number | string;
  readonly rows: number;
  /** The rows' arrival times are spread evenly over this half-open range. */
  readonly range: { readonly start: number; readonly end: number };
}

const batch = 50_000;

/**
 * Like those of a product-analytics SDK, about 1 kB each; the table is created if it is missing.
 * @param progress called with the number of rows written so far
 */
export async function generateEvents(
  connectionString: string,
  request: EventsRequest,
  progress: (rows: number) => void = () => {},
): Promise<void> {
  await ensureEventsTable(connectionString);
  await withClient(connectionString, 'sluice-generate', async (client) => {
    const { teamId, rows, range } = request;
    for (let done = 0; done < rows; done += batch) {
      await client.query(insertSql, [
        teamId,
        done,
        Math.min(done + batch, rows) - 1,
        rows,
        toTimestamp(range.start),
        toTimestamp(range.end),
      ]);
      progress(Math.min(done + batch, rows));
    }
    await client.query('analyze events');
  });
}

const insertSql = `
  insert into events (uuid, team_id, event, distinct_id, properties, person_id, person_properties,
                      elements_chain, timestamp, created_at, inserted_at)
  select gen_random_uuid(), $1::int,
         (array['$pageview', '$pageview', '$pageview', '$autocapture', '$autocapture', '$pageleave',
                'signed up', 'file uploaded', 'invoice paid', 'report opened'])[1 + n % 10],
         'user-' || person,
         jsonb_build_object(
           '$current_url', 'https://app.example.com/' || (array['home', 'reports', 'billing', 'settings'])[1 + n % 4] || '/' || n % 977,
           '$host', 'app.example.com', '$browser', (array['Chrome', 'Firefox', 'Safari', 'Edge'])[1 + person % 4],
           '$browser_version', 100 + person % 40, '$os', (array['Mac OS X', 'Windows', 'Linux', 'iOS', 'Android'])[1 + person % 5],
           '$screen_width', 1280 + 64 * (person % 10), '$screen_height', 720 + 36 * (person % 10),
           '$lib', 'web', '$lib_version', '1.96.1', '$session_id', md5('session' || person || n / 5000),
           '$device_id', md5('device' || person), '$referrer', 'https://search.example.org/?q=' || md5(n::text),
           'plan', (array['free', 'team', 'enterprise'])[1 + person % 3], 'amount', round((n % 9973) * 1.37, 2),
           'title', 'Quarterly "results" — Überblick ' || n % 113, 'path', E'C:\\\\data\\\\' || n % 31,
           'tags', jsonb_build_array('a', n % 7, null, true), 'note', E'line one\\nline two'),
         md5('person' || person)::uuid,
         jsonb_build_object('email', 'user-' || person || '@example.com', 'name', 'Zoë ' || person,
           'plan', (array['free', 'team', 'enterprise'])[1 + person % 3], 'created_at', '2024-01-15T09:30:00Z',
           'initial_referrer', 'https://search.example.org/', 'company', 'Company ' || person % 211),
         case when n % 10 in (3, 4) then 'button.primary:attr__id="save"nth-child="2"nth-of-type="1"text="Save";form:nth-child="1";div;body' else '' end,
         at - interval '2 seconds', at - interval '1 second', at
    from (select n, (n * 7919) % 5003 as person,
                 $5::timestamptz + ($6::timestamptz - $5::timestamptz) * ((n + 0.5) / $4::float8) as at
            from generate_series($2::bigint, $3::bigint) as n) as g`;
