import { describe, expect, test } from 'vitest';
import { eventsModel } from '../../../src/domain/events-model.ts';
import { parseQuery } from '../../../src/query/parse-query.ts';

/** `¦` is right before the place that the problem must name; it is taken out of the query. */
type Refused = readonly [query: string, construct: string];

const inSelect = (expression: string) => `SELECT ${expression} AS x FROM events`;
const inWhere = (expression: string) => `SELECT event FROM events WHERE ${expression}`;

const statements: readonly Refused[] = [
  ['¦', 'empty query'],
  ['¦   \n ', 'empty query'],
  ['¦-- nothing', 'empty query'],
  ['¦;', 'empty query'],
  ['SELECT event FROM events; ¦DROP TABLE events', 'several statements'],
  ['SELECT event FROM events;/* é */ ¦SELECT 1', 'several statements'],
  ['¦INSERT INTO events VALUES (1)', 'INSERT'],
  ['¦UPDATE events SET event = 1', 'UPDATE'],
  ['¦DELETE FROM events', 'DELETE'],
  ['¦MERGE INTO events USING x ON true WHEN MATCHED THEN DELETE', 'MERGE'],
  ['/* c */ ¦DROP TABLE events', 'DROP'],
  ['¦COPY events TO PROGRAM $$sh$$', 'COPY'],
  ['¦DO $$ BEGIN END $$', 'DO'],
  ['¦CALL x()', 'CALL'],
  ['¦EXPLAIN SELECT event FROM events', 'EXPLAIN'],
  ['¦SET ROLE postgres', 'VARIABLESET'],
  ['¦PREPARE p AS SELECT 1', 'PREPARE'],
  ['¦DECLARE c CURSOR FOR SELECT 1', 'DECLARECURSOR'],
  ['¦CREATE TABLE x AS SELECT 1', 'CREATETABLEAS'],
  ['¦VALUES (1)', 'VALUES'],
  ['SELECT event FROM events ¦UNION SELECT event FROM events', 'UNION'],
  ['SELECT event FROM events ¦UNION ALL SELECT usename FROM pg_user', 'UNION'],
  ['SELECT event FROM events ¦INTERSECT SELECT event FROM events', 'INTERSECT'],
  ['SELECT event FROM events ¦EXCEPT SELECT event FROM events', 'EXCEPT'],
  ['¦WITH x AS (SELECT 1) SELECT event FROM events', 'WITH'],
  ['¦WITH x AS (DELETE FROM events RETURNING *) SELECT event FROM events', 'WITH'],
  ['¦WITH RECURSIVE x AS (SELECT 1) SELECT event FROM events', 'WITH'],
  ['SELECT ¦DISTINCT event FROM events', 'DISTINCT'],
  ['SELECT ¦DISTINCT ON (event) event FROM events', 'DISTINCT'],
  ['SELECT event ¦INTO x FROM events', 'INTO'],
  ['SELECT event FROM events ¦GROUP BY event', 'GROUP BY'],
  ['SELECT event FROM events ¦GROUP BY ROLLUP (event)', 'GROUP BY'],
  ['SELECT event FROM events ¦HAVING true', 'HAVING'],
  ['SELECT event FROM events ¦ORDER BY event', 'ORDER BY'],
  ['SELECT event FROM events ¦LIMIT 1', 'LIMIT'],
  ['(SELECT event FROM events ¦LIMIT 1)', 'LIMIT'],
  ['SELECT event FROM events ¦OFFSET 1', 'OFFSET'],
  ['SELECT event FROM events FETCH FIRST ¦3 ROWS ONLY', 'LIMIT'],
  ['SELECT substring(event FROM 1 FOR 2) AS x FROM events ¦FOR UPDATE', 'row locking'],
  ['SELECT event FROM events ¦FOR KEY SHARE SKIP LOCKED', 'row locking'],
  ['SELECT event FROM events ¦WINDOW w AS ()', 'WINDOW'],
  ['¦SELECT FROM events', 'empty SELECT'],
  ['SELECT event¦', 'no FROM'],
];

const relations: readonly Refused[] = [
  ['SELECT event FROM ¦pg_user', 'relation "pg_user"'],
  ['SELECT event FROM ¦"Events"', 'relation "Events"'],
  ['SELECT event FROM ¦public.events', 'schema-qualified relation'],
  ['SELECT event FROM ¦pg_catalog.pg_authid', 'schema-qualified relation'],
  ['SELECT event FROM ¦postgres.public.events', 'database name'],
  ['SELECT event FROM ¦ONLY events', 'ONLY'],
  ['SELECT event FROM events, ¦events e', 'several relations'],
  ['SELECT event FROM events, ¦pg_user', 'several relations'],
  ['SELECT event FROM events ¦JOIN pg_user ON true', 'JOIN'],
  ['SELECT event FROM events NATURAL ¦JOIN pg_user', 'JOIN'],
  ['SELECT event FROM events LEFT ¦JOIN LATERAL (SELECT 1) l ON true', 'JOIN'],
  ['SELECT event FROM (SELECT ¦1) x', 'subquery in FROM'],
  ['SELECT event FROM (TABLE ¦events) x', 'subquery in FROM'],
  ['SELECT event FROM ¦generate_series(1, 9) event', 'function in FROM'],
  ['SELECT event FROM ROWS FROM (¦unnest(ARRAY[1])) event', 'function in FROM'],
  ['SELECT event FROM events ¦TABLESAMPLE SYSTEM (1)', 'TABLESAMPLE'],
  ["SELECT event FROM ¦XMLTABLE('/a' PASSING x COLUMNS event text)", 'XMLTABLE'],
  ["SELECT event FROM ¦JSON_TABLE('{}', '$' COLUMNS (event text))", 'JSON_TABLE'],
  ['SELECT event FROM ¦events AS e (event, secret)', 'column aliases'],
  ['SELECT event FROM ¦events AS properties', 'alias "properties"'],
  ['SELECT ¦events.event FROM events e', 'whole-row reference events'],
];

const columns: readonly Refused[] = [
  ['SELECT ¦team_id FROM events', 'column "team_id"'],
  ['SELECT ¦nothing FROM events', 'column "nothing"'],
  ['SELECT ¦"Event" FROM events', 'column "Event"'],
  ['SELECT ¦other.event FROM events', 'column "other"'],
  ['SELECT ¦public.events.event FROM events', 'column "public"'],
  ['SELECT ¦constructor FROM events', 'column "constructor"'],
  ['SELECT ¦__proto__ FROM events', 'column "__proto__"'],
  ['SELECT ¦events.ctid FROM events', 'system column ctid'],
  ['SELECT ¦tableoid FROM events', 'system column tableoid'],
  ['SELECT ¦xmin AS x FROM events', 'system column xmin'],
  ['SELECT ¦events FROM events', 'whole-row reference events'],
  ['SELECT ¦e FROM events e', 'whole-row reference e'],
  ['SELECT to_char(¦events, event) AS x FROM events', 'whole-row reference events'],
  ['SELECT ¦event.a FROM events', 'event.a'],
  ['SELECT ¦event.lower FROM events', 'event.lower'],
  ['SELECT ¦events.lower FROM events', 'column "lower"'],
  ['SELECT concat(¦events.*) AS x FROM events', '*'],
  ['SELECT ¦other.* FROM events', '*'],
  ['SELECT ¦properties.* FROM events', '*'],
  ['SELECT properties.a, ¦event AS "a\nb" FROM events', 'control character'],
  ['SELECT ¦properties.U&"\\0001" FROM events', 'control character'],
  ['SELECT event, ¦event FROM events', 'column "event" twice'],
  ['SELECT *, ¦lower(event) AS event FROM events', 'column "event" twice'],
  ['SELECT properties.a.b, ¦person_properties.b FROM events', 'column "b" twice'],
  ['SELECT ¦1 FROM events', 'column without a name'],
  ['SELECT event, ¦lower(event) FROM events', 'column without a name'],
  [`SELECT properties.¦"${'k'.repeat(64)}" FROM events`, 'long name'],
  [`SELECT event AS ¦${'é'.repeat(32)} FROM events`, 'long name'],
  [`SELECT event AS ¦U&"${'k'.repeat(64)}" FROM events`, 'long name'],
];

const expressions: readonly Refused[] = [
  [inSelect('¦(SELECT 1)'), 'subquery'],
  [inSelect('¦(SELECT passwd FROM pg_shadow LIMIT 1)'), 'subquery'],
  [inSelect('lower(¦(SELECT event FROM events LIMIT 1))'), 'subquery'],
  [inSelect('¦ARRAY(SELECT 1)'), 'subquery'],
  [inSelect('CASE WHEN true THEN ¦(TABLE events) END'), 'subquery'],
  [inWhere('¦EXISTS (SELECT 1)'), 'subquery'],
  [inWhere('event ¦IN (SELECT event FROM events)'), 'subquery'],
  [inWhere('event ¦= ANY (SELECT event FROM events)'), 'subquery'],
  [inWhere('¦(SELECT true)'), 'subquery'],
  [inSelect('¦count(*)'), 'aggregate count'],
  [inSelect('¦count(DISTINCT event)'), 'aggregate count'],
  [inSelect("¦string_agg(event, ',')"), 'aggregate string_agg'],
  [inSelect('¦max(event) FILTER (WHERE true)'), 'aggregate max'],
  [inSelect('¦row_number() OVER ()'), 'function row_number'],
  [inSelect('¦lower(event) OVER ()'), 'window function'],
  [inSelect('¦lower(DISTINCT event)'), 'aggregate with DISTINCT'],
  [inSelect('¦lower(event ORDER BY event)'), 'aggregate with ORDER BY'],
  [inSelect('¦lower(event) FILTER (WHERE true)'), 'aggregate with FILTER'],
  [inSelect('¦lower(*)'), 'aggregate'],
  [inSelect("¦concat(VARIADIC ARRAY['a'])"), 'VARIADIC'],
  [inSelect('left(event, ¦n => 1)'), 'named argument'],
  [inSelect('¦GROUPING(event)'), 'GROUPING'],
  [inSelect('¦now()'), 'function now'],
  [inSelect('¦CURRENT_USER'), 'value of the session'],
  [inSelect('¦CURRENT_TIMESTAMP'), 'value of the session'],
  [inSelect('¦SESSION_USER'), 'value of the session'],
  [inSelect('¦current_schema()'), 'function current_schema'],
  [inSelect('¦version()'), 'function version'],
  [inSelect('¦random()'), 'function random'],
  [inSelect('¦gen_random_uuid()'), 'function gen_random_uuid'],
  [inSelect('¦pg_sleep(10)'), 'function pg_sleep'],
  [inSelect("¦pg_read_file('/etc/passwd')"), 'function pg_read_file'],
  [inSelect("¦set_config('role', 'postgres', true)"), 'function set_config'],
  [inSelect("¦current_setting('x')"), 'function current_setting'],
  [inSelect("¦dblink('host=x', 'y')"), 'function dblink'],
  [inSelect("¦query_to_xml('select 1', true, true, '')"), 'function query_to_xml'],
  [inSelect("¦table_to_xml('events', true, true, '')"), 'function table_to_xml'],
  [inSelect("¦lo_import('/etc/passwd')"), 'function lo_import'],
  [inSelect("¦nextval('s')"), 'function nextval'],
  [inSelect('¦generate_series(1, 1000000000)'), 'function generate_series'],
  [inSelect("¦unnest(ARRAY['a'])"), 'function unnest'],
  [inSelect('¦jsonb_each(properties)'), 'function jsonb_each'],
  [inSelect("¦repeat('a', 1000000000)"), 'function repeat'],
  [inSelect("¦regexp_replace(event, '(a+)+$', '')"), 'function regexp_replace'],
  [inSelect("¦to_tsvector('english', event)"), 'function to_tsvector'],
  [inSelect("¦format('%s', event)"), 'function format'],
  [inSelect('¦power(9, 9)'), 'function power'],
  [inSelect('¦constructor(event)'), 'function constructor'],
  [inSelect('¦hasOwnProperty(event)'), 'function hasownproperty'],
  [inSelect('¦"Lower"(event)'), 'function Lower'],
  [inSelect('¦U&"pg\\005fsleep"(1)'), 'function pg_sleep'],
  [inSelect('¦public.lower(event)'), 'function public.lower'],
  [inSelect('¦pg_catalog.pg_sleep(1)'), 'function pg_sleep'],
  [inSelect('¦a.b.lower(event)'), 'function a.b.lower'],
  [inSelect('¦"coalesce"(event)'), 'function coalesce'],
  [inSelect('¦lower()'), 'function lower'],
  [inSelect("¦lower(event, 'x')"), 'function lower'],
  [inSelect("¦substring(event FROM '(a+)+$')"), 'function substring'],
  [inSelect("¦substring(event SIMILAR 'a#\"b#\"c' ESCAPE '#')"), 'function substring'],
  [inSelect('¦substring(event, properties.a)'), 'function substring'],
  [inSelect('¦substring(event, properties.a::text)'), 'function substring'],
  [inSelect('¦lpad(event, 1000000000)'), 'function lpad'],
  [inSelect('¦rpad(event, 1001)'), 'function rpad'],
  [inSelect('¦lpad(event, length(event) * 1000)'), 'function lpad'],
  [inSelect('¦replace(event, properties.a, properties.b)'), 'function replace'],
  [inSelect(`¦replace(event, 'a', '${'b'.repeat(101)}')`), 'function replace'],
  [inSelect("event ¦~ '(a+)+$'"), 'operator ~'],
  [inSelect("event ¦!~* '(a+)+$'"), 'operator !~*'],
  [inSelect("event ¦SIMILAR TO '(a+)+'"), 'operator SIMILAR TO'],
  [inSelect('9 ¦^ 9'), 'operator ^'],
  [inSelect('¦|/ 9'), 'operator |/'],
  [inSelect("properties ¦@@ '$.a == 1'"), 'operator @@'],
  [inSelect("properties ¦@? '$.a'"), 'operator @?'],
  [inSelect('1 ¦OPERATOR(pg_catalog.+) 1'), 'OPERATOR()'],
  [inSelect('1 ¦OPERATOR(public.=) 1'), 'OPERATOR()'],
  [inSelect("event ¦|| ANY (ARRAY['a'])"), 'operator ||'],
  [inSelect("event ¦LIKE ANY (ARRAY['a'])"), 'operator ~~'],
  [inSelect("'events'::¦regclass"), 'type regclass'],
  [inSelect("CAST('events' AS ¦regclass)::text"), 'type regclass'],
  [inSelect("¦regclass 'events'"), 'type regclass'],
  [inSelect("'lower'::¦regproc"), 'type regproc'],
  [inSelect("'x'::¦public.t"), 'type public.t'],
  [inSelect("'x'::¦events"), 'type events'],
  [inSelect("'1'::¦jsonb"), 'type jsonb'],
  [inSelect("'1'::¦json"), 'type json'],
  [inSelect("'x'::¦xml"), 'type xml'],
  [inSelect("'x'::¦char(10000000)"), 'type bpchar'],
  [inSelect('event::¦varchar(99999999)'), 'type varchar'],
  [inSelect('1::¦numeric(9999)'), 'type numeric'],
  [inSelect('1::¦numeric(5, -1)'), 'type numeric'],
  [inSelect("'1'::¦text[][]"), 'type text[][]'],
  [inSelect("'1 day'::¦interval day"), 'type interval'],
  [inSelect("'x'::text::text::¦oid"), 'type oid'],
  [inSelect("'now'¦::timestamptz"), 'moving time'],
  [inSelect("¦date ' Today '"), 'moving time'],
  [inWhere("timestamp ¦> 'yesterday'"), 'moving time'],
  [inWhere("inserted_at ¦BETWEEN '2024-01-01' AND 'now'"), 'moving time'],
  [inWhere("timestamp::date ¦= 'today'"), 'moving time'],
  [inWhere("timestamp ¦IN ('2024-01-01', 'now')"), 'moving time'],
  [inSelect("¦coalesce(timestamp, 'now')"), 'moving time'],
  [inSelect("¦date_trunc('day', 'now')"), 'moving time'],
  [inSelect("¦CASE timestamp + '1 day' WHEN 'tomorrow' THEN 1 END"), 'moving time'],
  [inSelect('¦ROW(1, 2)'), 'row constructor'],
  [inSelect('¦(event, event)'), 'row constructor'],
  [inWhere('¦(event, 1) = (event, 1)'), 'row constructor'],
  [inSelect('¦$1'), 'parameter'],
  [inSelect('event ¦COLLATE "C"'), 'COLLATE'],
  [inSelect("¦b'101'"), 'bit string'],
  [inSelect("¦x'1F'"), 'bit string'],
  [inSelect('¦1e100'), 'number'],
  [inSelect('1 + ¦1e999999999'), 'number'],
  [inSelect(`¦${'9'.repeat(101)}`), 'number'],
  [inSelect('¦0x1FFFFFFFFFF'), 'number'],
  [inSelect('¦1_000_000_000_000'), 'number'],
  [inSelect('¦(properties).a'), 'field access'],
  [inSelect('¦(events).event'), 'field access'],
  [inSelect('¦(events).*'), 'field access'],
  [inSelect("¦(string_to_array(event, ','))[1:2]"), 'array slice'],
  [inSelect('¦XMLELEMENT(NAME a, event)'), 'XML expression'],
  [inSelect("¦JSON_OBJECT('a': event)"), 'JSON_OBJECT'],
  [inSelect("¦JSON_VALUE(properties, '$.a')"), 'SQL/JSON function'],
  [inSelect('¦JSON_SCALAR(1)'), 'JSON_SCALAR'],
  [inSelect('¦properties IS JSON'), 'IS JSON'],
  [inSelect('¦NORMALIZE(event)'), 'function normalize'],
  [inSelect('¦COLLATION FOR (event)'), 'function pg_collation_for'],
  [inSelect('¦DEFAULT'), 'DEFAULT'],
  [inSelect('¦MERGE_ACTION()'), 'MERGE_ACTION'],
];

const texts: readonly Refused[] = [
  ['SELECT event FORM ¦events x y', 'syntax error'],
  ["SELECT event FROM events WHERE event = ¦'x", 'syntax error'],
  ['SELECT event FROM events ¦/* no end', 'syntax error'],
  ['SELECT event FROM events WHERE event = ¦$a$ no end', 'syntax error'],
  ["SELECT é FROM ¦'é'", 'syntax error'],
  ["SELECT '😀😀' FROM ¦'é'", 'syntax error'],
  ['SELECT ¦""', 'syntax error'],
  ['SELECT ¦:name FROM events', 'syntax error'],
  ['SELECT properties.¦$a FROM events', 'syntax error'],
  ['¦\\! ls', 'syntax error'],
  ["SELECT event FROM events WHERE event = E'¦\\u0000'", 'syntax error'],
  ["¦SELECT E'\\xff' AS x FROM events", 'syntax error'],
  ['SELECT event FROM events¦\0; DROP TABLE events', 'character U+0000'],
  ["SELECT '😀¦\ud800' AS x FROM events", 'character U+D800'],
  ['SELECT event¦\u0008 FROM events', 'character U+0008'],
  ["SELECT '😀é', ¦pg_sleep(1) AS x FROM events", 'function pg_sleep'],
];

describe.each([
  ['statements and clauses', statements],
  ['relations', relations],
  ['columns and names', columns],
  ['expressions', expressions],
  ['texts', texts],
])('refuses among %s', (_, cases) => {
  test.each(cases)('%s', (marked, construct) => {
    const position = Array.from(marked.slice(0, marked.indexOf('¦'))).length + 1;
    const result = parseQuery(marked.replace('¦', ''), eventsModel);
    const problems = 'problems' in result ? result.problems : [];
    expect(problems).toContainEqual(
      expect.objectContaining({ construct, position, detail: expect.stringMatching(/\.$/) }),
    );
  });
});

describe('refuses what would cost too much', () => {
  const nested = (open: string, count: number, close: string) =>
    inSelect(`${open.repeat(count)}event${close.repeat(count)}`);
  test.each([
    ['ten thousand characters', inSelect(`'${'a'.repeat(10_000)}'`), 'long query'],
    ['deep NOT', inSelect(`${'NOT '.repeat(200)}true`), 'nesting'],
    ['very deep NOT', inSelect(`${'NOT '.repeat(2400)}true`), 'long expression'],
    ['deep calls', nested('lower(', 200, ')'), 'nesting'],
    ['very deep calls', nested('lower(', 1000, ')'), 'long expression'],
    ['deep casts', nested('', 1, '::text'.repeat(200)), 'nesting'],
    ['a long chain', inSelect(`1${' + 1'.repeat(200)}`), 'nesting'],
    [
      'casts of what is deep',
      inSelect(`(${'NOT '.repeat(500)}true)${'::text'.repeat(200)}`),
      'long expression',
    ],
    ['deep parentheses that never close', `SELECT ${'('.repeat(4000)}`, 'long expression'],
    [
      'too many nodes',
      `SELECT ${Array.from({ length: 1100 }, (_, n) => `+1 a${n}`).join(',')} FROM events`,
      'long query',
    ],
  ])('%s', (_, query, construct) => {
    const result = parseQuery(query, eventsModel);
    expect('problems' in result && result.problems[0].construct).toBe(construct);
  });

  test('and still reads the next query', () => {
    for (let round = 0; round < 50; round += 1) {
      parseQuery(inSelect(`${'NOT '.repeat(2400)}true`), eventsModel);
    }
    expect(parseQuery('SELECT event FROM events', eventsModel)).toHaveProperty('ok');
  });
});

test('names every problem at once, first to last', () => {
  const result = parseQuery(
    'SELECT now() AS a, event, ctid FROM events WHERE pg_sleep(1) IS NULL',
    eventsModel,
  );
  const problems = 'problems' in result ? result.problems : [];
  expect(problems.map(({ construct, position }) => [construct, position])).toEqual([
    ['function now', 8],
    ['system column ctid', 27],
    ['function pg_sleep', 50],
  ]);
});

test.each([
  ['SELECT event FROM events LIMIT 5', 'LIMIT (position 26) is not supported.'],
  [
    'SELECT count(*) AS n FROM events',
    'count() (position 8) is not supported: export queries cannot aggregate.',
  ],
  ['SELECT pg_sleep(1) AS n FROM events', 'pg_sleep() (position 8) is not supported.'],
  ['SELECT event FROM users', 'relation "users" (position 19): This export can read only events.'],
])('says in one sentence what is wrong with %s', (query, detail) => {
  const result = parseQuery(query, eventsModel);
  expect('problems' in result && result.problems.map((problem) => problem.detail)).toEqual([
    detail,
  ]);
});
