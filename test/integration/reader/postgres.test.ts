import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { onTestFinished, test } from 'vitest';
import { createEmptyDatabase } from '../../support/database.ts';
import { expectEachRowOnce } from '../../support/reader-stages.ts';

test('PostgreSQL holds each row once, wherever the loading process is killed', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'sluice-reader-'));
  const database = await createEmptyDatabase();
  onTestFinished(async () => {
    await database.drop();
    await rm(folder, { recursive: true, force: true });
  });
  const rows = async () => {
    const { rows: all } = await database.pool.query(
      'SELECT id::int, person FROM events ORDER BY id',
    );
    return all;
  };
  await expectEachRowOnce(folder, { name: 'postgres.mjs', target: database.url, rows });
}, 600_000);
