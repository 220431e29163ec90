/**
 * Everything around the store: a queue that loses, doubles and reorders, workers that stop at any
 * step, and a bucket with conditional puts. An action does one small thing; any order of actions is
 * a history that could happen.
 */

import type { Cadence } from '../../src/domain/cadence.ts';
import type { Instant } from '../../src/domain/time.ts';
import { widenRange } from '../../src/scheduling/backfill-range.ts';
import { missedWhilePaused } from '../../src/scheduling/missed-while-paused.ts';
import {
  changeCadence,
  changeWindow,
  openSchedule,
  pause,
  type Settings,
  unpause,
} from '../../src/scheduling/schedule.ts';
import {
  advanceBackfill,
  cancelRun,
  claimRun,
  completeRun,
  type Defect,
  handBackRun,
  isOver,
  keyOf,
  type ModelStore,
  planExport,
  renewLease,
  ringRuns,
  rowOf,
  startBackfill,
} from './model-store.ts';

export interface Manifest {
  readonly etag: number;
  readonly runId: number;
  /** Which state of the source its rows are from. */
  readonly snapshot: number;
}

interface Worker {
  runId: number | null;
  token: number;
  step: 'read' | 'check' | 'put' | 'complete';
  snapshot: number;
  /** The ETag that the put expects to replace; null for none. */
  expected: number | null;
  put: Manifest | null;
}

export interface World {
  readonly store: ModelStore;
  readonly queue: number[];
  readonly workers: readonly Worker[];
  /** Heartbeats under way: they may arrive when their worker is long gone. */
  readonly beats: { readonly runId: number; readonly token: number }[];
  readonly bucket: Map<string, Manifest>;
  sourceVersion: number;
  lastEtag: number;
}

/** What became of a request: `unheard` was done, but its answer was lost. */
export type Outcome = 'done' | 'lost' | 'unheard';

export type Action =
  | { readonly kind: 'wait'; readonly ms: number }
  | {
      readonly kind: 'plan';
      readonly export: number;
      readonly limit: number;
      readonly outcome: Outcome;
    }
  | { readonly kind: 'ring'; readonly slots: number }
  | { readonly kind: 'deliver'; readonly pick: number; readonly twice: boolean }
  | { readonly kind: 'lose_job'; readonly pick: number }
  | { readonly kind: 'flush_queue' }
  | {
      readonly kind: 'step';
      readonly worker: number;
      readonly count: number;
      readonly outcome: Outcome;
    }
  | { readonly kind: 'kill' | 'shut_down' | 'beat'; readonly worker: number }
  | { readonly kind: 'beat_arrives'; readonly pick: number }
  | { readonly kind: 'source_changes' }
  | { readonly kind: 'pause' | 'unpause'; readonly export: number; readonly backfill: boolean }
  | { readonly kind: 'cadence'; readonly export: number; readonly cadence: Cadence }
  | { readonly kind: 'window'; readonly export: number; readonly endsInMs: number | null }
  | { readonly kind: 'backfill'; readonly export: number; readonly backMs: number }
  | { readonly kind: 'advance_backfill'; readonly pick: number }
  | { readonly kind: 'cancel'; readonly pick: number };

export function createWorld(
  now: Instant,
  settings: readonly Settings[],
  defect: Defect | null,
): World {
  const idle = {
    runId: null,
    token: 0,
    step: 'read',
    snapshot: 0,
    expected: null,
    put: null,
  } as const;
  return {
    store: {
      now,
      defect,
      exports: settings.map((one) => {
        const schedule = openSchedule(one, now);
        const start = schedule.openIntervalStart;
        return { schedule, firstTickStart: start, highWaterMark: start, ticks: [] };
      }),
      runs: [],
      backfills: [],
      etags: new Map(),
      remembered: new Map(),
    },
    queue: [],
    workers: [{ ...idle }, { ...idle }, { ...idle }],
    beats: [],
    bucket: new Map(),
    sourceVersion: 1,
    lastEtag: 0,
  };
}

export function act(world: World, action: Action): void {
  const { store, queue } = world;
  switch (action.kind) {
    case 'wait':
      store.now += action.ms;
      return;
    case 'plan':
      // An answer that was not heard is the same to a planner: the next tick reads the rows anew.
      if (action.outcome !== 'lost') planExport(store, action.export, store.now, action.limit);
      return;
    case 'ring':
      queue.push(...ringRuns(store, action.slots));
      return;
    case 'deliver':
      deliver(world, action.pick, action.twice);
      return;
    case 'lose_job':
      if (queue.length > 0) queue.splice(action.pick % queue.length, 1);
      return;
    case 'flush_queue':
      queue.length = 0;
      return;
    case 'step':
      for (let done = 1; done < action.count; done += 1) {
        step(world, rowOf(world.workers, action.worker), 'done');
      }
      step(world, rowOf(world.workers, action.worker), action.outcome);
      return;
    case 'kill':
      rowOf(world.workers, action.worker).runId = null;
      return;
    case 'shut_down': {
      const worker = rowOf(world.workers, action.worker);
      if (worker.runId !== null) handBackRun(store, worker.runId, worker.token);
      worker.runId = null;
      return;
    }
    case 'beat': {
      const { runId, token } = rowOf(world.workers, action.worker);
      if (runId !== null) world.beats.push({ runId, token });
      return;
    }
    case 'beat_arrives': {
      const [beat] = world.beats.splice(action.pick % (world.beats.length || 1), 1);
      if (beat) renewLease(store, beat.runId, beat.token);
      return;
    }
    case 'source_changes':
      world.sourceVersion += 1;
      return;
    case 'advance_backfill':
      if (store.backfills.length > 0) {
        advanceBackfill(store, action.pick % store.backfills.length, 3);
      }
      return;
    case 'cancel':
      if (store.runs.length > 0) cancelRun(store, action.pick % store.runs.length);
      return;
    default:
      edit(store, action);
  }
}

type Edit = Extract<Action, { kind: 'pause' | 'unpause' | 'cadence' | 'window' | 'backfill' }>;

function edit(store: ModelStore, action: Edit): void {
  const row = rowOf(store.exports, action.export);
  const { now } = store;
  switch (action.kind) {
    case 'pause':
      row.schedule = pause(row.schedule, now);
      return;
    case 'unpause':
      if (action.backfill) {
        for (const range of missedWhilePaused(row.schedule, now)) {
          startBackfill(store, action.export, range);
        }
      }
      row.schedule = unpause(row.schedule, now);
      return;
    case 'cadence':
      row.schedule = changeCadence(row.schedule, action.cadence, now);
      return;
    case 'window': {
      const endAt = action.endsInMs === null ? null : now + action.endsInMs;
      row.schedule = changeWindow(row.schedule, { endAt }, now);
      return;
    }
    case 'backfill': {
      const range = { start: now - action.backMs, end: now };
      const widened = widenRange(row.schedule.cadences, range, now);
      if (widened !== null) startBackfill(store, action.export, widened);
    }
  }
}

function deliver(world: World, pick: number, twice: boolean): void {
  const { queue, store, workers } = world;
  if (queue.length === 0) return;
  const index = pick % queue.length;
  const runId = queue[index];
  const idle = workers.find((worker) => worker.runId === null);
  if (runId === undefined || idle === undefined) return;
  if (!twice) queue.splice(index, 1);
  const token = claimRun(store, runId);
  if (token !== null)
    Object.assign(idle, { runId, token, step: 'read', expected: null, put: null });
}

/** One step of an attempt. A worker that hears no answer gives up; its lease will run out. */
function step(world: World, worker: Worker, outcome: Outcome): void {
  const { runId, token } = worker;
  if (runId === null) return;
  const run = rowOf(world.store.runs, runId);
  const key = keyOf(run.exportId, run.interval);
  const isHeard = outcome === 'done';
  let goesOn = isHeard;
  switch (worker.step) {
    case 'read':
      worker.snapshot = world.sourceVersion;
      worker.step = 'check';
      break;
    case 'check':
      goesOn = isHeard && renewLease(world.store, runId, token);
      worker.expected = world.store.etags.get(key) ?? null;
      worker.step = 'put';
      break;
    case 'put':
      if (outcome !== 'lost') goesOn = putManifest(world, worker, run.id, key) && isHeard;
      break;
    case 'complete':
      if (outcome !== 'lost' && worker.put !== null) {
        completeRun(world.store, runId, token, worker.put);
      }
      goesOn = false;
  }
  if (!goesOn) worker.runId = null;
}

/**
 * The commit: the manifest, put on the condition of what was on record when the fence was checked.
 * Refused, it looks at what is there: the run's own manifest is adopted (an attempt died after its
 * put), one of a run that is over is replaced, one of a run still going is left to that run.
 */
function putManifest(world: World, worker: Worker, runId: number, key: string): boolean {
  const there = world.bucket.get(key);
  const isFree = (there?.etag ?? null) === worker.expected;
  if (isFree || world.store.defect === 'put_unconditionally') {
    world.lastEtag += 1;
    worker.put = { etag: world.lastEtag, runId, snapshot: worker.snapshot };
    world.bucket.set(key, worker.put);
    worker.step = 'complete';
    return true;
  }
  if (there?.runId === runId) {
    worker.put = there;
    worker.step = 'complete';
    return true;
  }
  if (there !== undefined && isOver(rowOf(world.store.runs, there.runId))) {
    worker.expected = there.etag;
    return renewLease(world.store, runId, worker.token);
  }
  handBackRun(world.store, runId, worker.token);
  return false;
}
