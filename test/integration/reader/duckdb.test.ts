import path from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { test } from 'vitest';
import { expectEachRowOnce, modes } from '../../support/reader-stages.ts';
import { folderOfTest } from '../../support/own-folder.ts';

test.each(Object.entries(modes))(
  'DuckDB holds each row of %s once, wherever the loading process is killed',
  async (_, mode) => {
    const folder = folderOfTest();
    const target = path.join(folder, 'events.duckdb');
    const rows = async () => {
      const instance = await DuckDBInstance.create(target);
      const connection = await instance.connect();
      const result = await connection.runAndReadAll(
        'SELECT id, person FROM present_events ORDER BY id',
      );
      const all = result.getRowObjects();
      connection.closeSync();
      instance.closeSync();
      return all.map(({ id, person }) => ({ id: Number(id), person: String(person) }));
    };
    await expectEachRowOnce(
      path.join(folder, 'bucket'),
      { name: 'duckdb.mjs', target, rows },
      mode,
    );
  },
  600_000,
);
