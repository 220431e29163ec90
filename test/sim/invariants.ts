/** What must hold after every action, and what must have come true once the faults are over. */

import type { Instant } from '../../src/domain/time.ts';
import { intervalsIn } from '../../src/scheduling/backfill-range.ts';
import { advanceHighWaterMark } from '../../src/scheduling/high-water-mark.ts';
import { isOver, keyOf, leaseMs, planExport, rowOf } from './model-store.ts';
import { act, type World } from './world.ts';

/** Remembers what may only rise. */
export interface Witness {
  readonly tokens: Map<number, number>;
  readonly marks: Map<number, Instant>;
  readonly holders: Map<string, string>;
  readonly ended: Map<number, string>;
}

export function createWitness(): Witness {
  return { tokens: new Map(), marks: new Map(), holders: new Map(), ended: new Map() };
}

function must(holds: boolean, what: string): void {
  if (!holds) throw new Error(what);
}

/** I1, I2: ticks tile. I5: fences rise, no two attempts share one, what is over stays as it is. */
export function checkAlways(world: World, witness: Witness): void {
  world.store.exports.forEach((row, exportId) => {
    let expected = row.firstTickStart;
    for (const { interval, tickAt } of row.ticks) {
      must(
        interval.start === expected,
        `I1 I2: export ${exportId} has a gap or overlap at ${tickAt}`,
      );
      must(interval.end === tickAt && tickAt > interval.start, `I1: bad interval at ${tickAt}`);
      expected = interval.end;
    }
    const mark = witness.marks.get(exportId) ?? row.firstTickStart;
    must(row.highWaterMark >= mark, `the high-water mark of export ${exportId} went back`);
    witness.marks.set(exportId, row.highWaterMark);
  });
  for (const run of world.store.runs) {
    must(run.token >= (witness.tokens.get(run.id) ?? 0), `I5: the fence of run ${run.id} fell`);
    witness.tokens.set(run.id, run.token);
    must(!run.handedBack || run.leaseUntil === 0, `run ${run.id} is leased to nobody`);
    const ended = witness.ended.get(run.id);
    must(ended === undefined || ended === run.status, `I5: run ${run.id} left its end`);
    if (isOver(run)) witness.ended.set(run.id, run.status);
  }
  const held = world.workers
    .filter(({ runId }) => runId !== null)
    .map(({ runId, token }) => `${runId}#${token}`);
  must(new Set(held).size === held.length, `I5: two workers hold one fence: ${held.join(' ')}`);
}

/** Ends all faults and lets everybody work, up to the time it is now. */
export function settle(world: World): void {
  const { store } = world;
  const horizon = store.now;
  store.exports.forEach((_, exportId) => {
    while (planExport(store, exportId, horizon, 50));
  });
  store.backfills.forEach((backfill, pick) => {
    while (!backfill.done) act(world, { kind: 'advance_backfill', pick });
  });
  // A clock that went back makes leases and rings last until it has caught up.
  const latest = Math.max(
    horizon,
    ...store.runs.flatMap((run) => [run.leaseUntil, run.rungAt ?? 0]),
  );
  const rounds = 20 + store.runs.length * 4 + (latest - horizon) / leaseMs;
  for (let round = 0; round < rounds && store.runs.some((run) => !isOver(run)); round += 1) {
    act(world, { kind: 'ring', slots: 6 });
    while (world.queue.length > 0) {
      act(world, { kind: 'deliver', pick: 0, twice: false });
      world.workers.forEach((_, worker) => {
        act(world, { kind: 'step', worker, count: 8, outcome: 'done' });
      });
    }
    store.now += leaseMs;
  }
}

/** Once settled: every run is over, and bucket and record tell the same of every interval. */
export function checkSettled(world: World): void {
  const { store, bucket } = world;
  for (const run of store.runs) must(isOver(run), `run ${run.id} never ends`);
  store.exports.forEach((row, exportId) => {
    const runs = store.runs.filter((run) => run.exportId === exportId);
    const live = runs.filter(({ backfillId }) => backfillId === null);
    const ran = row.ticks.filter(({ fate }) => fate === 'ran');
    must(
      JSON.stringify(live.map(({ interval }) => interval)) ===
        JSON.stringify(ran.map(({ interval }) => interval)),
      `export ${exportId} has other runs than ticks that ran`,
    );
    const completed = live.filter(({ status }) => status === 'Completed');
    must(
      row.highWaterMark ===
        advanceHighWaterMark(
          row.firstTickStart,
          completed.map(({ interval }) => interval),
        ),
      `the high-water mark of export ${exportId} is not the end of its completed prefix`,
    );
  });
  for (const run of store.runs.filter(({ status }) => status === 'Completed')) {
    const key = keyOf(run.exportId, run.interval);
    const manifest = bucket.get(key);
    must(manifest !== undefined, `I4: ${key} is Completed and has no manifest`);
    if (manifest === undefined) continue;
    const author = rowOf(store.runs, manifest.runId);
    // A cancelled run may have put its manifest last; nobody recorded it, and a re-run replaces it.
    if (author.status === 'Cancelled') continue;
    must(store.etags.get(key) === manifest.etag, `I4: ${key} is on record with another manifest`);
    must(author.snapshot === manifest.snapshot, `I4: ${key} tells of other rows than its run`);
  }
  for (const { exportId, range } of store.backfills) {
    const { cadences } = rowOf(store.exports, exportId).schedule;
    for (const interval of intervalsIn(cadences, range, 'oldest_first')) {
      const key = keyOf(exportId, interval);
      const runs = store.runs.filter((run) => keyOf(run.exportId, run.interval) === key);
      must(runs.length > 0, `a backfill left out ${key}`);
    }
  }
}
