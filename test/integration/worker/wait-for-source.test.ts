/** Runs whose intervals have not settled: they go back to the outbox, and any worker goes on with the wait. */

import { beforeEach, expect, test } from 'vitest';
import type { Settlement, SettleWait, Source } from '../../../src/rows/sources/source.ts';
import type { Sql } from '../../../src/state/store/database/database.ts';
import { findRunNeeds, type RunNeeds } from '../../../src/state/store/runs/outbox.ts';
import { reportWorker } from '../../../src/state/store/runs/workers.ts';
import { dispatchRuns } from '../../../src/service/admission/admission.ts';
import { releaseRun } from '../../../src/service/use-cases/runs/finish-run.ts';
import { SourceWaits } from '../../../src/service/worker/run-jobs.ts';
import { openRunSide } from '../../support/run-side.ts';
import { until } from '../../support/until.ts';
import { atNight } from '../../support/nightly.ts';
import { useEach } from '../../support/use-stage.ts';

const settled: Settlement = { settled: true, pending: [], reason: null, position: '0/1' };
const open = (pending: string, leftMs = 60_000): Settlement => {
  const names = { pending: [pending], blockers: [`process of ${pending}`] };
  return { settled: false, reason: 'transactions', position: null, ...names, leftMs };
};

const side = useEach(openRunSide);
let stopping: AbortController;
beforeEach(async () => {
  stopping = new AbortController();
  await reportWorker(side.db, 'a worker', 1_000);
});

/** A worker whose source answers as the test says; it keeps the last answer. */
function openWorker(answers: readonly (Settlement | Error | 'never')[], db: Sql = side.db) {
  const left = [...answers];
  const asked: SettleWait[] = [];
  const settleInterval: Source['settle'] = (_, signal, wait = {}) => {
    asked.push(wait);
    const answer = (left.length > 1 ? left.shift() : left[0]) ?? 'never';
    if (answer instanceof Error) return Promise.reject(answer);
    if (answer !== 'never') return Promise.resolve(answer);
    return new Promise((_resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason));
    });
  };
  const waits = new SourceWaits({
    db,
    leaseMs: 60_000,
    sourceOf: () => ({ settle: settleInterval }) as Source,
    stopping: stopping.signal,
    onError: (error) => {
      throw error;
    },
  });
  const settle = async (runId: string, changes: Partial<RunNeeds> = {}) => {
    const [needs] = await findRunNeeds(side.db, [runId]);
    if (!needs) throw new Error('the run has ended');
    return waits.settle(runId, { ...needs, ...changes });
  };
  return { asked, settle, waits };
}

async function dispatch(): Promise<string[]> {
  const runs: string[] = [];
  await dispatchRuns(side.context, async (entries) => {
    runs.push(...entries.map(({ runId }) => runId));
  });
  return runs;
}

/** So many runs of one export, in the outbox. */
async function makeRuns(count: number): Promise<readonly string[]> {
  const { id } = await side.createExport();
  return side.sql.values<string>`with r as (
       insert into runs (export_id, team_id, data_interval_start, data_interval_end)
       select ${id}, ${side.teamId}, t, t + interval '1 hour' from generate_series(timestamptz '2024-01-01T00:00Z',
         timestamptz '2024-01-01T00:00Z' + (${count} - 1) * interval '1 hour', interval '1 hour') t
       returning *
     ), o as (
       insert into outbox (run_id, team_id, export_id, data_interval_start, available_at)
       select id, team_id, export_id, data_interval_start, now() from r)
     select id from r order by data_interval_start`;
}

async function dispatchedRun(): Promise<string> {
  const [runId = ''] = await makeRuns(1);
  expect(await dispatch()).toEqual([runId]);
  return runId;
}

const readMs = async () =>
  (await side.sql.value<number>`
    select (extract(epoch from clock_timestamp()) * 1000)::float8`) ?? 0;

/** When these come back, as the outbox has it. */
const returns = () =>
  side.sql.values<number>`
    select (extract(epoch from available_at) * 1000)::float8 from outbox where not ready
      order by available_at`;

/** The time of all runs that went back has come. @param ms how long they have waited */
const letPass = (ms = 0) =>
  side.sql`
    update outbox set available_at = now(), waits_since = waits_since - ${ms} * interval '1 ms'
      where not ready`;

test('a run goes back with what it waits for, comes to any worker, and begins when that has ended', async () => {
  const runId = await dispatchedRun();
  const first = openWorker([open('3/1:7')]);
  expect([await first.settle(runId), first.asked]).toEqual([null, [{ patienceMs: 1_000 }]]);
  expect(await dispatch()).toEqual([]);
  await expect(side.claim(runId)).rejects.toThrow('cannot be claimed');
  const exportId = await side.sql.value<string>`select export_id from runs where id = ${runId}`;
  const show = () => side.findRun({ exportId: exportId ?? '', runId });
  expect(await show()).toMatchObject({
    status: 'Starting',
    attempt: 0,
    waitsFor: ['process of 3/1:7'],
  });

  await letPass(10_000);
  expect(await dispatch()).toEqual([runId]);
  const second = openWorker([open('prepared:7'), settled]);
  expect(await second.settle(runId)).toBe(null);
  expect(second.asked[0]).toMatchObject({ patienceMs: 1_000, pending: ['3/1:7'] });
  expect(second.asked[0]?.waitedMs).toBeGreaterThanOrEqual(10_000);
  expect((await show()).waitsFor).toEqual(['process of prepared:7']);
  const lines = await side.sql.values`select message from log_entries where run_id = ${runId}`;
  expect(lines).toEqual([
    expect.stringMatching(/^The run waits .* Now open: process of 3\/1:7\.$/),
  ]);

  await letPass();
  await dispatch();
  expect(await second.settle(runId)).toEqual({ settlement: settled });
  expect(second.asked[1]?.pending).toEqual(['prepared:7']);
  // The waits were no attempts. A later attempt begins a wait of its own.
  const run = await side.claim(runId);
  expect(run).toMatchObject({ attempt: 1, crashes: 0 });
  expect((await show()).waitsFor).toBe(null);
  await releaseRun(side.context, run);
  expect((await findRunNeeds(side.db, [runId]))[0]?.wait).toBe(null);
});

test('a source that fails or does not answer is found out by the attempt; a worker that stops leaves its runs', async () => {
  const runId = await dispatchedRun();
  const inAttempt = { settlement: null };
  expect(await openWorker([new Error('unreachable')]).settle(runId)).toEqual(inAttempt);
  const silent = openWorker(['never']);
  expect(await silent.settle(runId, { purpose: 'erase' })).toEqual(inAttempt);
  expect(await silent.settle(runId, { beganCommit: true })).toEqual(inAttempt);
  expect(silent.asked).toEqual([]);
  // It may answer in a moment.
  expect(await silent.settle(runId)).toBe(null);
  await letPass();
  await dispatch();
  const back = openWorker([settled]);
  expect(await back.settle(runId)).toEqual({ settlement: settled });
  expect(back.asked[0]?.pending).toBe(null);
  await side.sql`update outbox set waits_since = waits_since - interval '30 s'`;
  expect(await silent.settle(runId)).toEqual(inAttempt);

  const { asked, settle } = openWorker(['never']);
  await side.sql`update outbox set waits_since = null`;
  const settling = settle(runId);
  await until(() => asked.length === 1, { message: 'it waits' });
  stopping.abort(new Error('the worker stops'));
  expect(await settling).toBe(null);
});

test('the pauses grow with the wait up to five seconds, and a run without time left begins unsettled', async () => {
  const runId = await dispatchedRun();
  const worker = openWorker([open('a'), open('a'), open('a'), open('a', 700)]);
  for (const [waitedMs, pauseMs] of [
    [0, 1_000],
    [12_000, 3_000],
    [48_000, 5_000],
    [0, 700],
  ] as const) {
    await letPass(waitedMs);
    await dispatch();
    const before = await readMs();
    expect(await worker.settle(runId)).toBe(null);
    const [at = 0] = await returns();
    expect(at - before).toBeGreaterThanOrEqual(pauseMs);
    expect(at - (await readMs())).toBeLessThan(pauseMs + 500);
  }
  await letPass();
  await dispatch();
  const late = open('3/1:7', 0);
  expect(await openWorker([late]).settle(runId)).toEqual({ settlement: late });
});

atNight(
  'a thousand runs of one source come back one after the other, and none is lost',
  async () => {
    const runs = await makeRuns(1_000);
    // As if they were enqueued: an export of its own has few at a time.
    await side.sql`update outbox set ready = true, dispatched_at = now()`;
    const needs = await findRunNeeds(side.db, runs);
    const worker = openWorker([open('a')]);
    const went = await Promise.all(
      runs.map((runId, index) => worker.waits.settle(runId, needs[index] as RunNeeds)),
    );
    expect(went.every((readiness) => readiness === null)).toBe(true);
    const back = await returns();
    expect(back).toHaveLength(1_000);
    expect((back.at(-1) ?? 0) - (await readMs())).toBeLessThanOrEqual(30_000);
    // About forty of them in each second.
    const perSecond = back.map((ms, index) => ms - (back[index - 60] ?? 0)).slice(60);
    expect(Math.min(...perSecond)).toBeGreaterThan(500);
  },
);

test('a run that another worker has claimed, or that went back already, is left alone', async () => {
  const runId = await dispatchedRun();
  const [first, frozen] = [openWorker([open('a')]), openWorker([open('b')])];
  const [needs] = await findRunNeeds(side.db, [runId]);
  expect([await first.settle(runId), await frozen.settle(runId)]).toEqual([null, null]);
  expect((await findRunNeeds(side.db, [runId]))[0]?.wait?.pending).toEqual(['a']);
  await letPass();
  await dispatch();
  await side.claim(runId);
  expect(await frozen.settle(runId, needs ?? {})).toBe(null);
  expect(await side.sql`select from outbox where run_id = ${runId}`).toEqual([]);
});

test('a cut connection loses no run that goes back', async () => {
  const cut = Object.assign(new Error('terminating connection'), { code: '57P01' });
  const unanswered = [true];
  const query: Sql['query'] = async (statement, values) => {
    const answer = await side.db.query(statement, values);
    if (statement.includes('waits_since = coalesce') && unanswered.pop()) throw cut;
    return answer as never;
  };
  const runId = await dispatchedRun();
  expect(await openWorker([open('a')], { query } as Sql).settle(runId)).toBe(null);
  await letPass();
  expect(await dispatch()).toEqual([runId]);
});
