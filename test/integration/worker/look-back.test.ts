import { once } from 'node:events';
import { Client } from 'pg';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { SluiceError } from '../../../src/foundation/domain/errors.ts';
import type { Source } from '../../../src/rows/sources/source.ts';
import { markBatchExportDeleted } from '../../../src/state/store/exports/exports.ts';
import { findExportDetails } from '../../../src/state/store/exports/export-lists.ts';
import { insertRuns } from '../../../src/state/store/runs/runs.ts';
import { SlowExports } from '../../../src/service/use-cases/runs/look-back.ts';
import { nothing, openLateSide } from '../../support/late-side.ts';
import { failAttempt, hourMs } from '../../support/run-side.ts';
import { createTenant } from '../../support/tenants.ts';
import { until } from '../../support/until.ts';
import { useEach } from '../../support/use-stage.ts';
import { atNight } from '../../support/nightly.ts';

describe('rows that come late', () => {
  const side = useEach(openLateSide);
  let writer: Client;
  beforeEach(async () => {
    writer = new Client({ connectionString: side.url });
    await writer.connect();
  });
  afterEach(() => writer.end());

  const insert = (
    client: { query(text: string, values: unknown[]): Promise<unknown> },
    name: string,
    at: number,
  ) =>
    client.query(
      `insert into events (uuid, team_id, event, inserted_at) values (gen_random_uuid(), $1, $2, to_timestamp($3 / 1000.0))`,
      [side.teamId, name, at],
    );

  it('of a transaction that outlived the wait are fetched by a new run; the mark waits until no late row can come', async () => {
    const { id, schedule } = await side.createExport();
    const teamId = (await createTenant(side.db)).projectIds[0];
    const without = await side.createExport({ teamId });
    await writer.query('begin');
    await insert(writer, 'late', schedule.openIntervalStart + 1_000);
    await insert(side.db, 'in time', schedule.openIntervalStart + 2_000);
    await side.start({ SETTLE_TIMEOUT_SECONDS: '0' });
    const [first] = await side.untilRuns(id, 1);
    await side.untilRuns(without.id, 1);
    const read = async (exportId: string) => {
      const [row] = await side.sql<{
        hasMark: boolean;
        settled: boolean;
        runId: string;
        rows: number;
      }>`
        select e.high_water_mark is not null as "hasMark", c.settled, c.run_id as "runId", c.rows
          from batch_exports e join receipts c on c.export_id = e.id where e.id = ${exportId}`;
      return row;
    };
    const unsettled = { hasMark: false, settled: false };
    expect(await read(id)).toEqual({ ...unsettled, runId: first?.id, rows: 1 });
    expect(await read(without.id)).toMatchObject({ ...unsettled, rows: 0 });

    await writer.query('commit');
    const runs = await side.untilRuns(id, 2);
    const { runId } = await until(
      async () => {
        await side.letTimePass();
        await side.sweep();
        const both = [await read(id), await read(without.id)];
        return both.every((row) => row?.settled) ? both[0] : null;
      },
      { timeoutMs: 40_000, everyMs: 200, message: 'both intervals are settled' },
    );
    expect(await read(id)).toMatchObject({ hasMark: true, rows: 2 });
    expect(runId).not.toBe(first?.id);
    expect(runs.map((run) => run.id)).toContain(runId);
    expect(await read(without.id)).toMatchObject({ hasMark: true, rows: 0 });
    const [run, ...more] = await side.sql`
      select settled, pending_transactions as pending from runs where export_id = ${without.id}`;
    expect([run, more]).toEqual([{ settled: true, pending: [] }, []]);
  });

  atNight('are not searched again at once if the run that should fetch them failed', async () => {
    const { id, schedule } = await side.createExport();
    await insert(side.db, 'in time', schedule.openIntervalStart + 1_000);
    await side.start({ LATE_LOOKBACK_HOURS: '3' });
    await side.untilRuns(id, 1);
    await side.closeWorker();
    await insert(side.db, 'late', schedule.openIntervalStart + 2_000);
    await side.letTimePass();
    const take = () => side.take(3);
    expect(await take()).toMatchObject([{ exportId: id, settled: true, isDue: true }]);
    const { start: first, end } = (await side.listRuns(id))[0] ?? { start: '', end: '' };
    const interval = { start: Date.parse(first), end: Date.parse(end) };
    await insertRuns(side.db, [{ exportId: id, teamId: side.teamId, interval, backfillId: null }]);
    await side.letTimePass();
    expect(await take(), 'a live run').toEqual([]);
    await side.sql`
      update runs set status = 'Failed', finished_at = now() where status = 'Starting'`;
    expect(await take(), 'one that just failed').toEqual([]);
    await side.sql`update receipts set look_after = now()`;
    expect(await take()).toHaveLength(1);
  });

  it('that cannot be looked for, or added, are looked for again each hour; the interval says why, the log once', async () => {
    const { id } = await side.createExport({ createdMsAgo: 2 * hourMs });
    await side.start({ LATE_LOOKBACK_HOURS: '6' });
    await side.untilRuns(id, 2);
    await side.closeWorker();
    const waits = () =>
      side.sql.values`select late_rows_wait from receipts order by data_interval_start`;
    const letMinutesPass = (minutes: number) =>
      side.sql`
        update receipts set pending_checked_at = pending_checked_at - ${minutes} * interval '1 minute',
          look_after = look_after - ${minutes} * interval '1 minute'`;
    const context = side.withPolicy({ lateLookbackHours: 6 });
    const look = (answer: () => Promise<unknown>) => side.look(context, answer);
    const revoked = async () => {
      throw new SluiceError('source.permission_denied', 'events');
    };
    await side.sql`update batch_exports set last_updated_at = now() - interval '1 day'`;
    await side.letTimePass();
    await look(revoked);
    const why = expect.stringMatching(/^source\.permission_denied: /);
    expect(await waits()).toEqual([why, why]);
    await letMinutesPass(50);
    expect(await side.take(6)).toEqual([]);
    await letMinutesPass(20);
    await look(revoked);
    const logged = await side.sql`
      select from log_entries where export_id = ${id} and message like 'Sluice cannot look for late rows%'`;
    expect(logged).toHaveLength(1);

    await letMinutesPass(70);
    await look(async () => ({ now: nothing, mayHaveLateRows: true }));
    const live = (await side.listRuns(id)).filter(({ status }) => status === 'Starting');
    expect(live).toHaveLength(2);
    const gone = new SluiceError('transformation.invalid', 'its plugin is gone');
    for (const { id: runId } of live) await failAttempt(side, context, runId, gone);
    const invalid = expect.stringMatching(/^transformation\.invalid: /);
    expect(await waits()).toEqual([invalid, invalid]);
    await letMinutesPass(70);
    await look(async () => ({ now: nothing, mayHaveLateRows: false }));
    expect(await waits()).toEqual([null, null]);
  });

  it('are added within the hours that their export sets, and its answer says so', async () => {
    const { id, schedule } = await side.createExport();
    await side.sql`update batch_exports set look_back_hours = 3 where id = ${id}`;
    await insert(side.db, 'in time', schedule.openIntervalStart + 1_000);
    await side.start({});
    await side.untilRuns(id, 1);
    const added = async () => (await findExportDetails(side.db, [id])).get(id)?.lateRowsAdded;
    expect(await added()).toBeNull();
    for (const name of ['late', 'later']) {
      await insert(side.db, name, schedule.openIntervalStart + 2_000);
    }
    const [run] = await side.untilRuns(id, 2);
    // At a destination that keeps files, this run adds only what is late.
    await side.sql`
      update runs set purpose = 'supplement', records_completed = 2 where id = ${run?.id}`;
    expect(await added()).toMatchObject({ rows: 2, start: run?.start });
  });

  atNight('of an export that is deleted while they are searched make no run', async () => {
    const { id } = await side.createExport();
    await side.start({ LATE_LOOKBACK_HOURS: '3' });
    await side.untilRuns(id, 1);
    await side.closeWorker();
    await side.letTimePass();
    const lookAgain = async () => {
      await markBatchExportDeleted(side.db, id);
      return { now: nothing, mayHaveLateRows: true };
    };
    const onMade = vi.fn();
    await side.look(side.withPolicy({ lateLookbackHours: 3 }), lookAgain, { onMade });
    expect(onMade).not.toHaveBeenCalled();
    expect(await side.listRuns(id)).toHaveLength(1);
  });

  it('are searched while the keys of another organization do not end, also if it has more intervals', async () => {
    const other = (await createTenant(side.db)).projectIds[0];
    const slow = await side.createExport({ createdMsAgo: 2 * hourMs });
    const { id } = await side.createExport({ teamId: other });
    await side.start({ LATE_LOOKBACK_HOURS: '6' });
    await side.untilRuns(slow.id, 2);
    await side.untilRuns(id, 1);
    await side.closeWorker();
    await side.letTimePass();
    // It comes first.
    await side.sql`
      update receipts set pending_checked_at = pending_checked_at - interval '1 hour'
        where export_id = ${slow.id}`;
    const stopping = new AbortController();
    const looked: number[] = [];
    const lookAgain: Source['lookAgain'] = async ({ tenantKey }, _, __, signal) => {
      const teamId = Number(tenantKey);
      looked.push(teamId);
      if (teamId === side.teamId) if (!signal.aborted) await once(signal, 'abort');
      return { now: nothing, mayHaveLateRows: false };
    };
    const context = side.withPolicy({ lateLookbackHours: 6 });
    const ended = side.look(context, lookAgain, { stopping: stopping.signal });
    await until(() => looked.includes(other));
    // The search that goes on says so, so that no other worker begins it too.
    await side.letTimePass();
    const fresh = () => side.sql`
      select from receipts where export_id = ${slow.id} and pending_checked_at > now() - interval '10 s'`;
    await until(async () => (await fresh()).length === 1);
    stopping.abort();
    await ended;
    expect(looked.filter((teamId) => teamId === side.teamId)).toHaveLength(1);
  });

  atNight(
    'are searched while the keys of more organizations than there are lanes do not end',
    async () => {
      const teams = [side.teamId];
      while (teams.length < 7) teams.push((await createTenant(side.db)).projectIds[0]);
      const exports = [];
      for (const teamId of teams) exports.push(await side.createExport({ teamId }));
      await side.start({ LATE_LOOKBACK_HOURS: '3' });
      for (const { id } of exports) await side.untilRuns(id, 1);
      await side.closeWorker();
      await side.letTimePass();
      const quick = teams.slice(-2);
      const stopping = new AbortController();
      onTestFinished(() => stopping.abort());
      // The slow ones come first.
      await side.sql`update receipts c set pending_checked_at = pending_checked_at - interval '1 hour'
         from batch_exports e where e.id = c.export_id and e.team_id <> all (${quick})`;
      let looked: number[] = [];
      const lookAgain: Source['lookAgain'] = async ({ tenantKey }, _, __, signal) => {
        const teamId = Number(tenantKey);
        looked.push(teamId);
        if (quick.includes(teamId) || looked.filter((each) => each === teamId).length > 1)
          return { now: nothing, mayHaveLateRows: false };
        if (!signal.aborted) await once(signal, 'abort');
        throw signal.reason;
      };
      const context = side.withPolicy({ lateLookbackHours: 3 });
      const slow = new SlowExports();
      const options = { slow, turnMs: 1_000, stopping: stopping.signal };
      await side.look(context, lookAgain, options);
      const slowIds = exports.slice(0, -2).map(({ id }) => id);
      expect(slow.list().toSorted()).toEqual(slowIds.toSorted());
      expect(new Set(looked)).toEqual(new Set(teams));

      // Now two of the slow ones are searched for longer, and the others wait.
      looked = [];
      await side.letTimePass();
      const ended = side.look(context, lookAgain, options);
      const slowLooks = () => looked.filter((teamId) => !quick.includes(teamId)).length;
      await until(() => quick.every((teamId) => looked.includes(teamId)) && slowLooks() >= 2);
      stopping.abort();
      await ended;
      expect(slowLooks()).toBe(2);
    },
  );
});
