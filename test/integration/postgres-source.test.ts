import { createHash } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import { eventsModel } from '../../src/foundation/domain/events-model.ts';
import type { Column, RowBlock } from '../../src/foundation/domain/row-block.ts';
import { createPostgresSource, type PostgresSourceOptions } from '../../src/rows/sources/index.ts';
import type { PlanSelect, RequestPlan } from '../../src/rows/sources/postgres/plan.ts';
import type { SourceRequest } from '../../src/rows/sources/source.ts';
import { createEmptyDatabase } from '../support/database.ts';
import {
  columnBytes,
  createEvents,
  eventsRequest,
  insertEvents,
  readAll,
} from '../support/source-tables.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/until.ts';
import { atNight } from '../support/nightly.ts';
import { useStage } from '../support/use-stage.ts';

const day = '2024-03-01T00:00:00Z';
const hour = eventsRequest(1, day, '2024-03-01T01:00:00Z');
/** About 40 MB, far more than all the buffers between server and reader. */
const wide = eventsRequest(3, day, '2024-03-01T01:00:00Z');
const never = new AbortController().signal;

const sourceOf = (options: Partial<PostgresSourceOptions> = {}) =>
  createPostgresSource({ connectionString: database.url, ...options });

const database = useStage(createEmptyDatabase);
beforeAll(async () => {
  await database.pool.query(createEvents);
  await insertEvents(database.pool, { team: 1, start: day, count: 7300, everyMs: 500 });
  await insertEvents(database.pool, { team: 2, start: day, count: 300, everyMs: 0 });
  await insertEvents(database.pool, {
    team: 3,
    start: day,
    count: 10_000,
    everyMs: 20,
    padding: 4000,
  });
  await database.sql`VACUUM ANALYZE events`;
});

/** The rows of a request, and what was reported about them. */
async function read(request: SourceRequest, options: Partial<PostgresSourceOptions> = {}) {
  const snapshot = await sourceOf(options).open(request, never);
  try {
    const blocks = await readAll(snapshot, never);
    return { blocks, snapshot };
  } finally {
    await snapshot.close();
  }
}

function uuidsOf(blocks: readonly RowBlock[]): string[] {
  return columnBytes(blocks, 'uuid').map((bytes) => bytes?.toString('hex') ?? '');
}

function digestOf(blocks: readonly RowBlock[]): string {
  const hash = createHash('sha256');
  for (const { bytes } of blocks) hash.update(bytes);
  return hash.digest('hex');
}

async function expectedUuids(where: string): Promise<string[]> {
  const { rows } = await database.pool.query<{ id: string }>(
    `SELECT replace(uuid::text, '-', '') AS id FROM events WHERE ${where} ORDER BY inserted_at, uuid`,
  );
  return rows.map(({ id }) => id);
}

/** For what each session with a name waits on the server. */
async function waitsOf(name: string) {
  const { rows } = await database.sql<{ wait_event: string | null }>`
    SELECT wait_event FROM pg_stat_activity WHERE application_name = ${name}`;
  return rows.map(({ wait_event }) => wait_event);
}
/** Resolves once no session that the source left is on the server. */
const noSession = (name: string) =>
  until(async () => (await waitsOf(name)).length === 0, {
    message: `the sessions of ${name} to end`,
  });

describe('rows of an interval', () => {
  it('holds its start and not its end, in the order of arrival, of one team only', async () => {
    const found = await read(hour);
    expect(uuidsOf(found.blocks)).toEqual(
      await expectedUuids(
        `team_id = 1 AND inserted_at >= '${day}' AND inserted_at < '2024-03-01 01:00Z'`,
      ),
    );
    expect(found.snapshot.totalCount).toBe(7200);
  });

  it('reads slices that tile the interval', async () => {
    const snapshot = await sourceOf({ sliceMs: 7 * 60_000 }).open(hour, never);
    const { slices } = snapshot;
    expect(slices[0]?.start).toBe(hour.interval.start);
    expect(slices.at(-1)?.end).toBe(hour.interval.end);
    const starts = slices.slice(1).map(({ start }) => start);
    expect(starts).toEqual(slices.slice(0, -1).map(({ end }) => end));
    let rows = 0;
    for (const slice of slices) {
      for await (const block of snapshot.read(slice, never)) rows += block.rowCount;
    }
    expect(rows).toBe(snapshot.totalCount);
    expect(rows).toBe(7200);
    await snapshot.close();
  });

  it.each([
    ['includes', { includeEvents: ['event 1', "o'x\\"] }, "event = 'event 1'"],
    ['excludes', { excludeEvents: ['event 1', 'event 2'] }, "event = 'event 0'"],
    [
      'excludes what was included',
      { includeEvents: ['event 1'], excludeEvents: ['event 1'] },
      'false',
    ],
    ['takes no names for no filter', { includeEvents: [], excludeEvents: [] }, 'true'],
  ])('%s events by name', async (_, filters, where) => {
    const found = await read({ ...hour, ...filters });
    const uuids = uuidsOf(found.blocks);
    expect(uuids).toEqual(
      await expectedUuids(`team_id = 1 AND inserted_at < '2024-03-01 01:00Z' AND ${where}`),
    );
    expect(found.snapshot.totalCount).toBe(uuids.length);
  });
});

describe('reading again', () => {
  it('gives the same bytes if nothing changed, though the rows were moved', async () => {
    const tied = eventsRequest(2, day, '2024-03-01T01:00:00Z');
    const digests = async () => [
      digestOf((await read(hour)).blocks),
      digestOf((await read(tied)).blocks),
    ];
    const before = await digests();
    await database.sql`CREATE INDEX by_person ON events (person_id)`;
    await database.sql`CLUSTER events USING by_person`;
    await database.sql`ANALYZE events`;
    expect(await digests()).toEqual(before);
  });

  atNight('cuts the same blocks', async () => {
    const counts = async () => (await read(wide)).blocks.map(({ rowCount }) => rowCount);
    expect(await counts()).toEqual(await counts());
  });
});

describe('a snapshot', () => {
  it('shows none of what happens after it was opened, in no slice and on no connection', async () => {
    const request = eventsRequest(4, day, '2024-03-01T00:20:00Z');
    await insertEvents(database.pool, { team: 4, start: day, count: 2000, everyMs: 500 });
    const snapshot = await sourceOf().open(request, never);
    await database.sql`DELETE FROM events WHERE team_id = 4`;
    await insertEvents(database.pool, { team: 4, start: day, count: 50, everyMs: 500 });
    // Both slices at once: the second read has a connection of its own.
    const [first, second] = snapshot.slices.map((slice) => snapshot.read(slice, never));
    const rows = [0, 0];
    const blocks = [await first?.[Symbol.asyncIterator]().next(), null];
    rows[0] = blocks[0]?.value?.rowCount ?? 0;
    for await (const block of second ?? []) rows[1] = (rows[1] ?? 0) + block.rowCount;
    expect([snapshot.totalCount, rows]).toEqual([2000, [1200, 800]]);
    expect(snapshot.snapshot).toMatch(/^\d+:\d+:/);
    await snapshot.close();
  });

  it('leaves no session behind, closed or left in the middle of a slice', async () => {
    const applicationName = 'left early';
    const snapshot = await sourceOf({ applicationName }).open(wide, never);
    for await (const block of snapshot.read(wide.interval, never)) {
      expect(block.rowCount).toBeGreaterThan(0);
      break;
    }
    await noSession(applicationName);
    await snapshot.close();
    await (await sourceOf({ applicationName }).open(hour, never)).close();
    await noSession(applicationName);
  });
});

it('a slow consumer stops the server: it waits for the client, and memory stays flat', async () => {
  const applicationName = 'slow consumer';
  const source = sourceOf({ applicationName, blockBytes: 1 << 16 });
  const snapshot = await source.open(wide, never);
  const rows = snapshot.read(wide.interval, never)[Symbol.asyncIterator]();
  const first = await rows.next();
  const before = process.memoryUsage().arrayBuffers;
  await until(async () => (await waitsOf(applicationName))[0] === 'ClientWrite');
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(4_000_000);
  let count: number = first.value?.rowCount ?? 0;
  for (let next = await rows.next(); !next.done; next = await rows.next()) {
    count += next.value.rowCount;
  }
  expect(count).toBe(10_000);
  await snapshot.close();
});

/** A plan of one column that counts one row and then runs `sql`. */
function planOf(column: Column, sql: string): RequestPlan {
  const counts = { countSql: () => 'SELECT 1', countLateSql: () => 'SELECT 0' };
  return {
    model: eventsModel,
    sequence: null,
    used: { columns: [], describeSql: null },
    relation: {
      schema: 'public',
      table: 'events',
      name: 'public.events',
      tenantColumn: 'team_id',
      isFiltered: false,
      callsFunctions: false,
    },
    describeSql: 'SELECT 1',
    ...counts,
    select: () => ({
      columns: [column],
      explainSql: () => '',
      copySql: () => sql,
      hidden: [],
      projection: null,
      keys: null,
      moment: { name: 'at', type: 'timestamptz', sourceType: 'timestamp with time zone' },
      ...counts,
    }),
  };
}

describe('an abort', () => {
  /** A statement that gives no row for ten minutes. */
  const sleeping: PlanSelect = () =>
    planOf(
      { name: 'slept', type: 'text', sourceType: 'text' },
      'COPY (SELECT pg_sleep(600)::text) TO STDOUT (FORMAT binary)',
    );

  it('rejects the read at once, and the server stops though it had nothing to send', async () => {
    const applicationName = 'aborted read';
    const controller = new AbortController();
    const source = sourceOf({ applicationName, plan: sleeping });
    const snapshot = await source.open(hour, controller.signal);
    const next = snapshot.read(hour.interval, controller.signal)[Symbol.asyncIterator]().next();
    await until(async () => (await waitsOf(applicationName)).includes('PgSleep'));
    controller.abort(new Error('the run was cancelled'));
    await expect(next).rejects.toThrow('the run was cancelled');
    await noSession(applicationName);
    await snapshot.close();
  });

  it('rejects between two blocks', async () => {
    const controller = new AbortController();
    const snapshot = await sourceOf().open(wide, never);
    const rows = snapshot.read(wide.interval, controller.signal)[Symbol.asyncIterator]();
    await rows.next();
    controller.abort(new Error('the lease was lost'));
    await expect(rows.next()).rejects.toThrow('the lease was lost');
    await snapshot.close();
  });

  it('rejects opening, before it began and while it counts', async () => {
    const aborted = AbortSignal.abort(new Error('too late'));
    await expect(sourceOf().open(hour, aborted)).rejects.toThrow('too late');
    const controller = new AbortController();
    const applicationName = 'aborted count';
    const plan: PlanSelect = (request) => {
      return { ...sleeping(request), countSql: () => 'SELECT pg_sleep(600)' };
    };
    const opening = sourceOf({ applicationName, plan }).open(hour, controller.signal);
    await until(async () => (await waitsOf(applicationName)).includes('PgSleep'));
    controller.abort(new Error('the worker stops'));
    await expect(opening).rejects.toThrow('the worker stops');
    await noSession(applicationName);
  });
});

describe('a failure', () => {
  const failing =
    (sql: string): PlanSelect =>
    () =>
      planOf(
        { name: 'value', type: 'int4', sourceType: 'integer' },
        `COPY (${sql}) TO STDOUT (FORMAT binary)`,
      );

  it.each([
    // No query of a customer takes part in it.
    ['source.model_invalid', 'SELECT 1 / (n - 5000) FROM generate_series(1, 9000) n', {}],
    ['source.timeout', 'SELECT 1 FROM pg_sleep(60)', { statementTimeoutMs: 100 }],
    ['source.relation_missing', 'SELECT 1 FROM nowhere', {}],
    ['source.unavailable', 'SELECT 1, 2', {}],
  ])('in the middle of the rows is %s, never a short read', async (code, sql, options) => {
    const snapshot = await sourceOf({ ...options, plan: failing(sql) }).open(hour, never);
    await expect(readAll(snapshot, never)).rejects.toMatchObject({ code });
    await snapshot.close();
  });

  it('of a lost connection is unavailable, at every place', async () => {
    const url = new URL(database.url);
    const proxy: TcpProxy = await startTcpProxy({
      target: { host: url.hostname, port: Number(url.port) },
    });
    url.host = `${proxy.host}:${proxy.port}`;
    const source = createPostgresSource({ connectionString: url.href, connectTimeoutMs: 2000 });
    for (const bytes of [1, 500, 2500, 100_000, 30_000_000]) {
      proxy.resetAfterBytes(bytes);
      const attempt = async () => {
        const snapshot = await source.open(wide, never);
        await readAll(snapshot, never).finally(() => snapshot.close());
      };
      await expect(attempt()).rejects.toMatchObject({ code: 'source.unavailable' });
    }
    await proxy.refuse();
    await expect(source.open(hour, never)).rejects.toMatchObject({ code: 'source.unavailable' });
    await proxy.close();
  });
});
