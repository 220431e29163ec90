/** Runs whose intervals have not settled: who watches them, and what becomes of them if that worker dies. */

import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Settlement, Source } from '../../../src/rows/sources/source.ts';
import type { Sql } from '../../../src/state/store/database/database.ts';
import { findRun } from '../../../src/state/store/runs/runs.ts';
import { findRunNeeds, type RunNeeds } from '../../../src/state/store/runs/run-needs.ts';
import { reportWorker } from '../../../src/state/store/runs/workers.ts';
import { dispatchRuns } from '../../../src/service/admission/dispatch-runs.ts';
import { Parking } from '../../../src/service/worker/parking.ts';
import { claim, createExportOfThePast, openRunSide, type RunSide } from '../../support/run-side.ts';
import { until } from '../../support/until.ts';

const settled: Settlement = { settled: true, pending: [], reason: null, position: '0/1' };

let side: RunSide;
const open: Parking[] = [];
beforeEach(async () => {
  side = await openRunSide();
  await reportWorker(side.db, 'a worker', 100);
});
afterEach(async () => {
  await Promise.all(open.splice(0).map((parking) => parking.close()));
  await side.stop();
});

/** A source whose intervals settle when the test says so. */
function startSource(isLost = false, server = 'a server') {
  const waits: {
    resolve(settlement: Settlement): void;
    reject(error: Error): void;
    readonly signal: AbortSignal;
    readonly waitedMs: number | undefined;
    readonly waitsFor: (blockers: readonly string[]) => void;
  }[] = [];
  const settle: Source['settle'] = (_, signal, waitedMs, __, waitsFor = () => {}) =>
    new Promise((resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason));
      waits.push({ resolve, reject, signal, waitedMs, waitsFor });
    });
  let looks = 0;
  const recheck: Source['recheck'] = async () => {
    looks += 1;
    if (isLost) throw new Error('the source is unreachable');
    return { ...settled, server };
  };
  const asked: number[] = [];
  const recall: Source['recall'] = (_, requestedAt) => {
    asked.push(requestedAt.process);
    return null;
  };
  return { source: { settle, recall, recheck } as Source, waits, asked, looks: () => looks };
}

function openParking(
  workerId = 'one',
  db: Sql = side.db,
  isLost = false,
  server?: string,
  quickMs = 5,
) {
  const { source, waits, asked, looks } = startSource(isLost, server);
  let awakened = 0;
  const parking = new Parking({
    db,
    leaseMs: 60_000,
    workerId,
    sourceOf: () => source,
    onAwake: async () => {
      awakened += 1;
    },
    onError: (error) => {
      throw error;
    },
    quickMs,
  });
  open.push(parking);
  const settle = async (runId: string) => {
    const [needs] = await findRunNeeds(side.db, [runId]);
    return needs ? parking.settle(runId, needs) : null;
  };
  return { parking, waits, asked, looks, settle, awakened: () => awakened };
}

async function dispatch(): Promise<string[]> {
  const runs: string[] = [];
  await dispatchRuns(side.context, async (entries) => {
    runs.push(...entries.map(({ runId }) => runId));
  });
  return runs;
}

/** Runs of one interval, asked for at the same time and dispatched: one of each of so many exports. */
async function dispatchedRuns(count: number, { agoMs = 0 } = {}): Promise<string[]> {
  const [now] = await side.db.query<{ at: string }>('select clock_timestamp()::text as at');
  for (let made = 0; made < count; made += 1) {
    const { id } = await createExportOfThePast(side);
    await side.db.query(
      `with r as (
         insert into runs (export_id, team_id, data_interval_start, data_interval_end, created_at)
         values ($1, $2, '2024-01-01T00:00Z', '2024-01-01T01:00Z', $3::timestamptz - $4 * interval '1 ms')
         returning *
       )
       insert into outbox (run_id, team_id, export_id, data_interval_start, available_at)
       select id, team_id, export_id, data_interval_start, now() from r`,
      [id, side.teamId, now?.at, agoMs],
    );
  }
  return dispatch();
}

/** As if the worker that parked the runs were dead for long enough. */
const lapse = () => side.db.query(`update outbox set available_at = now() where not ready`);

test('a parked run says what it waits for, in its log and its status', async () => {
  const { parking, settle, waits } = openParking('one', side.db, false, undefined, 500);
  const [runId = ''] = await dispatchedRuns(1);
  const settling = settle(runId);
  await until(() => waits.length === 1, { message: 'it waits' });
  waits[0]?.waitsFor(['process 17 (role app)']);
  expect(await settling).toBe('parked');
  const [{ exportId = '' } = {}] = await side.db.query<{ exportId: string }>(
    'select export_id as "exportId" from runs where id = $1',
    [runId],
  );
  const waitsFor = async () => (await findRun(side.db, exportId, runId))?.waitsFor;
  expect(await waitsFor()).toEqual(['process 17 (role app)']);
  const [line] = await side.db.query<{ message: string }>(
    'select message from log_entries where run_id = $1',
    [runId],
  );
  expect(line?.message).toMatch(/^The run waits .* Now open: process 17 \(role app\)\.$/);
  waits[0]?.waitsFor(['process 18 (role app)']);
  await parking.keep();
  expect(await waitsFor()).toEqual(['process 18 (role app)']);
  waits[0]?.resolve(settled);
  await until(async () => (await waitsFor()) === null, { message: 'it waits no longer' });
});

test('a run that does not settle soon is parked, and begins where it settled', async () => {
  const { settle, waits, awakened } = openParking();
  const [runId = ''] = await dispatchedRuns(1);
  expect(await settle(runId)).toBe('parked');
  expect(await dispatch()).toEqual([]);
  await expect(claim(side, runId)).rejects.toThrow('cannot be claimed');
  waits[0]?.resolve(settled);
  await until(() => awakened() === 1, { message: 'the run is awake' });
  expect(await dispatch()).toEqual([runId]);
  // Any worker gets what was found, without another wait. It looks which server answers.
  const second = openParking('two');
  expect(await second.settle(runId)).toEqual({ settlement: settled });
  expect(second.looks()).toBe(1);
  const lost = openParking('three', side.db, true);
  expect(await lost.settle(runId)).toEqual({ settlement: null });
  expect(await claim(side, runId)).toMatchObject({ attempt: 1 });
});

test('what was found at a server that does not answer any more is found again', async () => {
  const { settle, waits, awakened } = openParking();
  const [runId = ''] = await dispatchedRuns(1);
  expect(await settle(runId)).toBe('parked');
  const found = { ...settled, position: null, server: 'a server' };
  waits[0]?.resolve(found);
  await until(() => awakened() === 1, { message: 'the run is awake' });
  await dispatch();
  const same = openParking('two');
  expect(await same.settle(runId)).toEqual({ settlement: found });
  const other = openParking('three', side.db, false, 'another server');
  expect(await other.settle(runId)).toEqual({ settlement: null });
});

test('runs of one interval share a wait, and all of them wake', async () => {
  const { settle, waits, awakened } = openParking();
  // Asked for well before the wait begins: an answer of the database that comes late makes a request look younger.
  const runs = await dispatchedRuns(5, { agoMs: 60_000 });
  expect(runs).toHaveLength(5);
  const found = await Promise.all(runs.map(settle));
  expect(new Set(found)).toEqual(new Set(['parked']));
  expect(waits).toHaveLength(1);
  waits[0]?.resolve(settled);
  await until(() => awakened() > 0);
  expect(await dispatch()).toHaveLength(5);
});

test('a run that shares a young wait is not parked if that ends soon', async () => {
  const { parking, waits } = openParking('one', side.db, false, undefined, 60_000);
  const runs = await dispatchedRuns(2);
  const needs = await findRunNeeds(side.db, runs);
  // Each waits when the call returns.
  const ready = runs.map((runId, index) => parking.settle(runId, needs[index] as RunNeeds));
  waits[0]?.resolve(settled);
  expect(await Promise.all(ready)).toEqual([{ settlement: settled }, { settlement: settled }]);
  expect(waits).toHaveLength(1);
});

test('a run that was asked for after a wait began has a wait of its own', async () => {
  const { settle, waits } = openParking();
  const [first = ''] = await dispatchedRuns(1);
  await settle(first);
  // The first wait has not seen the transactions that were open when this one was asked for.
  const [second = ''] = await dispatchedRuns(1);
  await settle(second);
  expect(waits).toHaveLength(2);
  const [older = ''] = await dispatchedRuns(1, { agoMs: 60_000 });
  await settle(older);
  expect(waits).toHaveLength(2);
});

test('a run that was asked for while this machine was paused has a wait of its own', async () => {
  const { parking, waits } = openParking();
  const [first = '', second = ''] = await dispatchedRuns(2);
  const needs = await findRunNeeds(side.db, [first, second]);
  await parking.settle(first, needs[0] as RunNeeds);
  // An hour passed for the database, and nothing for this process.
  const paused = { ...(needs[1] as RunNeeds), requestedForMs: 1_800_000 };
  await parking.settle(second, { ...paused, databaseMs: paused.databaseMs + 3_600_000 });
  expect(waits).toHaveLength(2);
});

test('the runs of a backfill were asked for when it was made', async () => {
  const [runId = ''] = await dispatchedRuns(1);
  await side.db.query(
    `with b as (
       insert into backfills (export_id, team_id, start_at, end_at, concurrency, total_runs, created_at)
       select export_id, team_id, data_interval_start, data_interval_end, 1, 1, created_at - interval '1 year'
         from runs where id = $1 returning id
     )
     update runs set backfill_id = (select id from b) where id = $1`,
    [runId],
  );
  const [needs] = await findRunNeeds(side.db, [runId]);
  expect(needs?.requestedForMs).toBeGreaterThan(300 * 86_400_000);
  const { settle, asked } = openParking();
  await settle(runId);
  // Before this process began.
  expect(asked[0]).toBeLessThan(0);
});

test('after the death of its worker another one watches; the first one changes nothing when it thaws', async () => {
  const [first, second] = [openParking('one'), openParking('two')];
  const [runId = ''] = await dispatchedRuns(1);
  expect(await first.settle(runId)).toBe('parked');
  await lapse();
  expect(await dispatch()).toEqual([runId]);
  expect(await second.settle(runId)).toBe('parked');
  // The time that it has waited counts.
  expect(second.waits[0]?.waitedMs).toBeGreaterThan(0);
  first.waits[0]?.resolve({ ...settled, position: 'of the first' });
  await until(() => first.awakened() === 1);
  expect(await dispatch()).toEqual([]);
  second.waits[0]?.resolve(settled);
  await until(() => second.awakened() === 1);
  expect(await dispatch()).toEqual([runId]);
  expect(await second.settle(runId)).toEqual({ settlement: settled });
});

test('a worker keeps its runs parked, and ends the wait for those that were cancelled', async () => {
  const { parking, settle, waits } = openParking();
  const [runId = ''] = await dispatchedRuns(1);
  await settle(runId);
  const until = `select run_id from outbox where available_at > now() + interval '30 s'`;
  await side.db.query(`update outbox set available_at = now() + interval '1 s'`);
  await parking.keep();
  expect(await side.db.query(until)).toHaveLength(1);
  expect(waits[0]?.signal.aborted).toBe(false);
  await side.db.query(`delete from outbox`);
  await parking.keep();
  expect(waits[0]?.signal.aborted).toBe(true);
});

test('a wait that fails makes the run begin: its attempt finds out why, and counts the fault', async () => {
  const { settle, waits, awakened } = openParking();
  const [runId = ''] = await dispatchedRuns(1);
  expect(await settle(runId)).toBe('parked');
  waits[0]?.reject(new Error('the source is unreachable'));
  await until(() => awakened() === 1);
  expect(await dispatch()).toEqual([runId]);
  expect(await settle(runId)).toEqual({ settlement: null });
  expect(waits).toHaveLength(1);
});

test('what was found is used for a minute only', async () => {
  const { settle, waits, awakened } = openParking();
  const [runId = ''] = await dispatchedRuns(1);
  await settle(runId);
  waits[0]?.resolve(settled);
  await until(() => awakened() === 1);
  await side.db.query(`update outbox set settled_at = now() - interval '61 s'`);
  await dispatch();
  expect(await settle(runId)).toBe('parked');
  expect(waits).toHaveLength(2);
});

test('a worker that ends wakes its runs for others', async () => {
  const { parking, settle } = openParking();
  const [runId = ''] = await dispatchedRuns(1);
  await settle(runId);
  await parking.close();
  expect(await dispatch()).toEqual([runId]);
  expect(await openParking('two').settle(runId)).toBe('parked');
});

test('a run that another worker has claimed or parked is left alone', async () => {
  const [first, second] = [openParking('one'), openParking('two')];
  const [runId = ''] = await dispatchedRuns(1);
  expect(await first.settle(runId)).toBe('parked');
  expect(await second.settle(runId)).toBe('parked');
  // The second has nothing to watch.
  expect(second.waits[0]?.signal.aborted).toBe(true);
  const [other = ''] = await dispatchedRuns(1);
  await claim(side, other);
  expect(await first.settle(other)).toBe('parked');
  expect(await side.db.query(`select from outbox where run_id = $1`, [other])).toEqual([]);
});

test('an interval that settles while its run is being parked wakes the run', async () => {
  const query: Sql['query'] = async (statement, values) => {
    const isParking =
      typeof statement === 'string' && statement.includes('parked_since = coalesce');
    if (isParking) {
      waits[0]?.resolve(settled);
      await new Promise((resolve) => setImmediate(resolve));
    }
    return side.db.query(statement, values);
  };
  const { settle, waits, awakened } = openParking('one', { query } as Sql);
  const [runId = ''] = await dispatchedRuns(1);
  expect(await settle(runId)).toBe('parked');
  expect(awakened()).toBe(1);
  expect(await dispatch()).toEqual([runId]);
});

test('a cut connection loses no run, neither while it is parked nor when it is woken', async () => {
  const cut = Object.assign(new Error('terminating connection'), { code: '57P01' });
  const unanswered = ['parked_since = coalesce', 'ready = true'];
  const unsent = ['ready = true'];
  const isNext = (statements: string[], statement: string) => {
    const at = statements.findIndex((part) => statement.includes(part));
    return at >= 0 && statements.splice(at, 1).length > 0;
  };
  const query: Sql['query'] = async (statement, values) => {
    if (isNext(unsent, statement)) throw cut;
    const answer = await side.db.query(statement, values);
    if (isNext(unanswered, statement)) throw cut;
    return answer as never;
  };
  const { settle, waits, awakened } = openParking('one', { query } as Sql);
  const [runId = ''] = await dispatchedRuns(1);
  expect(await settle(runId)).toBe('parked');
  waits[0]?.resolve(settled);
  await until(() => awakened() === 1, { message: 'the run is awake' });
  expect([unanswered, unsent]).toEqual([[], []]);
  expect(await dispatch()).toEqual([runId]);
});
