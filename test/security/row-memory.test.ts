import { beforeAll, describe, expect, test } from 'vitest';
import { readConfig } from '../../src/foundation/config/config.ts';
import { checkRowLimit, maxRowMib } from '../../src/main/row-limit.ts';
import { createPostgresSource } from '../../src/rows/sources/index.ts';
import { createEmptyDatabase } from '../support/database.ts';
import { backfill, createS3Export, hour, untilEnded } from '../support/exported-events.ts';
import { startInstallation } from '../support/installation.ts';
import { isNightly } from '../support/nightly.ts';
import { peakMib } from '../support/processes.ts';
import { createEvents, eventsRequest } from '../support/source-tables.ts';
import { inTest, useStage } from '../support/use-stage.ts';

const never = new AbortController().signal;

describe('a source whose rows need memory', () => {
  const database = useStage(createEmptyDatabase);
  beforeAll(() => database.pool.query(createEvents));

  async function readWith(
    texts: readonly string[],
    holdRow: (bytes: number, signal: AbortSignal) => Promise<() => void>,
  ): Promise<readonly number[]> {
    await database.pool.query('delete from events');
    for (const [n, text] of texts.entries()) {
      await database.sql`insert into events (uuid, team_id, event, inserted_at) values
        (gen_random_uuid(), 1, ${text}, ${hour.start}::timestamptz + ${n} * interval '1 second')`;
    }
    const source = createPostgresSource({ connectionString: database.url, holdRow });
    const dslQuery = 'SELECT event FROM events';
    const snapshot = await source.open(eventsRequest(1, hour.start, hour.end, { dslQuery }), never);
    const lengths: number[] = [];
    try {
      for (const slice of snapshot.slices) {
        for await (const block of snapshot.read(slice, never)) {
          const width = block.columns.length;
          for (let row = 0; row < block.rowCount; row += 1) {
            lengths.push(block.lengths[row * width] ?? -1);
          }
        }
      }
    } finally {
      await snapshot.close();
    }
    return lengths;
  }

  test('asks for it before each large row, holds one at a time, and gives all back', async () => {
    const sizes = [10, 5_000_000, 20, 7_000_000, 9_000_000, 30];
    let held = 0;
    let most = 0;
    const asked: number[] = [];
    const lengths = await readWith(
      sizes.map((size) => 'a'.repeat(size)),
      async (bytes) => {
        asked.push(bytes);
        held += 1;
        most = Math.max(most, held);
        return () => {
          held -= 1;
        };
      },
    );
    expect(lengths).toEqual(sizes);
    expect(asked).toHaveLength(3);
    for (const [n, size] of [5_000_000, 7_000_000, 9_000_000].entries()) {
      expect(asked[n]).toBeGreaterThan(size);
    }
    expect(most).toBe(1);
    expect(held).toBe(0);
  });

  test('asks for nothing if its rows are small', async () => {
    const asked: number[] = [];
    const lengths = await readWith(['a'.repeat(1_000_000), 'b'], async (bytes) => {
      asked.push(bytes);
      return () => {};
    });
    expect(lengths).toEqual([1_000_000, 1]);
    expect(asked).toEqual([]);
  });

  test('fails with the reason if it cannot have it', async () => {
    const reason = new Error('no memory');
    await expect(
      readWith(['a'.repeat(5_000_000)], () => Promise.reject(reason)),
    ).rejects.toMatchObject({ cause: reason });
  });
});

describe('the maximum size of a row', () => {
  test('is 64 MiB, or less if the worker has less memory', () => {
    expect(maxRowMib(readConfig({}))).toBe(64);
    expect(maxRowMib(readConfig({ WORKER_MEMORY_MB: '400' }))).toBe(38);
    expect(maxRowMib(readConfig({ WORKER_MEMORY_MB: '192' }))).toBe(8);
    expect(maxRowMib(readConfig({ WORKER_MEMORY_MB: '4096' }))).toBe(64);
  });

  test('must fit into the memory of a worker, which refuses to start otherwise', () => {
    const start = (env: Record<string, string>) => checkRowLimit(readConfig(env));
    expect(() => start({ MAX_ROW_MIB: '128' })).toThrow(
      'MAX_ROW_MIB=128 needs a WORKER_MEMORY_MB of at least 758: a worker holds a row up to 4 times. Lower MAX_ROW_MIB to 82, or raise WORKER_MEMORY_MB.',
    );
    expect(() => start({ MAX_ROW_MIB: '128', WORKER_MEMORY_MB: '758' })).not.toThrow();
    expect(() => start({})).not.toThrow();
    expect(() => start({ WORKER_MEMORY_MB: '192' })).not.toThrow();
  });
});

test.runIf(isNightly)(
  'four runs with rows of nearly 64 MiB stay within the memory of their worker',
  async () => {
    const installation = await inTest(startInstallation({ workers: 0 }));
    const [team] = installation.tenant.projectIds;
    await installation.pool.query(
      `insert into events (uuid, team_id, event, distinct_id, inserted_at)
       select gen_random_uuid(), $1, repeat('a', 66000000), 'x', $2::timestamptz + n * interval '1 minute'
         from generate_series(1, 2) n`,
      [team, hour.start],
    );
    const exports = await Promise.all(
      Array.from({ length: 4 }, () =>
        createS3Export(installation, {
          config: { file_format: 'JSONLines', compression: 'gzip' },
        }),
      ),
    );
    for (const id of exports) await backfill(installation, id, hour);
    const worker = await installation.startWorker({
      WORKER_MEMORY_MB: '512',
      WORKER_CONCURRENCY: '4',
      // A busy machine must not take the runs away.
      LEASE_SECONDS: '60',
    });
    for (const id of exports) {
      const [run] = await untilEnded(installation, id);
      // A run that was expected to be small begins again as a large one.
      expect(run).toMatchObject({ status: 'Completed', faults: 0, crashes: 0, rows: 2 });
    }
    expect(peakMib(worker.pid)).toBeLessThan(512);
  },
);
