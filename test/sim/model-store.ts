/**
 * What Postgres does, in memory: each function is one transaction. The decisions are those of
 * `src/scheduling` and `src/domain`; what is modelled here is when they are asked and stored.
 */

import { nextStatus, type RunEvent, type RunStatus } from '../../src/domain/run.ts';
import type { Schedule } from '../../src/domain/schedule.ts';
import type { DataInterval, Instant } from '../../src/domain/time.ts';
import { pageOfIntervals } from '../../src/scheduling/backfill-range.ts';
import { pickFair } from '../../src/scheduling/fairness.ts';
import { advanceHighWaterMark } from '../../src/scheduling/high-water-mark.ts';
import { planTicks, type Tick } from '../../src/scheduling/plan.ts';

export const leaseMs = 60_000;
const ringAgainMs = 30_000;

/** Bugs that can be put in on purpose: the simulator must find each of them. */
export type Defect =
  | 'ring_once'
  | 'put_unconditionally'
  | 'plan_from_memory'
  | 'fence_never_rises'
  | 'hand_back_keeps_fence';

export interface RunRow {
  readonly id: number;
  readonly exportId: number;
  readonly interval: DataInterval;
  readonly backfillId: number | null;
  status: RunStatus;
  /** The fence: what a worker must show to write. */
  token: number;
  /** 0 where nobody holds it. */
  leaseUntil: Instant;
  /** Since its last claim. */
  handedBack: boolean;
  rungAt: Instant | null;
  /** Of the rows as the manifest tells them; null before the run is complete. */
  snapshot: number | null;
}

export interface ExportRow {
  schedule: Schedule;
  readonly firstTickStart: Instant;
  highWaterMark: Instant;
  readonly ticks: Tick[];
}

interface BackfillRow {
  readonly exportId: number;
  readonly range: DataInterval;
  after: Instant | undefined;
  done: boolean;
}

export interface ModelStore {
  now: Instant;
  readonly defect: Defect | null;
  readonly exports: ExportRow[];
  readonly runs: RunRow[];
  readonly backfills: BackfillRow[];
  /** The ETag on record of each interval's manifest. */
  readonly etags: Map<string, number>;
  /** What a planner without a lock would still believe. */
  readonly remembered: Map<number, Schedule>;
}

export function isOver(run: RunRow): boolean {
  return run.status !== 'Starting' && run.status !== 'Running';
}

export function keyOf(exportId: number, { start, end }: DataInterval): string {
  return `${exportId}/${start}-${end}`;
}

export function planExport(
  store: ModelStore,
  exportId: number,
  upTo: Instant,
  limit: number,
): boolean {
  const row = rowOf(store.exports, exportId);
  const remembered = store.remembered.get(exportId);
  const schedule =
    store.defect === 'plan_from_memory' && remembered !== undefined ? remembered : row.schedule;
  store.remembered.set(exportId, row.schedule);
  const plan = planTicks(schedule, upTo, limit);
  for (const tick of plan.ticks) {
    row.ticks.push(tick);
    if (tick.fate === 'ran') insertRun(store, exportId, tick.interval, null);
  }
  row.schedule = plan.schedule;
  return plan.more;
}

export function startBackfill(store: ModelStore, exportId: number, range: DataInterval): void {
  store.backfills.push({ exportId, range, after: undefined, done: false });
}

/** Makes the next few runs of a backfill; an interval with a live run is left to it. */
export function advanceBackfill(store: ModelStore, backfillId: number, limit: number): void {
  const backfill = rowOf(store.backfills, backfillId);
  const { cadences } = rowOf(store.exports, backfill.exportId).schedule;
  const { after, range } = backfill;
  const page = pageOfIntervals(cadences, range, { order: 'oldest_first', after, limit });
  for (const interval of page) {
    const key = keyOf(backfill.exportId, interval);
    const live = store.runs.some(
      (run) => !isOver(run) && keyOf(run.exportId, run.interval) === key,
    );
    if (!live) insertRun(store, backfill.exportId, interval, backfillId);
    backfill.after = interval.start;
  }
  backfill.done = page.length < limit;
}

/** Which runs to ring for now: never rung, or rung a while ago and nobody came. */
export function ringRuns(store: ModelStore, slots: number): readonly number[] {
  const open = store.runs.filter((run) => !isOver(run));
  const isWaiting = ({ rungAt, leaseUntil }: RunRow): boolean =>
    rungAt === null ||
    (store.defect !== 'ring_once' && rungAt + ringAgainMs <= store.now && leaseUntil <= store.now);
  const asDispatched = (run: RunRow) => ({
    runId: String(run.id),
    tenantId: run.exportId % 2,
    exportId: String(run.exportId),
    backfillId: run.backfillId === null ? null : String(run.backfillId),
    intervalStart: run.interval.start,
  });
  const limits = { perTenant: 8, perExport: 4, perBackfill: () => 2 };
  const chosen = pickFair(
    open.filter(isWaiting).map(asDispatched),
    open.filter((run) => !isWaiting(run)).map(asDispatched),
    limits,
    slots,
  );
  return chosen.map(({ runId }) => {
    rowOf(store.runs, Number(runId)).rungAt = store.now;
    return Number(runId);
  });
}

/** The new token, or null where the run is over or somebody holds it. */
export function claimRun(store: ModelStore, runId: number): number | null {
  const run = rowOf(store.runs, runId);
  if (isOver(run) || run.leaseUntil > store.now) return null;
  move(run, 'claimed');
  if (store.defect !== 'fence_never_rises' || run.token === 0) run.token += 1;
  run.leaseUntil = store.now + leaseMs;
  run.handedBack = false;
  return run.token;
}

/** Extends the lease; false where it was lost, and nothing more may be written. */
export function renewLease(store: ModelStore, runId: number, token: number): boolean {
  const run = rowOf(store.runs, runId);
  if (run.status !== 'Running' || run.token !== token) return false;
  run.leaseUntil = store.now + leaseMs;
  return true;
}

export function completeRun(
  store: ModelStore,
  runId: number,
  token: number,
  manifest: { readonly etag: number; readonly snapshot: number },
): boolean {
  const run = rowOf(store.runs, runId);
  if (run.status !== 'Running' || run.token !== token) return false;
  move(run, 'completed');
  run.snapshot = manifest.snapshot;
  store.etags.set(keyOf(run.exportId, run.interval), manifest.etag);
  if (run.backfillId === null) {
    const row = rowOf(store.exports, run.exportId);
    const completed = store.runs
      .filter((other) => other.exportId === run.exportId && other.backfillId === null)
      .filter(({ status }) => status === 'Completed');
    row.highWaterMark = advanceHighWaterMark(
      row.highWaterMark,
      completed.map(({ interval }) => interval),
    );
  }
  return true;
}

/** Without effect on a run that is over. */
export function cancelRun(store: ModelStore, runId: number): void {
  const run = rowOf(store.runs, runId);
  if (!isOver(run)) move(run, 'cancelled');
}

export function handBackRun(store: ModelStore, runId: number, token: number): void {
  const run = rowOf(store.runs, runId);
  if (run.status !== 'Running' || run.token !== token) return;
  move(run, 'handed_back');
  if (store.defect !== 'hand_back_keeps_fence') run.token += 1;
  run.leaseUntil = 0;
  run.handedBack = true;
}

export function rowOf<Row>(rows: readonly Row[], id: number): Row {
  const row = rows[id];
  if (row === undefined) throw new Error(`no row ${id}`);
  return row;
}

function insertRun(
  store: ModelStore,
  exportId: number,
  interval: DataInterval,
  backfillId: number | null,
): void {
  const id = store.runs.length;
  const fresh = {
    status: 'Starting',
    token: 0,
    leaseUntil: 0,
    handedBack: false,
    rungAt: null,
    snapshot: null,
  } as const;
  store.runs.push({ id, exportId, interval, backfillId, ...fresh });
}

function move(run: RunRow, event: RunEvent): void {
  const next = nextStatus(run.status, event);
  if (next === null) throw new Error(`I5: ${event} is not legal for run ${run.id}, ${run.status}`);
  run.status = next;
}
