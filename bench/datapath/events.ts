export const createEvents = `
  CREATE TABLE events (
    uuid uuid PRIMARY KEY, team_id int NOT NULL, event text NOT NULL, distinct_id text NOT NULL,
    properties jsonb NOT NULL, person_id uuid, person_properties jsonb, elements_chain text,
    "timestamp" timestamptz NOT NULL, created_at timestamptz NOT NULL,
    inserted_at timestamptz NOT NULL DEFAULT now())`;

/** Events of about 1 kB; a FROM clause with `n` and `at` follows. */
export const insertEvents = `
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
         at, at, at FROM`;
