import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { finished } from 'node:stream/promises';
import { DuckDBInstance } from '@duckdb/node-api';
import { from as copyFrom } from 'pg-copy-streams';
import { beforeAll, describe, expect, it } from 'vitest';
import type { RowBlock } from '../../src/foundation/domain/row-block.ts';
import { csv } from '../../src/rows/encoders/csv/definition.ts';
import { jsonLines, openEncoder } from '../../src/rows/encoders/index.ts';
import { JsonValues } from '../../src/rows/pipeline/value-rules.ts';
import { createPostgresSource, planModels } from '../../src/rows/sources/index.ts';
import { encodeAll } from '../support/parquet-readers.ts';
import { columnsOf, rowBlock } from '../support/row-blocks.ts';
import { readAll } from '../support/source-tables.ts';
import { useSession } from '../support/use-session.ts';

const session = useSession(`set timezone = 'UTC'; set datestyle = 'ISO, MDY'`);
beforeAll(async () => {
  // The source must not print times as its database does.
  await session.client.query(
    `do $$ begin execute format('alter database %I set datestyle = German', current_database()); end $$`,
  );
});
describe('arrays and composites of a CSV as PostgreSQL prints them', () => {
  const columns = {
    numbers: 'int[]',
    words: 'text[]',
    moments: 'timestamptz[]',
    square: 'numeric[]',
    place: 'spot',
    places: 'spot[]',
    documents: 'json[]',
  };
  const values = [
    [
      `'{1,NULL,3}'`,
      `'[0:1]={a,b}'`,
      `'{2024-03-01 12:00:00.5Z,infinity}'`,
      `'{{1.10,NaN},{3,4}}'`,
      `'(1,"a, ""b""")'`,
      `array['(1,)', null]::spot[]`,
      `array['{"a": [1]}', 'null']::json[]`,
    ],
    [
      `'{}'`,
      `array['', 'NULL', null, '"', E'\\\\', E'a\\nb', '{', ',']`,
      `'{}'`,
      `null`,
      `'(,)'`,
      `'{}'`,
      `null`,
    ],
    ['null', 'null', 'null', 'null', 'null', 'null', 'null'],
  ];

  it('are read by COPY into columns of their types, with their lower bounds', async () => {
    const list = Object.entries(columns).map(([name, type]) => `${name} ${type}`);
    await session.client.query('create type spot as (x int, name text)');
    for (const table of ['given', 'read']) {
      await session.client.query(
        `create table ${table} (tags text[] primary key, ${list.join(', ')})`,
      );
    }
    await session.client.query(
      `alter table given add team_id int default 1, add at timestamptz default '2024-03-01Z'`,
    );
    for (const [index, row] of values.entries()) {
      await session.client.query(
        `insert into given values ('{"key ${index}"}', ${row.join(', ')})`,
      );
    }
    const names = Object.keys(columns);
    const plan = planModels([
      {
        name: 'given',
        relation: { schema: 'public', name: 'given' },
        tenantColumn: 'team_id',
        intervalColumn: 'at',
        keyColumns: ['tags'],
        eventColumn: null,
        onSchemaChange: 'follow',
        columns: ['tags', ...names].map((name) => {
          return { name, expression: null, sourceType: 'unknown', json: false };
        }),
      },
    ]);
    const start = Date.parse('2024-03-01T00:00:00Z');
    const { signal } = new AbortController();
    const snapshot = await createPostgresSource({ connectionString: session.url, plan }).open(
      {
        model: 'given',
        tenantKey: '1',
        interval: { start, end: start + 60_000 },
        dslQuery: null,
        includeEvents: null,
        excludeEvents: null,
        nested: 'text',
      },
      signal,
    );
    // The key stays JSON: `sluice verify` reads it.
    expect(snapshot.columns.map(({ type }) => type)).toEqual([
      'as_json',
      ...names.map(() => 'text'),
    ]);
    const blocks = await readAll(snapshot, signal);
    await snapshot.close();
    const text = await encodeAll(openEncoder(csv, null, snapshot.columns), blocks);
    expect(text.toString()).toContain('[0:1]={a,b}');
    await session.client.query('alter table read alter tags type text using tags::text');
    const stream = session.client.query(copyFrom('copy read from stdin (format csv, header)'));
    stream.end(text);
    await finished(stream);
    const shown = async (table: string) =>
      (
        await session.client.query(
          `select row(${names.join(', ')})::text as row from ${table} order by row`,
        )
      ).rows;
    expect(await shown('read')).toEqual(await shown('given'));
  });
});

describe('values of JSON that readers refuse', () => {
  const columns = columnsOf({ id: 'int4', value: 'json', inside: 'as_json', plain: 'text' });
  const halves = () =>
    rowBlock(columns, [
      [1, String.raw`{"a": "\ud800"}`, String.raw`["\udc00\ud83d\ude00"]`, String.raw`\ud800`],
      [2, String.raw`"\\ud800 \ud83d\ude00 \uD83D"`, 'null', 'x'],
      [3, null, null, null],
      [4, String.raw`{"\u0000": "x\u0000y\\u0000\\\u0000"}`, String.raw`["\u0000"]`, 'x'],
    ]);

  it('get U+FFFD for half of a surrogate pair and for NUL, and nothing else changes', async () => {
    const rules = new JsonValues(columns, { jsonNull: 'keep', replaceInvalidUnicode: true });
    const lines = await encode(rules.replaceIn(halves()));
    expect(lines[0]).toBe(
      String.raw`{"id":1,"value":{"a": "\ufffd"},"inside":["\ufffd\ud83d\ude00"],"plain":"\\ud800"}`,
    );
    expect(lines[1]).toBe(
      String.raw`{"id":2,"value":"\\ud800 \ud83d\ude00 \ufffd","inside":null,"plain":"x"}`,
    );
    expect(lines[2]).toBe('{"id":3,"value":null,"inside":null,"plain":null}');
    expect(lines[3]).toBe(
      String.raw`{"id":4,"value":{"\ufffd": "x\ufffdy\\u0000\\\ufffd"},"inside":["\ufffd"],"plain":"x"}`,
    );
  });

  it('are then read by DuckDB, which refuses the file without', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-halves-'));
    const connection = await (await DuckDBInstance.create()).connect();
    const count = async (block: RowBlock) => {
      const path = join(folder, 'rows.jsonl');
      await writeFile(path, `${(await encode(block)).join('\n')}\n`);
      const read = await connection.runAndReadAll(`select count(value) from read_json('${path}')`);
      return read.getRows()[0]?.[0];
    };
    try {
      await expect(count(halves())).rejects.toThrow(/surrogate|unicode|malformed/i);
      const rules = new JsonValues(columns, { jsonNull: 'keep', replaceInvalidUnicode: true });
      expect(await count(rules.replaceIn(halves()))).toBe(3n);
    } finally {
      connection.closeSync();
      await rm(folder, { recursive: true });
    }
  });

  it('are null for the JSON value null, if the export says so', async () => {
    const types = columnsOf({ a: 'json', b: 'jsonb', c: 'text' });
    const rows = rowBlock(types, [
      [' null ', 'null', 'null'],
      ['"null"', '[null]', null],
    ]);
    const rules = new JsonValues(types, { jsonNull: 'null', replaceInvalidUnicode: false });
    const text = await encodeAll(openEncoder(csv, null, types), [rules.replaceIn(rows)]);
    expect(text.toString().split('\n').slice(1, 3)).toEqual([',,null', '"""null""",[null],']);
  });
});

async function encode(block: RowBlock): Promise<readonly string[]> {
  const text = await encodeAll(openEncoder(jsonLines, null, block.columns), [block]);
  return text.toString().split('\n').slice(0, -1);
}
