import { beforeAll, describe, expect, test } from 'vitest';
import { toTimestamp } from '../../../src/foundation/domain/time.ts';
import { takeLookBacks } from '../../../src/state/store/intervals/look-backs.ts';
import { readNow } from '../../../src/state/store/intervals/ticks.ts';
import { useApi } from '../../support/api-under-test.ts';
import { allowBriefReceipts } from '../../support/brief-receipts.ts';
import { cliEnv, runCli } from '../../support/cli.ts';
import { insertElements } from '../../support/page-rows.ts';

const hourMs = 3_600_000;
/** The last complete hour ends here. */
let now: number;

const api = useApi();
beforeAll(async () => {
  await allowBriefReceipts(api.db);
  now = Math.floor((await readNow(api.db)) / hourMs) * hourMs;
});

/** `done`, `unsettled`, `late_rows`, or a status of a run without a receipt. */
type Ended = 'done' | 'unsettled' | 'late_rows' | 'Failed' | 'Cancelled' | 'paused';

/** An export whose last hours became this, oldest first; all by the schedule. */
async function createWith(hours: readonly Ended[]) {
  const { id } = await api.create();
  const first = now - hours.length * hourMs;
  const at = (hour: number) => toTimestamp(first + hour * hourMs);
  for (const [hour, ended] of hours.entries()) {
    const bounds = [id, at(hour), at(hour + 1)];
    await api.db.query(
      `insert into ticks (export_id, tick_at, data_interval_start, data_interval_end, fate) values ($1, $3, $2, $3, $4)`,
      [...bounds, ended === 'paused' ? 'paused' : 'ran'],
    );
    if (ended === 'paused') continue;
    const completed = ended === 'done' || ended === 'unsettled' || ended === 'late_rows';
    const [run] = await api.db.query<{ id: string }>(
      // What failed waits for a person.
      `insert into runs (export_id, team_id, data_interval_start, data_interval_end, status, error_code, finished_at)
       values ($1, $5, $2, $3, $4, $6, now()) returning id`,
      [
        ...[...bounds, completed ? 'Completed' : ended, api.teamId],
        ended === 'Failed' ? 'run.crashed' : null,
      ],
    );
    if (!completed) continue;
    await api.db.query(
      `insert into receipts (export_id, data_interval_start, data_interval_end, run_id, files, rows, bytes, settled, late_rows_wait,
                             snapshot, committed_at, pending_checked_at, looked_back_at)
       values ($1, $2, $3, $4, '[]', 0, 0, $5, $6, '1:1:@1', now() - interval '2 hours', now() - interval '1 hour', now() - interval '2 hours')`,
      [
        ...[...bounds, run?.id, ended !== 'unsettled'],
        ended === 'late_rows' ? 'run.late_rows_wait: the key may not read' : null,
      ],
    );
  }
  return { id, path: `${api.exports}/${id}`, at };
}

const nothing = {
  ...{ elements: null, from: null, to: null, high_water_mark: null, blocker: null },
  ...{ late_rows_wait: [], healing: null, ranges: [] },
};

describe('the coverage of an export', () => {
  test('is the state of every interval, in ranges without gaps, with what holds the mark', async () => {
    const ended = ['done', 'done', 'Failed', 'Failed', 'done', 'paused', 'Cancelled', 'unsettled'];
    const { path, at } = await createWith(ended as Ended[]);
    const { status, body } = await api.get(`${path}/coverage`);
    expect(status).toBe(200);
    const range = (from: number, to: number, state: string) => {
      return { start: at(from), end: at(to), state, intervals: to - from };
    };
    expect(body).toEqual({
      ...{ ...nothing, from: at(0), to: at(8) },
      ranges: [
        range(0, 2, 'done'),
        range(2, 4, 'failed'),
        range(4, 5, 'done'),
        range(5, 6, 'paused'),
        range(6, 7, 'cancelled'),
        range(7, 8, 'unsettled'),
      ],
    });
    await api.sql`
      update batch_exports set high_water_mark = ${at(2)} where id = ${path.split('/').at(-1)}`;
    const marked = await api.get(`${path}/coverage`);
    expect(marked.body).toMatchObject({ high_water_mark: at(2), blocker: range(2, 4, 'failed') });
    const { body: shown } = await api.get(path);
    expect(shown).toMatchObject({ missing: { count: 3, since: at(2) }, unsettled_from: at(7) });
    const list = await api.get(api.exports);
    expect(list.body.results.find(({ id }) => path.endsWith(id))).toMatchObject({
      missing: { count: 3, since: at(2) },
    });
  });

  test('is limited to a range, widened to whole intervals, and names the blocker outside of it', async () => {
    const { path, at, id } = await createWith(['done', 'Failed', 'done', 'done']);
    await api.sql`update batch_exports set high_water_mark = ${at(1)} where id = ${id}`;
    const inside = (hour: number) => at(hour).replace(':00:00.000000Z', ':30:00Z');
    const { body } = await api.get(`${path}/coverage?from=${inside(2)}&to=${inside(3)}`);
    expect(body).toMatchObject({
      from: at(2),
      to: at(4),
      ranges: [{ start: at(2), end: at(4), state: 'done', intervals: 2 }],
      blocker: { start: at(1), end: at(2), state: 'failed', intervals: 1 },
    });
  });

  test('of a new export is empty', async () => {
    const { id } = await api.create();
    const { status, body } = await api.get(`${api.exports}/${id}/coverage`);
    expect(status).toBe(200);
    expect(body).toEqual(nothing);
    const { body: shown } = await api.get(`${api.exports}/${id}`);
    expect(shown.missing).toEqual({ count: 0, since: null });
  });
});

describe('accepting intervals as they are', () => {
  test('lets the mark pass, is in the activity with its reason, and is shown', async () => {
    const ended = ['done', 'Failed', 'unsettled', 'Cancelled', 'paused', 'done'];
    const { path, at } = await createWith(ended as Ended[]);
    const given = { from: at(0), to: at(5), reason: 'the source was empty' };
    const { status, body } = await api.post(`${path}/coverage/accept`, given);
    expect(status).toBe(200);
    expect(body).toEqual({
      accepted: 4,
      counts: { failed: 1, unsettled: 1, cancelled: 1, paused: 1 },
      high_water_mark: at(6),
      missing: { count: 0, since: null },
    });
    const { body: shown } = await api.get(path);
    expect(shown).toMatchObject({
      high_water_mark: at(6),
      unsettled_from: null,
      missing: { count: 0 },
    });
    const coverage = await api.get(`${path}/coverage`);
    expect(coverage.body).toMatchObject({ blocker: null });
    expect((coverage.body.ranges as { state: string }[]).map(({ state }) => state)).toEqual([
      'done',
      'accepted',
      'done',
    ]);
    const { body: activity } = await api.get(`${path}/activity`);
    expect(activity.results[0]).toMatchObject({
      action: 'accepted',
      key_id: api.tenant.keyId,
      changes: [
        {
          field: 'coverage',
          before: { from: at(0), to: at(5), failed: 1, unsettled: 1, cancelled: 1, paused: 1 },
          after: { accepted: 4, reason: given.reason },
        },
      ],
    });
  });

  test('ends the wait of late rows, and no look-back looks for them again', async () => {
    const { path, at, id } = await createWith(['late_rows', 'late_rows', 'done', 'done']);
    const { body: before } = await api.get(`${path}/coverage`);
    const why = 'run.late_rows_wait: the key may not read';
    expect(before).toMatchObject({
      ranges: [
        { start: at(0), end: at(2), state: 'late_rows', intervals: 2 },
        { start: at(2), end: at(4), state: 'done', intervals: 2 },
      ],
      late_rows_wait: [
        { start: at(0), end: at(1), why },
        { start: at(1), end: at(2), why },
      ],
    });
    const accepted = await api.post(`${path}/coverage/accept`, { from: at(0), to: at(1) });
    expect(accepted.body).toMatchObject({ accepted: 1, counts: { late_rows: 1 } });
    const { body: after } = await api.get(`${path}/coverage`);
    expect(after).toMatchObject({
      ranges: [
        { start: at(0), end: at(1), state: 'done' },
        { start: at(1), end: at(2), state: 'late_rows' },
        { start: at(2), end: at(4), state: 'done' },
      ],
      late_rows_wait: [{ start: at(1), end: at(2), why }],
    });
    // The export has changed since the late rows were found. Other intervals of the tenant are not due.
    await api.sql`update receipts set pending_checked_at = now() where export_id <> ${id}`;
    const wanted = { limit: 10, without: [], dead: [], slow: [], isLong: false };
    const taken = (
      await takeLookBacks(api.db, { lateLookbackHours: 100_000, modelLookbackHours: {} }, wanted)
    ).filter(({ exportId }) => exportId === id);
    const starts = taken.map(({ interval }) => toTimestamp(interval.start));
    expect(starts.toSorted()).toEqual([at(1), at(2), at(3)]);
  });

  test('takes only whole intervals of the range, and no live one', async () => {
    const { path, at, id } = await createWith(['Failed', 'Failed', 'Failed', 'Failed']);
    await api.sql`
      insert into runs (export_id, team_id, data_interval_start, data_interval_end, generation)
        values (${id}, ${api.teamId}, ${at(1)}, ${at(2)}, 1)`;
    const half = at(3).replace(':00:00.000000Z', ':30:00Z');
    const { body } = await api.post(`${path}/coverage/accept`, { from: at(0), to: half });
    expect(body).toMatchObject({ accepted: 2, missing: { count: 1, since: at(3) } });
  });

  test('of an interval before the mark leaves the mark', async () => {
    const { path, at, id } = await createWith(['Failed', 'done']);
    await api.sql`delete from ticks where export_id = ${id} and data_interval_start = ${at(0)}`;
    const { body } = await api.post(`${path}/coverage/accept`, { from: at(0), to: at(1) });
    expect(body).toMatchObject({ accepted: 1, missing: { count: 0 }, high_water_mark: at(2) });
  });
});

test('an export without a past lists its elements, with what follows them and what they replaced', async () => {
  const { id, path } = await createWith([]);
  await api.db.query(insertElements, [id]);
  const at = (hoursAgo: number) => toTimestamp(now - hoursAgo * hourMs);
  const { elements, ranges } = (await api.get(`${path}/coverage`)).body;
  const superseded = { start: at(4), end: at(2), intervals: 2 };
  expect(elements).toMatchObject([
    {
      ...{ start: at(2), end: at(1), rows: 1200, snapshot_at: at(1) },
      ...{ followed_by: null, superseded },
      element: { number: 7, follows: 4, base: null, from_version: '120931', deletes: 3 },
    },
    {
      ...{ start: at(5), end: at(4), followed_by: 7, superseded: null },
      element: { number: 4, follows: null, base: expect.stringContaining('the first one') },
    },
  ]);
  expect(ranges).toHaveLength(4);
  // A page of older ones.
  const older = (await api.get(`${path}/coverage?to=${at(2)}`)).body;
  expect(older.elements).toMatchObject([{ start: at(5), followed_by: 7 }]);
  const env = cliEnv(api);
  const { out, err } = await runCli(['coverage', 'list', id], { env });
  expect(err).toBe('');
  expect(out).toMatch(/^4 .* 1,200 +0 +a base, because it is the first one/m);
  expect(out).toMatch(
    /^7 .* 1,200 +3 +what changed since 4, from version 120931; 2 intervals before it superseded$/m,
  );
  expect(out).toMatch(/^failed /m);
  expect(out).not.toMatch(/^done /m);
});
