import fc from 'fast-check';
import type pg from 'pg';
import type { Column, RowBlock } from '../../src/foundation/domain/row-block.ts';
import { createPostgresSource, planModels } from '../../src/rows/sources/index.ts';
import { oddValues } from './odd-values.ts';
import { eventsRequest, readAll } from './source-tables.ts';
import { plainModel } from './plain-model.ts';

/** A table of `oddValues`: one value in each row, and `more` rows with a value of every column. */
export async function createWildTable(client: pg.Client, name: string, more = 0): Promise<void> {
  const columns = oddValues.map(({ column, declared }) => `${column} ${declared}`);
  await client.query(
    `CREATE TABLE ${name} (n int PRIMARY KEY, team_id int, at timestamptz, ${columns.join(', ')})`,
  );
  let n = 0;
  const insert = async (names: readonly string[], values: readonly string[]): Promise<void> => {
    const places = values.map((_, index) => `$${index + 2}`);
    await client.query(
      `INSERT INTO ${name} (n, team_id, at, ${names.join(', ')}) VALUES ($1, 1, '2024-03-01Z', ${places.join(', ')})`,
      [n, ...values],
    );
    n += 1;
  };
  for (const { column, values } of oddValues) {
    for (const value of values) await insert([column], [value]);
  }
  const names = oddValues.map(({ column }) => column);
  const whole = fc.tuple(...oddValues.map(({ values }) => fc.constantFrom(...values)));
  for (const values of fc.sample(whole, { numRuns: more, seed: 20240301 })) {
    await insert(names, values);
  }
}

/** The rows of such a table as a run reads them. */
export async function readWildTable(
  url: string,
  name: string,
): Promise<{ readonly columns: readonly Column[]; readonly blocks: readonly RowBlock[] }> {
  const names = ['n', ...oddValues.map(({ column }) => column)];
  const about = { tenantColumn: 'team_id', keyColumns: ['n'], onSchemaChange: 'follow' } as const;
  const types = Object.fromEntries(names.map((each) => [each, 'unknown']));
  const plan = planModels([plainModel(name, types, about)]);
  const { signal } = new AbortController();
  const snapshot = await createPostgresSource({ connectionString: url, plan }).open(
    eventsRequest(1, '2024-03-01T00:00:00Z', '2024-03-01T00:01:00Z', { model: name }),
    signal,
  );
  const { columns } = snapshot;
  const blocks = await readAll(snapshot, signal);
  await snapshot.close();
  return { columns, blocks };
}
