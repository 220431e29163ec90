import { beforeAll, expect, onTestFinished, test } from 'vitest';
import { createPostgresSource } from '../../../src/rows/sources/index.ts';
import { manyRows, type Source } from '../../../src/rows/sources/source.ts';
import { createEmptyDatabase } from '../../support/database.ts';
import { createEvents, insertEvents, readAll, hourRequest } from '../../support/source-tables.ts';
import { until } from '../../support/until.ts';
import { startTcpProxy, type TcpProxy } from '../../support/tcp-proxy.ts';
import { mayHaveLateRows } from '../../support/late-rows.ts';
import { useStage } from '../../support/use-stage.ts';

const never = new AbortController().signal;
const request = hourRequest();

const database = useStage(createEmptyDatabase);
beforeAll(async () => {
  await database.pool.query(createEvents);
  const given = { team: 1, start: '2024-03-01T00:00:00Z', count: manyRows + 500, everyMs: 100 };
  await insertEvents(database.pool, given);
  await database.sql`VACUUM ANALYZE events`;
});

/** A source behind a proxy that can fall silent, without a reset: the client gets no notice. */
async function silenceable(
  work: (source: Source, proxy: TcpProxy) => Promise<void>,
  { statementTimeoutMs = 1_500, connectTimeoutMs = 1_000, silenceMs = 500, seconds = '' } = {},
) {
  const proxy = await startTcpProxy({ target: { port: Number(new URL(database.url).port) } });
  const url = new URL(database.url);
  url.host = `${proxy.host}:${proxy.port}`;
  if (seconds !== '') url.searchParams.set('connect_timeout', seconds);
  const timeouts = { connectTimeoutMs, statementTimeoutMs, silenceMs, settlePollMs: 20 };
  const source = createPostgresSource({ connectionString: url.href, ...timeouts });
  await work(source, proxy).finally(() => proxy.close());
}

const unavailable = { code: 'source.unavailable' };

async function exportAll(source: Source): Promise<void> {
  const snapshot = await source.open(request, never);
  try {
    await readAll(snapshot, never);
    await snapshot.countRows(never);
  } finally {
    await snapshot.close();
  }
}

// From the first bytes of the connection to the middle of the rows.
test.each([1, 100, 400, 700, 1_000, 1_500, 2_000, 3_000, 5_000, 50_000, 1_000_000])(
  'a server that falls silent after %i bytes is given up',
  (bytes) =>
    silenceable(async (source, proxy) => {
      proxy.pauseAfterBytes(bytes);
      await expect(exportAll(source)).rejects.toMatchObject(unavailable);
    }),
);

test('a server that falls silent before the count is given up', () =>
  silenceable(async (source, proxy) => {
    const snapshot = await source.open(request, never);
    await readAll(snapshot, never);
    expect(snapshot.totalCount).toBeNull();
    proxy.pause();
    await expect(snapshot.countRows(never)).rejects.toMatchObject(unavailable);
    await snapshot.close();
  }));

test('a server that falls silent while its keys are compared is given up', () =>
  silenceable(async (source, proxy) => {
    const earlier = { snapshot: '1:1:', digest: null, count: 0 };
    proxy.pauseAfterBytes(50_000);
    await expect(mayHaveLateRows(source, request, earlier, null, never)).rejects.toMatchObject(
      unavailable,
    );
  }));

test('a server that falls silent at the end lets a snapshot close', () =>
  silenceable(async (source, proxy) => {
    const snapshot = await source.open(request, never);
    await readAll(snapshot, never);
    proxy.pause();
    await snapshot.close();
  }));

const slow = { statementTimeoutMs: 3_600_000, connectTimeoutMs: 200, silenceMs: 300 };

test.each([50_000, 1_000_000])(
  'a server that falls silent after %i bytes is given up long before its statement may end',
  (bytes) =>
    silenceable(async (source, proxy) => {
      proxy.pauseAfterBytes(bytes);
      await expect(exportAll(source)).rejects.toMatchObject(unavailable);
    }, slow),
);

test('a slow statement goes on as long as its server answers new connections', async () => {
  const { pool } = database;
  // Each statement waits for the gate.
  await pool.query(`
    create function gate() returns boolean language sql volatile as
      'select pg_advisory_lock_shared(7), pg_advisory_unlock_shared(7); select true';
    alter table events rename to all_events;
    create view events as select * from all_events where (select gate())`);
  const gate = await pool.connect();
  const counted = 'select sessions::int from pg_stat_database where datname = current_database()';
  const sessions = async () => (await pool.query(counted)).rows[0]?.sessions ?? 0;
  onTestFinished(async () => {
    gate.release();
    await pool.query(
      'drop view events; alter table all_events rename to events; drop function gate',
    );
  });
  await silenceable(
    async (source) => {
      const snapshot = await source.open(request, never);
      await gate.query('select pg_advisory_lock(7)');
      const before = await sessions();
      const reading = readAll(snapshot, never);
      reading.catch(() => {});
      await until(async () => (await sessions()) >= before + 10, { message: 'ten looks' });
      await gate.query('select pg_advisory_unlock(7)');
      const blocks = await reading;
      expect(blocks.reduce((rows, block) => rows + block.rowCount, 0)).toBe(manyRows + 500);
      await snapshot.close();
    },
    { ...slow, connectTimeoutMs: 10_000 },
  );
});

test('a server that lets sessions in late is waited for as long as its address says', async () => {
  await silenceable(
    async (source, proxy) => {
      proxy.delay(200);
      const snapshot = await source.open(request, never);
      proxy.delay(0);
      await snapshot.close();
    },
    { connectTimeoutMs: 500, statementTimeoutMs: 30_000, silenceMs: 30_000, seconds: '10' },
  );
});
