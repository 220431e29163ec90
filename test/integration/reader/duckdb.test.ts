import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { onTestFinished, test } from 'vitest';
import { expectEachRowOnce } from '../../support/reader-stages.ts';

test('DuckDB holds each row once, wherever the loading process is killed', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'sluice-reader-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const target = path.join(folder, 'events.duckdb');
  const rows = async () => {
    const instance = await DuckDBInstance.create(target);
    const connection = await instance.connect();
    const result = await connection.runAndReadAll('SELECT id, person FROM events ORDER BY id');
    const all = result.getRowObjects();
    connection.closeSync();
    instance.closeSync();
    return all.map(({ id, person }) => ({ id: Number(id), person: String(person) }));
  };
  await expectEachRowOnce(path.join(folder, 'bucket'), { name: 'duckdb.mjs', target, rows });
}, 600_000);
