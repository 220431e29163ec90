import { afterAll, beforeAll, expect, test } from 'vitest';
import { joinTransaction } from '../../../src/state/store/database/database.ts';
import { appendLogEntries } from '../../../src/state/store/exports/log-entries.ts';
import { type ApiUnderTest, startApiUnderTest } from '../../support/api-under-test.ts';
import { exportBody } from '../../support/batch-export-bodies.ts';

let api: ApiUnderTest;
let exports: string;

beforeAll(async () => {
  api = await startApiUnderTest();
  exports = `${api.project}/batch_exports`;
});
afterAll(() => api?.stop());

/** A live run, what writes to its log, and what reads its tail. */
async function createRun() {
  const exportId = String(
    (await api.client.post(exports, exportBody({ interval: 'week' }))).body.id,
  );
  const [teamId] = api.tenant.projectIds;
  const [run] = await api.db.query<{ id: string }>(
    `insert into runs (export_id, team_id, status, data_interval_start, data_interval_end)
     values ($1, $2, 'Running', '2024-03-01T00:00Z', '2024-03-01T01:00Z') returning id`,
    [exportId, teamId],
  );
  const runId = run?.id ?? '';
  const entry = (message: string) => ({ teamId, exportId, runId, level: 'INFO' as const, message });
  const path = `${exports}/${exportId}/runs/${runId}/logs/tail`;
  return {
    runId,
    path,
    entry,
    write: (...messages: string[]) => appendLogEntries(api.db, messages.map(entry)),
    async read(query = '') {
      const { status, body } = await api.client.get(`${path}?${query}`);
      expect([status, body.detail]).toEqual([200, undefined]);
      const { results, cursor, has_more, ended } = body as unknown as Tail;
      return {
        messages: results.map((one) => one.entry.message),
        results,
        cursor,
        has_more,
        ended,
      };
    },
  };
}

interface Tail {
  readonly results: readonly {
    readonly id: number;
    readonly entry: { readonly message: string };
  }[];
  readonly cursor: string;
  readonly has_more: boolean;
  readonly ended: boolean;
}

test('begins with the newest entries, and goes on with what is written', async () => {
  const { write, read } = await createRun();
  await write('one', 'two', 'three');
  const first = await read('limit=2');
  expect(first).toMatchObject({ messages: ['two', 'three'], has_more: false, ended: false });
  await write('four');
  const second = await read(`cursor=${first.cursor}`);
  expect(second.messages).toContain('four');
  await write('five');
  expect((await read(`cursor=${second.cursor}`)).messages).toContain('five');
});

function latch(): { readonly opened: Promise<void>; readonly open: () => void } {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open: () => open() };
}

test('misses no entry whose transaction ends after a newer one', async () => {
  const { read, entry } = await createRun();
  const [begun, mayEnd] = [latch(), latch()];
  const slow = api.db.transaction(async (tx) => {
    // A savepoint has a transaction number of its own.
    await joinTransaction(tx).transaction((inner) => appendLogEntries(inner, [entry('slow')]));
    begun.open();
    await mayEnd.opened;
  });
  await begun.opened;
  // Of a level whose counter the slow transaction has not locked.
  await appendLogEntries(api.db, [{ ...entry('fast'), level: 'WARNING' }]);
  const first = await read();
  expect(first.messages).toEqual(['fast']);
  mayEnd.open();
  await slow;
  const second = await read(`cursor=${first.cursor}`);
  expect(second.messages).toContain('slow');
  const ids = new Set([...first.results, ...second.results].map(({ id }) => id));
  expect(ids.size).toBe(2);
});

test('a client that asks again much later gets all of it, page by page', async () => {
  const { write, read } = await createRun();
  const { cursor: start } = await read();
  for (let n = 0; n < 5; n += 1) await write(`line ${n}`);
  const seen = new Map<number, string>();
  let cursor = start;
  for (let pages = 0, more = true; more; pages += 1) {
    expect(pages).toBeLessThan(10);
    const page = await read(`limit=2&cursor=${cursor}`);
    for (const { id, entry } of page.results) seen.set(id, entry.message);
    ({ cursor, has_more: more } = page);
  }
  expect([...seen.values()]).toEqual(['line 0', 'line 1', 'line 2', 'line 3', 'line 4']);
});

test('an answer ends before 1 MiB, and the next one goes on where it ended', async () => {
  const { runId, read } = await createRun();
  let { cursor } = await read();
  await api.db.query(
    `insert into log_entries (team_id, export_id, run_id, level, message)
     select team_id, export_id, id, 'INFO', n || repeat('"', 1100) from runs, generate_series(1, 1000) n where id = $1`,
    [runId],
  );
  const seen = new Set<number>();
  let answers = 0;
  for (let more = true; more; answers += 1) {
    expect(answers).toBeLessThan(10);
    const page = await read(`limit=1000&cursor=${cursor}`);
    expect(JSON.stringify(page.results).length).toBeLessThan(1.1 * 2 ** 20);
    for (const { id } of page.results) seen.add(id);
    ({ cursor, has_more: more } = page);
  }
  expect([seen.size, answers > 1]).toEqual([1_000, true]);
  // Without a cursor it has the newest.
  const newest = await read('limit=1000');
  expect(JSON.stringify(newest.results).length).toBeLessThan(1.1 * 2 ** 20);
  expect(newest.results.at(-1)?.id).toBe(Math.max(...seen));
});

test('says that the run has ended', async () => {
  const { runId, read } = await createRun();
  await api.db.query(`update runs set status = 'Cancelled', finished_at = now() where id = $1`, [
    runId,
  ]);
  expect((await read()).ended).toBe(true);
});

const encoded = (parts: unknown) => Buffer.from(JSON.stringify(parts)).toString('base64url');

test.each([
  'nonsense',
  encoded(['tail']),
  encoded(['tail', '0']),
  encoded(['tail', '1; drop table runs']),
  encoded(['tail', '9'.repeat(30)]),
  encoded(['tail', '5', -1, '6']),
  encoded(['tail', '5', 1]),
  // Of a database that has seen more transactions than this one.
  encoded(['tail', '900000000000000000']),
])('the cursor %s is refused', async (cursor) => {
  const { path } = await createRun();
  const { status, body } = await api.client.get(`${path}?cursor=${cursor}`);
  expect([status, body.attr]).toEqual([400, 'cursor']);
});
