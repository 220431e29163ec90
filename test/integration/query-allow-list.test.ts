import { createHash } from 'node:crypto';
import pg from 'pg';
import { to as copyTo } from 'pg-copy-streams';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventsModel } from '../../src/foundation/domain/events-model.ts';
import { binaryOperators, castTypes, unaryOperators } from '../../src/rows/query/allow-list.ts';
import { functions } from '../../src/rows/query/functions.ts';
import { parseQuery } from '../../src/rows/query/parse-query.ts';
import { copySql, countSql, describeSql, explainSql } from '../../src/rows/query/select.ts';
import type { Selection } from '../../src/rows/query/selection.ts';
import { printTimeText } from '../../src/rows/query/time-text.ts';
import { createTestDatabase } from '../support/database.ts';
import { useStage } from '../support/use-stage.ts';

let client: pg.Client;

const database = useStage(createTestDatabase);
beforeAll(async () => {
  client = new pg.Client({
    connectionString: database.url,
    options: '-c search_path=pg_catalog -c TimeZone=UTC',
  });
  await client.connect();
  await client.query(`
    CREATE TABLE IF NOT EXISTS public.events (
      uuid uuid PRIMARY KEY, team_id int, event text, distinct_id text, properties jsonb,
      person_id uuid, person_properties jsonb, elements_chain text, timestamp timestamptz,
      created_at timestamptz, inserted_at timestamptz DEFAULT now())`);
  await client.query(`
    INSERT INTO public.events (uuid, team_id, event, properties, timestamp, inserted_at)
    SELECT gen_random_uuid(), team, 'e' || n % 3,
      jsonb_build_object('n', CASE team WHEN 1 THEN n::text ELSE 'secret of team ' || team END),
      '2024-03-01', timestamptz '2024-03-01' + n * interval '1 minute'
    FROM generate_series(1, 3) AS team, generate_series(0, 89) AS n`);
});

afterAll(() => client?.end());

interface Routine {
  readonly signature: string;
  readonly volatility: string;
  readonly plain: boolean;
}

describe('the allow-list against the server', () => {
  test.each([...functions])('function %s', async (name, allowed) => {
    const { rows } = await client.query<Routine>(
      `SELECT oid::regprocedure::text AS signature, provolatile AS volatility,
              prokind = 'f' AND NOT proretset AS plain
       FROM pg_proc
       WHERE proname = $1 AND pronamespace = 'pg_catalog'::regnamespace
         AND (provariadic <> 0 OR pronargs BETWEEN $2 AND $3)`,
      [name, ...allowed.arguments],
    );
    expect(rows.length).toBeGreaterThan(0);
    const volatilities = new Set(rows.map(({ volatility }) => volatility));
    expect(rows.filter(({ plain }) => !plain)).toEqual([]);
    expect(volatilities.has('v')).toBe(false);
    // Marked stable exactly if one of its overloads is.
    expect(volatilities.has('s')).toBe(allowed.volatility === 'stable');
  });

  test.each([
    ...[...binaryOperators].map((name) => ['b', name] as const),
    ...[...unaryOperators].map((name) => ['l', name] as const),
  ])('operator %s %s', async (kind, name) => {
    const { rows } = await client.query<Routine>(
      `SELECT o.oid::regoperator::text AS signature, p.provolatile AS volatility,
              p.prokind = 'f' AND NOT p.proretset AND p.proname !~ 'regex' AS plain
       FROM pg_operator o JOIN pg_proc p ON p.oid = o.oprcode
       WHERE o.oprname = $2 AND o.oprkind = $1 AND o.oprnamespace = 'pg_catalog'::regnamespace`,
      [kind, name],
    );
    expect(rows.length).toBeGreaterThan(0);
    expect(rows.filter(({ plain, volatility }) => !plain || volatility === 'v')).toEqual([]);
  });

  test.each([...castTypes.keys()])('type %s', async (name) => {
    const { rows } = await client.query(
      `SELECT typtype, i.provolatile AS input, o.provolatile AS output
       FROM pg_type t JOIN pg_proc i ON i.oid = typinput JOIN pg_proc o ON o.oid = typoutput
       WHERE typname = $1 AND typnamespace = 'pg_catalog'::regnamespace`,
      [name],
    );
    expect(rows).toEqual([
      { typtype: 'b', input: expect.stringMatching('[is]'), output: expect.stringMatching('[is]') },
    ]);
    const casts = await client.query(
      `SELECT p.proname FROM pg_cast JOIN pg_proc p ON p.oid = castfunc
       WHERE casttarget = ('pg_catalog.' || $1)::regtype AND p.provolatile = 'v'`,
      [name],
    );
    expect(casts.rows).toEqual([]);
  });
});

const select = (text: string, teamId = 1): Selection => {
  const result = parseQuery(text, eventsModel);
  if ('problems' in result) throw new Error(JSON.stringify(result.problems));
  return {
    model: eventsModel,
    query: result.ok,
    tenantKey: String(teamId),
    range: { start: '2024-03-01T00:00:00.000000Z', end: '2024-03-01T01:00:00.000000Z' },
    includeEvents: null,
    excludeEvents: null,
  };
};

const textOid = 25;

async function copy(selection: Selection): Promise<Buffer> {
  const { fields } = await client.query(describeSql(selection.model, selection.query));
  const columns = fields.map(({ name, dataTypeID }) => ({
    name,
    type: dataTypeID === textOid ? ('text' as const) : ('as_json' as const),
  }));
  const chunks: Buffer[] = [];
  for await (const chunk of client.query(copyTo(copySql(selection, columns)))) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** The values of a binary COPY that has one column of text or JSON. */
function onlyValues(bytes: Buffer): string[] {
  const values: string[] = [];
  let at = 19;
  while (bytes.readInt16BE(at) > 0) {
    const length = bytes.readInt32BE(at + 2);
    at += 6 + length;
    values.push(bytes.toString('utf8', at - length, at));
  }
  return values;
}

const countOf = async (selection: Selection): Promise<number> => {
  return Number((await client.query<{ count: string }>(countSql(selection))).rows[0]?.count);
};

describe('the statements on the server', () => {
  test('count and send the rows of the interval and the condition', async () => {
    expect(await countOf(select('SELECT * FROM events'))).toBe(60);
    const some = select(`SELECT event FROM events WHERE event = 'e1' OR properties.n::int > 50`);
    expect(await countOf(some)).toBe(20 + 6);
    const bytes = await copy(some);
    expect(bytes.subarray(0, 6).toString()).toBe('PGCOPY');
    expect(bytes.toString('latin1').match(/e1|e0|e2/g)).toHaveLength(26);
  });

  test('sort a filtered slice by its index, once', async () => {
    await client.query('CREATE INDEX ON public.events (team_id, inserted_at)');
    await client.query('SET enable_seqscan = off; SET enable_bitmapscan = off');
    const filtered = select(`SELECT event FROM events WHERE event = 'e1'`);
    const { rows } = await client.query(explainSql(filtered, [{ name: 'event', type: 'text' }]));
    await client.query('RESET enable_seqscan; RESET enable_bitmapscan');
    const kinds = JSON.stringify(rows).match(/(?<="Node Type":")[^"]+/g);
    expect(kinds).toEqual(['Subquery Scan', expect.stringMatching(/Sort$/), 'Index Scan']);
  });

  test('a condition that fails on the rows of others never sees them', async () => {
    const dear = select('SELECT event FROM events WHERE properties.n::int >= 0');
    expect([await countOf(dear), (await copy(dear)).includes('secret')]).toEqual([60, false]);
    await expect(countOf({ ...dear, tenantKey: '2' })).rejects.toThrow('secret of team 2');
  });

  /** Each with the different values that it has in the rows of the interval. */
  test.each([
    [`properties.a.b || $$it's \\$$`, []],
    [`E'a\\u0001\\\\'`, ['a\u0001\\']],
    [`(NOT event = 'a') IS NULL`, ['false']],
    [`properties['n'] IS NOT NULL AND properties['m'] IS NULL`, ['true']],
    [`properties ?| ARRAY['n', 'm']`, ['true']],
    [`event NOT LIKE 'a!%' ESCAPE '!'`, ['true']],
    [
      `TRIM(LEADING 'e' FROM event) || SUBSTRING(event FROM 1 FOR 1) || OVERLAY(event PLACING 'x' FROM 1)`,
      ['0ex0', '1ex1', '2ex2'],
    ],
    [`POSITION('e' IN event) + EXTRACT(year FROM timestamp)`, ['2025']],
    [`(timestamp AT TIME ZONE 'Asia/Tokyo')::date`, ['"2024-03-01"']],
    [`date_bin('15 minutes', timestamp, '2001-01-01')`, ['"2024-03-01T00:00:00+00:00"']],
    [
      `timestamp(3) with time zone '2024-01-01 00:00:00.12345'`,
      ['"2024-01-01T00:00:00.123+00:00"'],
    ],
    [
      `encode(sha256(convert_to('a', 'UTF8')), 'hex')`,
      [createHash('sha256').update('a').digest('hex')],
    ],
    [`CAST(length(event) AS numeric(10, 2)) * -1`, ['-2.00']],
    [`ARRAY[event, NULL]::text[]`, ['["e0",null]', '["e1",null]', '["e2",null]']],
    [`(string_to_array(event, NULL))[1] = ANY ('{e}'::text[])`, ['true']],
    [`CASE event WHEN 'e1' THEN interval '1 day' ELSE '2 hours' END`, ['"02:00:00"', '"1 day"']],
    [`COALESCE(NULLIF(event, 'e1'), GREATEST('a', LEAST('b', event)))`, ['b', 'e0', 'e2']],
  ])('%s has its value', async (expression, values) => {
    const selection = select(
      `SELECT ${expression} AS x FROM events WHERE (${expression}) IS NOT NULL`,
    );
    const found = onlyValues(await copy(selection));
    expect([...new Set(found)].toSorted()).toEqual(values);
    expect(found).toHaveLength(values.length === 0 ? 0 : 60);
    expect(await countOf(selection)).toBe(found.length);
  });
});

/**
 * What a backend keeps of each value that it was given, until its connection closes. Each call gets 3,000 different texts
 * (`t`), numbers (`n`) and times (`at`); its memory must not grow with them.
 */
describe('a backend keeps nothing of the values given to', () => {
  const calls: Readonly<Record<string, string>> = {
    ...{ ascii: 't', btrim: 't, t', char_length: 't', character_length: 't', chr: '40 + n' },
    ...{ concat: 't, n', concat_ws: 't, n, t', initcap: 't', left: 't, 3', length: 't' },
    ...{ like_escape: "t, 'x'", lower: 't', lpad: 't, 50, t', ltrim: 't, t', md5: 't' },
    ...{ octet_length: 't', overlay: 't, t, 2', position: 't, t', replace: "t, t, 'x'" },
    ...{ reverse: 't', right: 't, 3', rpad: 't, 50, t', rtrim: 't, t', split_part: 't, t, 1' },
    ...{ starts_with: 't, t', strpos: 't, t', substr: 't, 2', substring: 't, 2' },
    ...{ translate: 't, t, t', upper: 't', convert_to: "t, 'LATIN1'" },
    ...{ encode: "convert_to(t, 'UTF8'), 'hex'", sha256: "convert_to(t, 'UTF8')" },
    ...{ sha512: "convert_to(t, 'UTF8')", abs: 'n', ceil: 'n / 7.0', ceiling: 'n / 7.0' },
    ...{ div: 'n, 7', floor: 'n / 7.0', mod: 'n, 7', round: 'n / 7.0, 2', sign: 'n' },
    ...{ trunc: 'n / 7.0' },
    ...{ date_bin: "'5 minutes', at, '2024-01-01Z'", date_part: "'hour', at" },
    ...{ date_trunc: "'day', at, 'Europe/Berlin'", extract: "'hour', at", isfinite: 'at' },
    ...{ make_date: '2000 + n % 50, 1, 1', timezone: "'Europe/Berlin', at" },
    ...{ to_char: "at, 'YYYY ' || t", to_timestamp: 'n', array_length: 'ARRAY[t, t], 1' },
    ...{ array_to_string: 'ARRAY[t, t], t', cardinality: 'ARRAY[t]', string_to_array: 't, t' },
    ...{ json_typeof: "('[' || n || ']')::json", jsonb_array_length: 'jsonb_build_array(t)' },
    ...{ jsonb_typeof: 'jsonb_build_array(t)' },
  };
  const memory = 'SELECT sum(total_bytes)::int8 AS bytes FROM pg_backend_memory_contexts';
  const rows = `(SELECT n, 'w' || n || 'x' AS t, timestamptz '2024-03-01' + n * interval '1 minute' AS at
    FROM generate_series($1::int, $2::int) AS n) AS s`;

  let own: pg.Client;
  beforeAll(async () => {
    const options = '-c search_path=pg_catalog';
    own = new pg.Client({ connectionString: database.adminUrl, options });
    await own.connect();
  });
  afterAll(() => own?.end());

  /** Bytes that the backend grew by over the last 3,000 values. */
  async function growth(expression: string): Promise<number> {
    const run = async (from: number, to: number): Promise<number> => {
      await own.query(`SELECT count((${expression})::text) FROM ${rows}`, [from, to]);
      const { rows: found } = await own.query<{ bytes: string }>(memory);
      return Number(found[0]?.bytes);
    };
    await run(1, 300);
    const before = await run(301, 600);
    return (await run(601, 3_600)) - before;
  }

  /** With zones in the text, a backend keeps more than 20 KiB for each. */
  const bound = 256 * 1024;

  test('every function', async () => {
    expect(Object.keys(calls).toSorted()).toEqual([...functions.keys()].toSorted());
    const grown: Record<string, number> = {};
    for (const [name, args] of Object.entries(calls)) {
      const bytes = await growth(
        name === 'extract'
          ? `date_part(${args})`
          : `pg_catalog.${name === 'position' ? 'strpos' : name}(${args})`,
      );
      if (bytes > bound) grown[name] = bytes;
    }
    expect(grown).toEqual({});
  });

  const textIn: Readonly<Record<string, string>> = {
    ...{ uuid: 'md5(t)', interval: "n || ' days'", bool: "'true'", int2: '(n % 99)::text' },
  };

  test('every type, also if each text names another zone', async () => {
    const grown: Record<string, number> = {};
    for (const name of castTypes.keys()) {
      const isText = /^(?:date|time)/.test(name);
      const value = isText
        ? `CASE WHEN n % 2 = 0 THEN '2024-03-01 10:00 ABC' || n % 140 || ':' || n / 140 ELSE '2024-03-01 10:00:00' END`
        : (textIn[name] ?? 'n::text');
      const operand = isText
        ? `CASE WHEN ${printTimeText(value)} LIKE 'no%' THEN NULL ELSE ${printTimeText(value)} END`
        : value;
      const bytes = await growth(`CAST(${operand} AS pg_catalog.${name})`);
      if (bytes > bound) grown[name] = bytes;
    }
    expect(grown).toEqual({});
    // What this is about: without the check of the text, the memory grows.
    const zone = `('2024-03-01 10:00 ABC' || n % 140 || ':' || n / 140)`;
    expect(await growth(`CAST(${zone} AS timestamptz)`)).toBeGreaterThan(bound);
  }, 120_000);

  test.each([
    '2024-03-01T10:00:00Z',
    '2024-03-01 10:00:00.123456+05:30',
    '20240301T101500Z',
    '2024-03-01',
    ' 2024-03-01 10:00 PM UTC ',
    '0044-03-15 00:00:00+00 BC',
    '-infinity',
  ])('is read: %s', async (text) => {
    const {
      rows: [row],
    } = await client.query(
      `SELECT CAST(${printTimeText('$1::text')} AS timestamptz) = $1::timestamptz AS same`,
      [text],
    );
    expect(row).toEqual({ same: true });
  });

  test.each([
    '2024-03-01 10:00 ABC5',
    '2024-03-01 UTC+5:17',
    'Z+5 2024-03-01',
    'x',
    `2024-03-01${' '.repeat(200)}`,
  ])('is refused: %s', async (text) => {
    const query = client.query(`SELECT CAST(${printTimeText('$1::text')} AS timestamptz)`, [text]);
    await expect(query).rejects.toMatchObject({
      code: '22007',
      message: expect.stringContaining('no ISO 8601 time'),
    });
  });
});
