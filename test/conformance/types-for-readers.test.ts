import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { DuckDBInstance } from '@duckdb/node-api';
import { beforeAll, describe, expect, it } from 'vitest';
import { encoders, openEncoder } from '../../src/rows/encoders/index.ts';
import { askClickHouse, hasClickHouse } from '../support/clickhouse/ask.ts';
import { firstByDay, isNightly } from '../support/nightly.ts';
import { oddValues } from '../support/odd-values.ts';
import { encodeAll } from '../support/parquet-readers.ts';
import { createWildTable, readWildTable } from '../support/wild-table.ts';
import { folderOfTests } from '../support/own-folder.ts';
import { useSession } from '../support/use-session.ts';

interface Column {
  readonly name: string;
  readonly declared: string;
  /** The reader's type. */
  readonly type: string;
}

interface Reader {
  /** The first and last day that the reader knows. */
  readonly days: readonly [string, string];
  /** The rows as texts that PostgreSQL reads into the declared types; lists as JSON. */
  read(path: string, format: string, columns: readonly Column[]): Promise<readonly unknown[][]>;
  compare(column: Column, format: string, index: number): Comparison;
}

/** Two expressions over `o.<column>` and `f.row`, the list of texts that was read. */
interface Comparison {
  readonly found: string;
  readonly right: string;
  /** What has to be equal; absent: the texts. */
  readonly same?: (text: string | null) => unknown;
}

const asText = (text: string | null): unknown => text;
const asJson = (text: string | null): unknown => (text === null ? null : JSON.parse(text));

/** The value that was read has the text of the value in the table. A JSON null counts as NULL, as in JSONLines. */
function compareTexts({ name, declared }: Column, index: number): Comparison {
  const text = `(f.row ->> ${index})`;
  if (declared.endsWith('[]')) {
    return { found: `${text}::jsonb::text`, right: `to_jsonb(o.${name})::text` };
  }
  if (declared.startsWith('json')) {
    const of = (value: string) => `nullif(${value}::jsonb, 'null')::text`;
    return { found: of(text), right: of(`o.${name}`) };
  }
  return { found: `${text}::${declared}::text`, right: `o.${name}::text` };
}

const guide = readFileSync(join(import.meta.dirname, '../../docs/consumers.md'), 'utf8');

/** The type that the guide gives for a PostgreSQL type and a format. */
function typeOf(reader: string, declared: string, format: string): string {
  const section = guide.split('\n## Types\n')[1]?.split('\n## ')[0] ?? '';
  const [head = [], , ...lines] = section
    .split('\n')
    .filter((line) => line.startsWith('|'))
    .map((line) => line.split('|').map((cell) => cell.trim()));
  const at = head.indexOf(reader);
  const [, limits = ''] = /\((\d+,\d+)\)$/.exec(declared) ?? [];
  const base = limits.includes(',') ? 'numeric(p,s)' : declared.replace(/\(\d+\)$/, '');
  const other = base.endsWith('[]') ? 'arrays' : 'others';
  const line = lines
    .map((cells) => ({ cells, of: / in (\w+)$/.exec(cells[1] ?? '')?.[1] ?? null }))
    .filter(({ of }) => of === null || of === format)
    .toSorted((a, b) => Number(b.of !== null) - Number(a.of !== null))
    .map(({ cells }) => cells);
  const named = (name: string) => line.find((cells) => cells[1]?.includes(`\`${name}\``));
  const type = (named(base) ?? named(other))?.[at];
  if (!type) throw new Error(`The guide has no type of ${reader} for ${declared}.`);
  return type.replace('p,s', limits);
}

const duckDb: Reader = {
  days: ['0001-01-01', '9999-12-31'],
  async read(path, format, columns) {
    const connection = await (await DuckDBInstance.create(':memory:', { threads: '1' })).connect();
    const list = columns.map(({ name, type }) => `${name} ${type}`);
    const types = columns.map(({ name, type }) => `'${name}': '${type}'`).join(', ');
    const from = {
      JSONLines: `read_json('${path}', format = 'newline_delimited', columns = {${types}})`,
      CSV: `read_csv('${path}', header = true, allow_quoted_nulls = false, columns = {${types}})`,
      Parquet: `read_parquet('${path}')`,
    }[format];
    const texts = columns.map(({ name, type }) => {
      if (type === 'BLOB') return `'\\x' || hex(${name})`;
      return type.endsWith('[]') ? `to_json(${name})::varchar` : `${name}::varchar`;
    });
    try {
      await connection.run(`set timezone = 'UTC'; create table wild (${list.join(', ')})`);
      await connection.run(`insert into wild select * from ${from}`);
      const read = await connection.runAndReadAll(`select ${texts.join(', ')} from wild`);
      return read.getRows();
    } finally {
      connection.closeSync();
    }
  },
  compare(column, format, index) {
    const comparison = compareTexts(column, index);
    const { declared, name } = column;
    // It reads the numbers of JSON as doubles, and -0 as 0.
    if (format !== 'JSONLines') return comparison;
    if (declared.startsWith('json')) return { ...comparison, same: asJson };
    if (!/^(numeric|float)/.test(declared)) return comparison;
    const of = (value: string) =>
      `(${value}::${declared === 'float4' ? 'float4' : 'float8'} + 0)::text`;
    return { found: of(`(f.row ->> ${index})`), right: of(`o.${name}`) };
  },
};

const clickHouse: Reader = {
  days: ['1900-01-01', '2299-12-31'],
  async read(path, format, columns) {
    const list = columns.map(({ name, type }) =>
      type.startsWith('Array') ? `${name} ${type}` : `${name} Nullable(${type})`,
    );
    const texts = columns.map(({ name, type, declared }) => {
      if (type.startsWith('Array')) return `toJSONString(${name})`;
      const isBinary = declared === 'bytea' && format === 'Parquet';
      return isBinary ? `'\\\\x' || hex(${name})` : `toString(${name})`;
    });
    const known = { JSONLines: 'JSONEachRow', CSV: 'CSVWithNames', Parquet: 'Parquet' }[format];
    const rows = await askClickHouse(
      `create table wild (${list.join(', ')}) engine = Memory`,
      `insert into wild select * from file('${path}', '${known}')`,
      `select ${texts.join(', ')} from wild`,
    );
    return rows as unknown[][];
  },
  compare(column, format, index) {
    const comparison = compareTexts(column, index);
    const { type, name, declared } = column;
    // Its lists are never null.
    if (type.startsWith('Array')) {
      return { ...comparison, right: `coalesce(${comparison.right}, '[]')` };
    }
    if (format !== 'JSONLines' || !declared.startsWith('json')) return comparison;
    // A JSON text loses its quotes.
    const isText = `jsonb_typeof(o.${name}::jsonb) = 'string'`;
    const either = (text: string, other: string) =>
      `case when ${isText} then ${text} else ${other} end`;
    return {
      found: either(`f.row ->> ${index}`, comparison.found),
      right: either(`o.${name}::jsonb #>> '{}'`, comparison.right),
    };
  },
};

const folder = folderOfTests();

const session = useSession("SET timezone = 'UTC'; SET intervalstyle = 'iso_8601'");
beforeAll(async () => {
  await createWildTable(session.client, 'wild', firstByDay(1, [200, 2_000]).at(-1));
});

const cases = encoders.map((encoder) => [encoder.format, encoder] as const);

describe.each<[string, Reader]>([
  ['DuckDB', duckDb],
  ['ClickHouse', clickHouse],
])('%s', (name, reader) => {
  const table = `wild_${name.toLowerCase()}`;
  beforeAll(async () => {
    const [first, last] = reader.days;
    const days = ['day', 'local_time', 'moment'].map(
      (column) => `(${column} is null or ${column} between '${first}' and '${last}')`,
    );
    await session.client.query(
      `create table ${table} as select * from wild where ${days.join(' and ')}`,
    );
    await session.client.query(`alter table ${table} add primary key (n)`);
  });

  const isHere = reader === duckDb || (hasClickHouse && isNightly);
  it.runIf(isHere).each(cases)(
    'reads each type of %s as the guide says',
    async (format, encoder) => {
      const { columns, blocks } = await readWildTable(session.url, table);
      const path = join(folder, `${name}.${encoder.extension}`);
      const csvNull = name === 'ClickHouse' ? '\\N' : 'empty';
      const options = { csvNull } as const;
      await writeFile(path, await encodeAll(openEncoder(encoder, null, columns, options), blocks));
      const declaredOf = new Map(oddValues.map(({ column, declared }) => [column, declared]));
      const typed = columns.map((column) => {
        const declared = declaredOf.get(column.name) ?? 'int4';
        return { name: column.name, declared, type: typeOf(name, declared, format) };
      });
      const rows = await reader.read(path, format, typed);
      const loaded = `${table}_${format}`.toLowerCase();
      await session.client.query(
        `create table ${loaded} as select row from json_array_elements($1) row`,
        [JSON.stringify(rows)],
      );
      for (const [index, column] of typed.entries()) {
        const { found, right, same = asText } = reader.compare(column, format, index);
        const { rows: texts } = await session.client.query(
          `select o.n, ${found} as found, ${right} as right from ${table} o
             left join ${loaded} f on (f.row ->> 0)::int = o.n`,
        );
        const wrong = texts.filter((row) => !isDeepStrictEqual(same(row.found), same(row.right)));
        expect({ ...column, wrong: wrong.slice(0, 3) }).toEqual({ ...column, wrong: [] });
      }
      expect(rows).toHaveLength(blocks.reduce((sum, { rowCount }) => sum + rowCount, 0));
    },
  );
});
