/**
 * Everything around the store: a queue that loses, doubles and reorders, workers that stop at any
 * step, and a bucket with conditional puts. An action does one small thing by the real use cases; any
 * order of actions is a history that could happen.
 */

import type { Cadence } from '../../src/foundation/domain/cadence.ts';
import { SluiceError } from '../../src/foundation/domain/errors.ts';
import { Refusal } from '../../src/foundation/domain/problem.ts';
import { type Instant, toTimestamp } from '../../src/foundation/domain/time.ts';
import type { Source } from '../../src/rows/sources/source.ts';
import { openSchedule, type Settings } from '../../src/service/scheduling/schedule.ts';
import { listRunningBackfills } from '../../src/state/store/exports/backfills.ts';
import { findBatchExport } from '../../src/state/store/exports/exports.ts';
import type { Lease } from '../../src/state/store/runs/run-moves.ts';
import { renewLeases, sweepExpiredLeases } from '../../src/state/store/runs/leases.ts';
import { findRunNeeds } from '../../src/state/store/runs/outbox.ts';
import { findRun } from '../../src/state/store/runs/runs.ts';
import { reportWorker } from '../../src/state/store/runs/workers.ts';
import { startBackfill } from '../../src/service/use-cases/backfills/start-backfill.ts';
import type { Context } from '../../src/service/use-cases/context.ts';
import { pauseExport, unpauseExport } from '../../src/service/use-cases/exports/pause-export.ts';
import type { ExportRules } from '../../src/service/use-cases/exports/rules.ts';
import { updateExport } from '../../src/service/use-cases/exports/update-export.ts';
import { applyRetention } from '../../src/service/use-cases/installation/apply-retention.ts';
import { cancelRun } from '../../src/service/use-cases/runs/cancel-work.ts';
import { decideTicks } from '../../src/service/use-cases/runs/decide-ticks.ts';
import { dispatchRuns } from '../../src/service/admission/admission.ts';
import { recordFault, releaseRun } from '../../src/service/use-cases/runs/finish-run.ts';
import { lookBack, SlowExports } from '../../src/service/use-cases/runs/look-back.ts';
import { advanceBackfill, claimRun } from '../support/run-verbs.ts';
import { WorkGuard } from '../../src/service/use-cases/work-guard.ts';
import { exportOfThePast } from '../support/run-side.ts';
import { storeExport } from '../support/store-export.ts';
import { type Attempt, begun, type Bucket, keyOf, takeStep } from './attempt.ts';
import { type Defect, type FaultyDatabase, type Outcome, Unheard } from './faulty-database.ts';
import {
  changeSource,
  createSource,
  lookingAt,
  type SimSource,
  type SourceChange,
} from './source.ts';
import type { SimDatabase } from './virtual-time.ts';

/** What all histories of a lane share. */
export interface Lane {
  readonly sim: SimDatabase;
  readonly db: FaultyDatabase;
  readonly context: Context;
  readonly organizationId: string;
  readonly teamIds: readonly [number, number];
}

export interface World {
  readonly lane: Lane;
  now: Instant;
  /** Clocks go back too. */
  latest: Instant;
  readonly exportIds: readonly string[];
  readonly firstTickStarts: readonly Instant[];
  readonly queue: string[];
  readonly workers: (Attempt | null)[];
  /** Heartbeats in progress: they may arrive when their worker is long gone. */
  readonly beats: Lease[];
  readonly bucket: Bucket;
  readonly source: SimSource;
  /** Ends no look-back. */
  readonly slow: SlowExports;
  claims: number;
}

export type Action =
  | { readonly kind: 'wait'; readonly ms: number }
  | { readonly kind: 'plan' | 'sweep'; readonly outcome: Outcome }
  | { readonly kind: 'dispatch'; readonly slots: number; readonly outcome: Outcome }
  | {
      readonly kind: 'deliver';
      readonly pick: number;
      readonly twice: boolean;
      readonly outcome: Outcome;
    }
  | { readonly kind: 'lose_job'; readonly pick: number }
  | { readonly kind: 'flush_queue' }
  | {
      readonly kind: 'step';
      readonly worker: number;
      readonly count: number;
      readonly outcome: Outcome;
    }
  | { readonly kind: 'kill' | 'shut_down' | 'beat'; readonly worker: number }
  | { readonly kind: 'fault'; readonly worker: number; readonly isLasting: boolean }
  | { readonly kind: 'beat_arrives'; readonly pick: number }
  | { readonly kind: 'retention' | 'look_back' }
  | { readonly kind: 'source_changes'; readonly change: SourceChange; readonly pick: number }
  | { readonly kind: 'zone_data'; readonly export: number; readonly zone: string }
  | { readonly kind: 'pause' | 'unpause'; readonly export: number; readonly backfill: boolean }
  | { readonly kind: 'cadence'; readonly export: number; readonly cadence: Cadence }
  | { readonly kind: 'window'; readonly export: number; readonly endsInMs: number | null }
  | {
      readonly kind: 'backfill';
      readonly export: number;
      readonly backMs: number;
      readonly drops: boolean;
    }
  | { readonly kind: 'advance_backfill'; readonly pick: number }
  | { readonly kind: 'cancel'; readonly pick: number };

const hourMs = 3_600_000;

/** No history changes a destination or a query. */
const rules: ExportRules = {
  models: [],
  destinationTypes: ['NoOp'],
  keyIdProperty: () => null,
  encloseConfig: (_type, config) => config,
  checkDestination: (_type, config) => ({ config, problems: [] }),
  placeOf: () => 'nowhere',
  secretProperties: () => [],
  ownProperties: () => [],
  checkQuery: () => ({ ok: true, schema: null, missingKeys: [] }),
  applyFilters: (dslQuery) => ({ ok: true, dslQuery }),
};

export async function createWorld(
  lane: Lane,
  now: Instant,
  settings: readonly Settings[],
  defect: Defect | null,
): Promise<World> {
  await lane.sim.reset(now);
  const schedules = settings.map((one) => openSchedule(one, now));
  const exportIds = settings.map((_, index) => `00000000-0000-4000-8000-00000000000${index}`);
  for (const [index, id] of exportIds.entries()) {
    const one = settings[index];
    const schedule = schedules[index];
    const teamId = lane.teamIds[index % 2];
    if (!one || !schedule || teamId === undefined) continue;
    await storeExport(lane.db, {
      ...(await exportOfThePast({ db: lane.db, teamId }, { paused: one.paused })),
      ...{ id, cadence: one.cadence, schedule },
    });
  }
  return {
    lane,
    now,
    latest: now,
    exportIds,
    firstTickStarts: schedules.map((schedule) => schedule.openIntervalStart),
    queue: [],
    workers: [null, null, null],
    beats: [],
    bucket: { manifests: new Map(), lastEtag: 0, defect },
    source: createSource(),
    slow: new SlowExports(),
    claims: 0,
  };
}

export async function act(world: World, action: Action): Promise<void> {
  try {
    await perform(world, action);
  } catch (error) {
    if (!(error instanceof Unheard)) throw error;
  }
}

async function perform(world: World, action: Action): Promise<void> {
  const { queue, lane, bucket, workers } = world;
  const { context, db } = lane;
  if ('outcome' in action && action.kind !== 'step') db.failNext(action.outcome);
  switch (action.kind) {
    case 'wait':
      return passTime(world, action.ms);
    case 'plan':
      await decideTicks(context, {
        onError: (error) => {
          throw error;
        },
      });
      return;
    case 'sweep':
      await sweepExpiredLeases(db);
      return;
    case 'dispatch':
      // The failure is for the dispatch, or for the heartbeat before it.
      if (action.slots % 2 === 0) db.failNext('done');
      await reportWorker(db, 'worker', Math.ceil(action.slots / 2));
      // Of its statements, the one that takes runs out of the outbox matters most.
      if (action.slots % 2 === 0) db.failNext(action.outcome, 'update installation');
      await dispatchRuns(context, async (entries) => {
        queue.push(...entries.map(({ runId }) => runId));
      });
      return;
    case 'deliver':
      return deliver(world, action.pick, action.twice, action.outcome);
    case 'lose_job':
      if (queue.length > 0) queue.splice(action.pick % queue.length, 1);
      return;
    case 'flush_queue':
      queue.length = 0;
      return;
    case 'step':
      for (let done = 1; done <= action.count; done += 1) {
        const attempt = workers[action.worker];
        if (!attempt) return;
        if (done === action.count && attempt.step !== 'read' && attempt.step !== 'put')
          db.failNext(action.outcome);
        // A worker that hears no answer gives up; its lease will run out.
        workers[action.worker] = null;
        workers[action.worker] = await takeStep(context, bucket, world.source, attempt);
      }
      return;
    case 'kill':
      workers[action.worker] = null;
      return;
    case 'shut_down':
    case 'fault': {
      const attempt = workers[action.worker];
      if (!attempt) return;
      workers[action.worker] = null;
      if (action.kind !== 'fault') return releaseRun(context, attempt.run);
      const code = action.isLasting ? 'destination.access_denied' : 'destination.unavailable';
      return recordFault(context, attempt.run, new SluiceError(code), 0.5);
    }
    case 'beat': {
      const attempt = workers[action.worker];
      if (attempt) world.beats.push(attempt.run);
      return;
    }
    case 'beat_arrives': {
      const [lease] = world.beats.splice(action.pick % (world.beats.length || 1), 1);
      if (lease) await renewLeases(db, [lease], context.policy.leaseMs);
      return;
    }
    case 'source_changes':
      return change(world, action.change, action.pick);
    case 'look_back':
      return look(world);
    case 'retention':
      return applyRetention(context);
    case 'zone_data':
      // For an export it is the same if its zone has other offsets from now on, also in the past.
      await db.query(
        `update batch_exports set schedule = regexp_replace(schedule::text, 'America/[A-Za-z_]+', $2, 'g')::jsonb where id = $1`,
        [world.exportIds[action.export], action.zone],
      );
      return;
    case 'advance_backfill': {
      const ids = (await listRunningBackfills(db)).sort();
      const id = ids[action.pick % (ids.length || 1)];
      if (id !== undefined) await advanceBackfill(context, id);
      return;
    }
    case 'cancel':
      return cancel(world, action.pick);
    default:
      return edit(world, action);
  }
}

export async function passTime(world: World, ms: number): Promise<void> {
  world.now += ms;
  world.latest = Math.max(world.latest, world.now);
  await world.lane.sim.setTime(world.now);
}

type Edit = Extract<Action, { kind: 'pause' | 'unpause' | 'cadence' | 'window' | 'backfill' }>;

async function edit(world: World, action: Edit): Promise<void> {
  const { context, db, organizationId } = world.lane;
  const actor = { organizationId, keyId: null };
  const id = world.exportIds[action.export];
  if (id === undefined) return;
  switch (action.kind) {
    case 'pause':
      await pauseExport(context, actor, id);
      return;
    case 'unpause': {
      const { backfill } = action;
      await unpauseExport(context, actor, id, { backfill, retryMissing: false }).catch(
        unlessRefused,
      );
      return;
    }
    case 'cadence':
      await updateExport(context, rules, actor, id, action.cadence);
      return;
    case 'window': {
      const endAt = action.endsInMs === null ? null : toTimestamp(world.now + action.endsInMs);
      await updateExport(context, rules, actor, id, { endAt });
      return;
    }
    case 'backfill': {
      const batchExport = await findBatchExport(db, { organizationId, teamId: null }, id);
      const range = { startAt: world.now - action.backMs, endAt: world.now };
      const request = {
        ...range,
        order: 'oldest_first',
        reprocess: 'all',
        concurrency: 2,
        dropsMissing: action.drops,
      } as const;
      // A range that overlaps a running backfill is refused.
      if (batchExport) await startBackfill(context, batchExport, request).catch(unlessRefused);
    }
  }
}

/** Of an interval that has files, most often; a restart is of the whole server. */
function change({ source, bucket, exportIds, now }: World, what: SourceChange, pick: number): void {
  const keys = [...bucket.manifests.keys()];
  const hour = now - (now % hourMs);
  const next = keyOf(exportIds[pick % exportIds.length] ?? '', { start: hour, end: hour + hourMs });
  changeSource(source, what, keys[pick % keys.length] ?? next);
}

async function look({ lane, source, exportIds, slow }: World): Promise<void> {
  const { context, teamIds, db } = lane;
  db.failNext('done');
  const errors: unknown[] = [];
  const looked = lookingAt(source, ({ tenantKey, interval }) =>
    keyOf(exportIds[teamIds.indexOf(Number(tenantKey))] ?? '', interval),
  );
  await lookBack(context, {
    slow,
    guard: new WorkGuard(db, () => {}),
    sourceOf: () => looked as Source,
    keepsFiles: () => true,
    onError: (error) => void errors.push(error),
    onMade: () => {},
    stopping: new AbortController().signal,
  });
  if (errors.length > 0) throw errors[0];
}

async function deliver(
  world: World,
  pick: number,
  twice: boolean,
  outcome: Outcome,
): Promise<void> {
  const { queue, lane, workers } = world;
  const { db, context } = lane;
  db.failNext('done');
  const index = pick % (queue.length || 1);
  const runId = queue[index];
  const idle = workers.indexOf(null);
  if (runId === undefined || idle < 0) return;
  if (!twice) queue.splice(index, 1);
  // A job about a run that has ended is dropped before the claim.
  const [needs] = await findRunNeeds(db, [runId]);
  if (!needs || needs.isHeld) return;
  world.claims += 1;
  const holder = `claim ${world.claims}`;
  const claim = () => claimRun(db, runId, holder, context.policy.leaseMs);
  db.failNext(outcome);
  // A claim whose answer was lost is asked again under the same name.
  const run = await claim().catch((error: unknown) => {
    if (error instanceof Unheard && outcome === 'unheard') return claim();
    throw error;
  });
  if (run) workers[idle] = begun(run);
}

async function cancel({ lane, exportIds }: World, pick: number): Promise<void> {
  const { db, context } = lane;
  const runs = await db.query<{ id: string; exportId: string }>(
    `select id, export_id as "exportId" from runs order by id`,
  );
  const chosen = runs[pick % (runs.length || 1)];
  if (!chosen || !exportIds.includes(chosen.exportId)) return;
  const run = await findRun(db, chosen.exportId, chosen.id);
  if (run) await cancelRun(context, run).catch(unlessRefused);
}

function unlessRefused(error: unknown): void {
  if (!(error instanceof Refusal)) throw error;
}
