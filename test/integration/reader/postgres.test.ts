import { onTestFinished, test } from 'vitest';
import { createEmptyDatabase } from '../../support/database.ts';
import { firstByDay } from '../../support/nightly.ts';
import { folderOfTest } from '../../support/own-folder.ts';
import { expectEachRowOnce, modes } from '../../support/reader-stages.ts';

test.each(firstByDay(1, Object.entries(modes)))(
  'PostgreSQL holds each row of %s once, wherever the loading process is killed',
  async (_, mode) => {
    const folder = folderOfTest();
    const database = await createEmptyDatabase();
    onTestFinished(() => database.drop());
    const rows = async () => {
      const { rows: all } = await database.sql<{ id: number; person: string }>`
        SELECT id::int, person FROM present_events ORDER BY id`;
      return all;
    };
    await expectEachRowOnce(folder, { name: 'postgres.mjs', target: database.url, rows }, mode);
  },
  600_000,
);
