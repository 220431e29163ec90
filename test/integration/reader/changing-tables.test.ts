import { readFileSync } from 'node:fs';
import path from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { expect, onTestFinished, test } from 'vitest';
import { parseModelsFile } from '../../../src/foundation/config/models-file.ts';
import { askClickHouse, hasClickHouse } from '../../support/clickhouse/ask.ts';
import { createEmptyDatabase } from '../../support/database.ts';
import { inTest } from '../../support/use-stage.ts';

const read = (page: string) =>
  readFileSync(path.resolve(import.meta.dirname, '../../../docs', page), 'utf8');
const fence = '`'.repeat(3);
const blocks = (text: string, language: string) =>
  [...text.matchAll(new RegExp(`^${fence}${language}\n(.*?)^${fence}$`, 'gms'))].map(
    ([, block]) => block ?? '',
  );
const section = read('consumers.md').split('\n## Tables that change\n')[1] ?? '';
const [duckDbView = '', postgresView = '', clickHouseView = ''] = blocks(section, 'sql');

/** A base, changes, a new base, and changes of it; some came twice. */
const log = `create table orders_log (id bigint, state text, _sluice_op text, _sluice_version bigint, _sluice_element bigint);
  insert into orders_log values
    (1, 'new', 'r', 10, 0), (2, 'new', 'r', 10, 0), (9, 'gone before the base', 'r', 10, 0),
    (1, 'paid', 'u', 12, 1),
    (1, 'sent', 'r', 11, 3), (2, 'new', 'r', 10, 3), (3, 'new', 'r', 13, 3),
    (2, null, 'd', 15, 4), (3, 'paid', 'u', 14, 4), (4, 'new', 'u', 16, 4), (4, 'new', 'u', 16, 4),
    (3, 'sent', 'u', 9, 5), (4, null, 'd', 17, 5), (5, 'new', 'u', 18, 5);`;

const wanted = [
  { id: 1, state: 'sent' },
  { id: 3, state: 'sent' },
  { id: 5, state: 'new' },
];

test('the view of DuckDB has the present rows', async () => {
  const instance = await DuckDBInstance.create(':memory:');
  const connection = await instance.connect();
  onTestFinished(() => {
    connection.closeSync();
    instance.closeSync();
  });
  await connection.run(log);
  const result = await connection.runAndReadAll(`select * from (${duckDbView}) order by id`);
  const rows = result.getRowObjects().map(({ id, state }) => ({ id: Number(id), state }));
  expect(rows).toEqual(wanted);
});

test('the view of PostgreSQL has the present rows', async () => {
  const database = await inTest(createEmptyDatabase());
  await database.pool.query(log);
  const { rows } = await database.pool.query(`select * from (${postgresView}) v order by id`);
  expect(rows.map(({ id, state }) => ({ id: Number(id), state }))).toEqual(wanted);
});

test.runIf(hasClickHouse)('the view of ClickHouse has the present rows', async () => {
  const [create = '', insert = ''] = log.split(';');
  const table = `${create.replaceAll('text', 'Nullable(String)').replaceAll('bigint', 'Int64')} engine = Memory`;
  const rows = await askClickHouse(table, insert, `select * from (${clickHouseView}) order by id`);
  expect(rows.map(([id, state]) => ({ id: Number(id), state }))).toEqual(wanted);
});

test('the models file of the page is one', () => {
  const [models = ''] = blocks(read('changing-tables.md'), 'yaml');
  const [parsed] = parseModelsFile(models, 'models.yaml', { checkExpression: () => null, env: {} });
  expect(parsed?.model.changes).toEqual({
    versionColumn: 'sluice_version',
    setBy: 'database',
    deletes: {
      kind: 'tombstones',
      relation: { schema: 'public', name: 'deleted_orders' },
      days: null,
    },
  });
});
