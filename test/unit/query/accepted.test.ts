import { describe, expect, test } from 'vitest';
import { eventsModel } from '../../../src/foundation/domain/events-model.ts';
import { printTimeText } from '../../../src/rows/query/time-text.ts';
import { binaryOperators, comparisons } from '../../../src/rows/query/allow-list.ts';
import { normalizedText, parseQuery, schemaOf } from '../../../src/rows/query/parse-query.ts';
import { describeSql } from '../../../src/rows/query/select.ts';

function read(text: string) {
  const result = parseQuery(text, eventsModel);
  if ('problems' in result) throw new Error(JSON.stringify(result.problems));
  return result.ok;
}

/** What the user writes, its normalised text (null: the same), what a server is sent. */
type Accepted = readonly [written: string, normalised: string | null, sent: string];

const names: readonly Accepted[] = [
  ['event', null, 'source."event"'],
  ['EVENT', 'event', 'source."event"'],
  ['events.event', 'event', 'source."event"'],
  ['timestamp', '"timestamp"', 'source."timestamp"'],
  ['properties.plan', null, `(source."properties" ->> 'plan')`],
  ['properties."$browser"', null, `(source."properties" ->> '$browser')`],
  ['properties.a.b."c d"', null, `(source."properties" -> 'a' -> 'b' ->> 'c d')`],
  [`properties."it's"`, null, `(source."properties" ->> 'it''s')`],
  ['properties."a\\b"', null, `(source."properties" ->> E'a\\\\b')`],
  ['properties."a"".b"', null, `(source."properties" ->> 'a".b')`],
  ['properties."select"', null, `(source."properties" ->> 'select')`],
  ['person_properties.é', 'person_properties."é"', `(source."person_properties" ->> 'é')`],
];

const literals: readonly Accepted[] = [
  ["'it''s'", null, "'it''s'"],
  ["$$it's$$", "'it''s'", "'it''s'"],
  ["$a$'); DROP TABLE x; --$a$", "'''); DROP TABLE x; --'", "'''); DROP TABLE x; --'"],
  ["E'a\\nb\\\\'", "E'a\\u000ab\\\\'", "E'a\\u000ab\\\\'"],
  ["'\\'", "E'\\\\'", "E'\\\\'"],
  ["U&'\\0041😀'", "'A😀'", "'A😀'"],
  ["''", null, "''"],
  ['0', null, '0'],
  ['- 1', '-1', '-1'],
  ['0x1F', '31', '31'],
  ['12345678901234567890', null, '12345678901234567890'],
  ['1.50', null, '1.50'],
  ['1e99', null, '1e99'],
  ['true', 'TRUE', 'TRUE'],
  ['NULL', null, 'NULL'],
];

const operators: readonly Accepted[] = [
  ['1 - (2 - 3)', null, '1 - (2 - 3)'],
  ['1 - 2 - 3', '(1 - 2) - 3', '(1 - 2) - 3'],
  ['1 + 2 * 3', '1 + (2 * 3)', '1 + (2 * 3)'],
  ['1 - -1', '1 - (-1)', '1 - (-1)'],
  ['- length(event)', null, '- pg_catalog.length(source."event")'],
  ["event != 'a'", "event <> 'a'", `source."event" <> 'a'`],
  [
    "properties -> 'a' ->> 'b'",
    "(properties -> 'a') ->> 'b'",
    `(source."properties" -> 'a') ->> 'b'`,
  ],
  ["properties #>> '{a,b}'", null, `source."properties" #>> '{a,b}'`],
  [`properties @> '{"a": 1}'`, null, `source."properties" @> '{"a": 1}'`],
  ["properties ?| ARRAY['a', 'b']", null, `source."properties" ?| ARRAY['a', 'b']`],
  ["event IN ('a', 'b')", null, `source."event" IN ('a', 'b')`],
  ["event = ANY (ARRAY['a'])", null, `source."event" = ANY (ARRAY['a'])`],
  ["event <> ALL ('{a}')", null, `source."event" <> ALL ('{a}')`],
  ['1 BETWEEN 0 AND 2', null, '1 BETWEEN 0 AND 2'],
  [
    '1 NOT BETWEEN SYMMETRIC 2 AND -1',
    '1 NOT BETWEEN SYMMETRIC 2 AND (-1)',
    '1 NOT BETWEEN SYMMETRIC 2 AND (-1)',
  ],
  ["event NOT ILIKE '%a'", null, `source."event" NOT ILIKE '%a'`],
  [
    "event LIKE 'a!%' ESCAPE '!'",
    "event LIKE like_escape('a!%', '!')",
    `source."event" LIKE pg_catalog.like_escape('a!%', '!')`,
  ],
  [
    'event IS DISTINCT FROM distinct_id',
    null,
    'source."event" IS DISTINCT FROM source."distinct_id"',
  ],
  ["(event = 'a') IS NOT TRUE", null, `(source."event" = 'a') IS NOT TRUE`],
  // Known printers lose these parentheses and with them the meaning.
  [
    "(NOT event = 'a') IS NULL",
    "(NOT (event = 'a')) IS NULL",
    `(NOT (source."event" = 'a')) IS NULL`,
  ],
  [
    'true BETWEEN (true AND false) AND true',
    'TRUE BETWEEN (TRUE AND FALSE) AND TRUE',
    'TRUE BETWEEN (TRUE AND FALSE) AND TRUE',
  ],
  [
    'true AND (false OR true) AND (true AND false)',
    'TRUE AND (FALSE OR TRUE) AND TRUE AND FALSE',
    'TRUE AND (FALSE OR TRUE) AND TRUE AND FALSE',
  ],
];

const calls: readonly Accepted[] = [
  ['lower(event)', null, 'pg_catalog.lower(source."event")'],
  ['pg_catalog.lower(event)', 'lower(event)', 'pg_catalog.lower(source."event")'],
  ['TRIM(LEADING FROM event)', 'ltrim(event)', 'pg_catalog.ltrim(source."event")'],
  [
    'SUBSTRING(event FROM 2 FOR 3)',
    'pg_catalog.substring(event, 2, 3)',
    'pg_catalog.substring(source."event", 2, 3)',
  ],
  [
    "POSITION('a' IN event)",
    "pg_catalog.position(event, 'a')",
    `pg_catalog.position(source."event", 'a')`,
  ],
  [
    'EXTRACT(year FROM timestamp)',
    `pg_catalog.extract('year', "timestamp")`,
    `pg_catalog.extract('year', source."timestamp")`,
  ],
  [
    "timestamp AT TIME ZONE 'Asia/Tokyo'",
    `timezone('Asia/Tokyo', "timestamp")`,
    `pg_catalog.timezone('Asia/Tokyo', source."timestamp")`,
  ],
  [
    "encode(sha256(convert_to(distinct_id, 'UTF8')), 'hex')",
    null,
    `pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(source."distinct_id", 'UTF8')), 'hex')`,
  ],
  ["lpad(event, 9, '0')", null, `pg_catalog.lpad(source."event", 9, '0')`],
  [
    "coalesce(properties.a, event, '')",
    "COALESCE(properties.a, event, '')",
    `COALESCE((source."properties" ->> 'a'), source."event", '')`,
  ],
  ["NULLIF(event, '')", null, `NULLIF(source."event", '')`],
  ['GREATEST(1, 2)', null, 'GREATEST(1, 2)'],
  ["CASE event WHEN 'a' THEN 1 END", null, `CASE source."event" WHEN 'a' THEN 1 END`],
  [
    "CASE WHEN event = 'a' THEN 1 ELSE 2 END",
    null,
    `CASE WHEN source."event" = 'a' THEN 1 ELSE 2 END`,
  ],
  [
    "(string_to_array(event, ','))[1]",
    null,
    `(pg_catalog.string_to_array(source."event", ','))[1]`,
  ],
  ["properties['a']['b']", "(properties)['a']['b']", `(source."properties")['a']['b']`],
];

const casts: readonly Accepted[] = [
  ['uuid::text', 'CAST(uuid AS text)', 'CAST(source."uuid" AS pg_catalog.text)'],
  [
    'properties.n::numeric(10,2)',
    'CAST(properties.n AS numeric(10, 2))',
    `CAST((source."properties" ->> 'n') AS pg_catalog.numeric(10, 2))`,
  ],
  ['timestamp::date', 'CAST("timestamp" AS date)', 'CAST(source."timestamp" AS pg_catalog.date)'],
  [
    'properties.at::timestamptz',
    'CAST(properties.at AS timestamptz)',
    `CAST(${printTimeText(`(source."properties" ->> 'at')`)} AS pg_catalog.timestamptz)`,
  ],
  [
    "timestamp > '2024-03-01 10:00 Europe/Berlin'",
    `"timestamp" > '2024-03-01 10:00 Europe/Berlin'`,
    `source."timestamp" > '2024-03-01 10:00 Europe/Berlin'`,
  ],
  ["interval '1 day'", "CAST('1 day' AS interval)", "CAST('1 day' AS pg_catalog.interval)"],
  ["'{a}'::text[]", "CAST('{a}' AS text[])", "CAST('{a}' AS pg_catalog.text[])"],
];

describe.each([
  ['names', names],
  ['literals', literals],
  ['operators', operators],
  ['calls', calls],
  ['casts', casts],
])('reads %s', (_, cases) => {
  test.each(cases)('%s', (written, normalised, sent) => {
    const query = read(`SELECT ${written} AS x FROM events`);
    const text = normalised ?? written;
    expect(schemaOf(query, eventsModel).fields).toEqual([{ expression: text, alias: 'x' }]);
    expect(read(normalizedText(query, eventsModel))).toEqual(query);
    // Guards have a test of their own: test/security/query-bounds.test.ts.
    expect(bare(describeSql(eventsModel, { ...query, limits: new Map() }))).toBe(
      `SELECT ${sent} AS "x" FROM "public"."events" AS source WHERE FALSE`,
    );
  });
});

/** Without the schema of operators. */
const bare = (sql: string) => sql.replace(/OPERATOR\(pg_catalog\.([^ ]+)\)/g, '$1');

test('every operator but a comparison is sent with its schema', () => {
  for (const operator of binaryOperators) {
    const query = read(`SELECT timestamp ${operator} created_at AS x FROM events`);
    const sent = comparisons.has(operator) ? operator : `OPERATOR(pg_catalog.${operator})`;
    expect(describeSql(eventsModel, query)).toContain(`"timestamp" ${sent} source."created_at"`);
  }
  expect(describeSql(eventsModel, read('SELECT - (timestamp) AS x FROM events'))).toContain(
    'SELECT OPERATOR(pg_catalog.-) source."timestamp"',
  );
});

describe('the shape of a query', () => {
  const namesOf = (text: string) => read(text).outputs.map(({ name }) => name);
  const all = eventsModel.columns.map(({ name }) => name);

  test.each([
    ['SELECT * FROM events', all],
    ['SELECT e.* FROM events e', all],
    ['TABLE events', all],
    ['(SELECT * FROM events);', all],
    ["SELECT *, properties.plan AS plan FROM events WHERE event = 'a' -- why", [...all, 'plan']],
    ['SELECT e.event, e.properties.a.b FROM events AS e', ['event', 'b']],
    ['SELECT timestamp::date, properties.n::int FROM events', ['timestamp', 'n']],
    ['SELECT event "Name of it", uuid select FROM events', ['Name of it', 'select']],
  ])('%s gives its columns their names', (text, expected) => {
    expect(namesOf(text)).toEqual(expected);
  });

  test('is given as fields, values and one canonical text', () => {
    const text = `select event , properties."$x" x from events e where e.event='a' or NOT uuid is null`;
    expect(schemaOf(read(text), eventsModel)).toEqual({
      fields: [
        { expression: 'event', alias: 'event' },
        { expression: 'properties."$x"', alias: 'x' },
      ],
      values: {},
      dsl_query: `SELECT event, properties."$x" AS x FROM events WHERE (event = 'a') OR (NOT (uuid IS NULL))`,
    });
  });

  test('keeps a star in its text and shows its columns as fields', () => {
    const schema = schemaOf(read('select * from events where true'), eventsModel);
    expect(schema.dsl_query).toBe('SELECT * FROM events WHERE TRUE');
    expect(schema.fields.map(({ alias }) => alias)).toEqual(all);
  });

  test('words that name a moving time are text if no time is expected', () => {
    const query = read(
      `SELECT event FROM events WHERE event = 'now' OR properties.range = 'today'`,
    );
    expect(query.where).not.toBeNull();
  });

  test('a thousand events in one list are not too many', () => {
    const list = Array.from({ length: 1000 }, (_, index) => `'e${index}'`).join(',');
    expect(read(`SELECT event FROM events WHERE event IN (${list})`).where?.kind).toBe('in');
  });

  test('two hundred property columns are not too many', () => {
    const columns = Array.from({ length: 200 }, (_, index) => `properties.some_key_${index}`);
    expect(namesOf(`SELECT ${columns.join(', ')} FROM events`)).toHaveLength(200);
  });
});
