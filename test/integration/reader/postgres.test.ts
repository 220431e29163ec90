import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { onTestFinished, test } from 'vitest';
import { createEmptyDatabase } from '../../support/database.ts';
import { expectEachRowOnce, modes } from '../../support/reader-stages.ts';

test.each(Object.entries(modes))(
  'PostgreSQL holds each row of %s once, wherever the loading process is killed',
  async (_, mode) => {
    const folder = await mkdtemp(path.join(tmpdir(), 'sluice-reader-'));
    const database = await createEmptyDatabase();
    onTestFinished(async () => {
      await database.drop();
      await rm(folder, { recursive: true, force: true });
    });
    const rows = async () => {
      const { rows: all } = await database.pool.query(
        'SELECT id::int, person FROM present_events ORDER BY id',
      );
      return all;
    };
    await expectEachRowOnce(folder, { name: 'postgres.mjs', target: database.url, rows }, mode);
  },
  600_000,
);
