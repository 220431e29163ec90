import pg from 'pg';

/** One hour, however many rows. */
export const interval = {
  start: Date.parse('2024-03-01T00:00:00Z'),
  end: Date.parse('2024-03-01T01:00:00Z'),
};

/** The team whose rows are exported. */
export const teamId = 1;

const columns =
  'uuid, event, properties, distinct_id, person_id, person_properties, elements_chain, "timestamp", created_at, inserted_at';

/** The rows of the team, by its index; what the ways that are not ours read. */
export const selectEvents = `SELECT ${columns} FROM events WHERE team_id = ${teamId} AND inserted_at >= to_timestamp(${interval.start / 1000}) AND inserted_at < to_timestamp(${interval.end / 1000})`;

/** Events of about 1 kB: `rows` of the team that is exported, and half as many of another between them. */
export async function fillEvents(url: string, rows: number): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    await client.query(createTable);
    await client.query(insertRows, [Math.ceil(rows * 1.5), interval.start / 1000]);
    await client.query('CREATE INDEX ON events (team_id, inserted_at)');
    await client.query('VACUUM ANALYZE events');
  } finally {
    await client.end();
  }
}

const createTable = `
  CREATE TABLE events (
    uuid uuid PRIMARY KEY, team_id int NOT NULL, event text NOT NULL, distinct_id text NOT NULL,
    properties jsonb NOT NULL, person_id uuid, person_properties jsonb, elements_chain text,
    "timestamp" timestamptz NOT NULL, created_at timestamptz NOT NULL,
    inserted_at timestamptz NOT NULL DEFAULT now())`;

const insertRows = `
  INSERT INTO events
  SELECT gen_random_uuid(), 1 + (n % 3 = 2)::int,
         (ARRAY['$pageview', '$autocapture', 'signed up', 'purchased', '$identify'])[1 + n % 5],
         'user-' || n * 7919 % 50000 || '@example.com',
         jsonb_build_object(
           '$browser', (ARRAY['Chrome', 'Safari', 'Firefox'])[1 + n % 3], '$os', 'Mac OS X',
           '$current_url', 'https://app.example.com/project/' || n % 977 || '/insights?q=' || md5(n::text),
           '$lib', 'web', '$lib_version', '1.96.1', '$screen_height', 1080, '$screen_width', 1920,
           '$session_id', gen_random_uuid(), '$referrer', 'https://www.google.com/',
           '$ip', '10.0.' || n % 255 || '.1', 'amount', n % 10000 / 100.0,
           '$insert_id', md5((n * 3)::text), 'title', 'Größe “' || n || '”',
           'utm_source', CASE WHEN n % 7 = 0 THEN 'newsletter' END),
         gen_random_uuid(),
         jsonb_build_object('email', 'user-' || n * 7919 % 50000 || '@example.com', 'plan',
           (ARRAY['free', 'pro', 'scale'])[1 + n % 3], 'name', 'User ' || n, 'created', at),
         CASE WHEN n % 5 = 1 THEN 'button.primary:text="Save ""it"""; div.container' ELSE '' END,
         at, at, at
    FROM generate_series(0, $1::bigint - 1) n,
         LATERAL (SELECT to_timestamp($2) + n * interval '3600 s' / $1 AS at) t`;
