import type { QueuedRun } from '../../foundation/domain/run.ts';
import {
  crowdedShare,
  type DispatchLimits,
  healingShare,
  heals,
  organizationShare,
  pickFair,
} from './fairness.ts';
import type { Sql } from '../../state/store/database/database.ts';
import {
  type DispatchState,
  dispatch,
  type EnqueuedRun,
  findUnanswered,
  findWaitingByExport,
  lockDispatch,
  markDispatched,
  markReady,
  readDispatchState,
  unmarkDispatched,
} from '../../state/store/runs/outbox.ts';
import type { Context } from '../use-cases/context.ts';
import type { Crowd } from './crowd.ts';

/** A run that is unclaimed after this time is enqueued again: the queue may have lost it. */
const enqueueAgainAfterMs = 5_000;

/** Maximum waiting runs of one team considered by one call. */
const candidatesPerTeam = 200;

/** A run to enqueue. */
export interface QueueEntry {
  readonly runId: string;
  /**
   * The deduplication id: the queue holds it at most once. A run that is enqueued again may get a new one. Null: it is
   * enqueued for the first time.
   */
  readonly deduplicationId: string | null;
  /** Whether it goes to the queue of small runs. */
  readonly small: boolean;
}

/** @param smallSlots of all workers */
type Enqueue = (entries: readonly QueueEntry[], smallSlots: number) => Promise<void>;

/**
 * What time brings: makes runs visible whose backoff or jitter has ended, and enqueues those again that no
 * worker has claimed. Then enqueues waiting runs.
 *
 * @param enqueue adds runs to the queue; throws if the queue is unreachable
 * @param crowd learns who is active, and says who must leave room; default: none must
 * @returns how many runs were enqueued for the first time
 */
export async function dispatchRuns(
  context: Context,
  enqueue: Enqueue,
  crowd?: Crowd,
): Promise<number> {
  await markReady(context.db);
  const unanswered = await findUnanswered(context.db, enqueueAgainAfterMs);
  if (unanswered.length > 0) {
    const enqueued = await markDispatched(context.db, unanswered);
    await enqueue(inOrderOf(unanswered, enqueued).map(toEntry), 0);
  }
  return dispatchWaiting(context, enqueue, crowd);
}

/** Dispatchers that overtake each other this often wait for each other instead. */
const maxOvertaken = 3;

/**
 * Enqueues waiting runs, chosen fairly among tenants, until the queue holds about twice as many as the
 * workers have slots. Any number of workers may call it at once. Of four or more slots one
 * organization never has all. Small runs have slots of their own, which are shared in the same way.
 *
 * @param enqueue adds runs to the queue; throws if the queue is unreachable
 * @param crowd as for `dispatchRuns`
 * @returns how many runs were enqueued
 */
export async function dispatchWaiting(
  context: Context,
  enqueue: Enqueue,
  crowd?: Crowd,
): Promise<number> {
  const { enqueued, smallSlots } = await takeTurn(context, crowd);
  if (enqueued.length === 0) return 0;
  try {
    await enqueue(enqueued.map(toEntry), smallSlots);
  } catch (error) {
    await unmarkDispatched(
      context.db,
      enqueued.map(({ runId }) => runId),
    );
    throw error;
  }
  return enqueued.length;
}

/** What a dispatcher has chosen. */
interface Turn {
  readonly enqueued: readonly EnqueuedRun[];
  readonly smallSlots: number;
}

async function takeTurn(context: Context, crowd?: Crowd): Promise<Turn> {
  const { db } = context;
  for (let tried = 0; tried < maxOvertaken; tried += 1) {
    const turn = await chooseAndMark(db, context, crowd);
    if (turn) return turn;
  }
  return db.transaction(async (tx) => {
    await lockDispatch(tx);
    const turn = await chooseAndMark(tx, context, crowd);
    if (!turn) throw new Error('a dispatcher was overtaken under its lock');
    return turn;
  });
}

/** How much of what waits a dispatcher reads: more if what it has read may hide a run that it would choose. */
const readings = [
  { isShort: true, mayCut: true },
  { isShort: false, mayCut: true },
  { isShort: false, mayCut: false },
] as const;

/** @returns null if another dispatcher was faster */
async function chooseAndMark(sql: Sql, context: Context, crowd?: Crowd): Promise<Turn | null> {
  for (const reading of readings) {
    const limits = { ...reading, most: candidatesPerTeam, perTurn: smallRunsPerTurn };
    const state = await readDispatchState(sql, limits);
    if (reading.isShort && mayHide(state, context)) continue;
    const { waiting, queued, executing, smallCapacity: smallSlots } = state;
    crowd?.see([...waiting, ...queued, ...executing].map(({ organizationId }) => organizationId));
    const { chosen, isEnough } = await choose(sql, context, state, crowd);
    if (reading.isShort && tookWholeList(state, chosen)) continue;
    if (reading.mayCut && !isEnough) continue;
    return mark(sql, state.turn, chosen, smallSlots);
  }
  throw new Error('a dispatcher has read all that waits, and chosen nothing');
}

async function mark(
  sql: Sql,
  turn: number,
  chosen: readonly QueuedRun[],
  smallSlots: number,
): Promise<Turn | null> {
  if (chosen.length === 0) return { enqueued: [], smallSlots };
  const runIds = chosen.map(({ runId }) => runId);
  const enqueued = await dispatch(sql, turn, runIds);
  return enqueued && { enqueued: inOrderOf(runIds, enqueued), smallSlots };
}

/** Runs by list of waiting runs: those of a team that are small, or not. */
function countByList(runs: readonly QueuedRun[]) {
  const counts = new Map<string, { readonly projectId: number; small: boolean; count: number }>();
  for (const { projectId, small = false } of runs) {
    const list = `${projectId} ${small}`;
    const { count } = counts.get(list) ?? { count: 0 };
    counts.set(list, { projectId, small, count: count + 1 });
  }
  return [...counts.values()];
}

/** Whether a list that may be cut was chosen as a whole: then the run that follows it might have been chosen too. */
function tookWholeList(state: DispatchState, chosen: readonly QueuedRun[]): boolean {
  const kinds = kindsOfSlots(state);
  return countByList(chosen).some(({ small, count }) => {
    const { most: limit } = small ? state.limits.small : state.limits.other;
    const slots = (small ? kinds.at(-1) : kinds[0])?.slots ?? 0;
    return count >= limit && limit < Math.min(candidatesPerTeam, slots);
  });
}

/**
 * Whether the runs that a short list leaves out could change the choice: one export of a team with more runs
 * than its list may execute too many already, so that another export's run takes the slot.
 */
function mayHide(
  { waiting, queued, executing, limits }: DispatchState,
  { policy: { maxRunsPerExport } }: Context,
): boolean {
  const isCut = ({ small, count }: { small: boolean; count: number }) => {
    const { most: limit } = small ? limits.small : limits.other;
    return count >= limit && limit < candidatesPerTeam;
  };
  const lists = countByList(waiting).filter(isCut);
  const cut = new Set(lists.map(({ projectId }) => projectId));
  const perLane = new Map<string, number>();
  for (const { projectId, exportId, backfillId } of [...queued, ...executing, ...waiting]) {
    if (backfillId !== null || !cut.has(projectId)) continue;
    const inLane = (perLane.get(exportId) ?? 0) + 1;
    if (inLane > maxRunsPerExport) return true;
    perLane.set(exportId, inLane);
  }
  return false;
}

function inOrderOf(
  runIds: readonly string[],
  enqueued: readonly EnqueuedRun[],
): readonly EnqueuedRun[] {
  const byRun = new Map(enqueued.map((run) => [run.runId, run]));
  return runIds.flatMap((runId) => byRun.get(runId) ?? []);
}

/** Small runs of one project that have a turn together, so that they share their snapshot. */
const smallRunsPerTurn = 4;

/** What the workers have for runs of one kind. */
interface KindOfSlots {
  readonly capacity: number;
  readonly perTurn: number;
  /** For how many more there is room in the queue. */
  readonly slots: number;
  /** Whether organizations were left out. */
  readonly isCut: boolean;
  readonly isFor: (run: QueuedRun) => boolean;
}

/** Without slots of their own, small runs use those of large ones. */
function kindsOfSlots(state: DispatchState): readonly KindOfSlots[] {
  const { capacity, smallCapacity, queued, limits } = state;
  const kind = (
    of: number,
    { isCut }: { readonly isCut: boolean },
    isFor: KindOfSlots['isFor'],
    perTurn = 1,
  ): KindOfSlots => ({
    ...{ capacity: of, isFor, perTurn, isCut },
    slots: 2 * of - queued.filter(isFor).length,
  });
  if (smallCapacity === 0) return [kind(capacity, limits.other, () => true)];
  return [
    kind(capacity, limits.other, ({ small }) => !small),
    kind(smallCapacity, limits.small, ({ small }) => small === true, smallRunsPerTurn),
  ];
}

/** What a dispatcher has chosen of what it has read. */
interface Choice {
  readonly chosen: readonly QueuedRun[];
  /**
   * No if organizations were left out, and fewer of the others than there are slots can begin a run now: then one that was
   * left out might have a turn.
   */
  readonly isEnough: boolean;
}

async function choose(
  sql: Sql,
  context: Context,
  state: DispatchState,
  crowd?: Crowd,
): Promise<Choice> {
  const { waiting, queued, executing } = state;
  const { maxRunsPerExport, maxRunsPerTenant } = context.policy;
  const kinds = kindsOfSlots(state).filter(({ slots }) => slots > 0);
  if (kinds.length === 0 || waiting.length === 0) return { chosen: [], isEnough: true };
  const flooded = findFlooded(waiting, maxRunsPerExport);
  const candidates =
    flooded.size === 0
      ? waiting
      : [
          ...waiting.filter((run) => !flooded.has(run.projectId)),
          ...(await findWaitingByExport(sql, [...flooded], maxRunsPerExport, candidatesPerTeam)),
        ];
  const inFlight = [...queued, ...executing];
  const chosen: QueuedRun[] = [];
  let isEnough = true;
  for (const { capacity, slots, isCut, isFor, perTurn } of kinds) {
    const limits: DispatchLimits = {
      perOrganization: (id) =>
        crowd?.isCrowding(id) ? crowdedShare(capacity, perTurn) : organizationShare(capacity),
      perProject: maxRunsPerTenant,
      perExport: maxRunsPerExport,
      // A backfill never creates more live runs than its concurrency.
      perBackfill: () => Number.POSITIVE_INFINITY,
      perTurn,
    };
    const beside = [...inFlight.filter((run) => !isFor(run)), ...chosen];
    const own = inFlight.filter(isFor);
    const inTurn = withinShare(
      pickFair(candidates.filter(isFor), own, limits, Infinity, beside),
      healingShare(capacity) - own.filter(heals).length,
    );
    chosen.push(...inTurn.slice(0, slots));
    const organizations = new Set(inTurn.map(({ organizationId }) => organizationId));
    isEnough &&= !isCut || organizations.size >= slots;
  }
  return { chosen, isEnough };
}

/** Without the runs that heal beyond the first `most`. */
function withinShare(runs: readonly QueuedRun[], most: number): readonly QueuedRun[] {
  let healing = 0;
  return runs.filter((run) => {
    if (!heals(run)) return true;
    healing += 1;
    return healing <= most;
  });
}

/** Teams with a full list in which one export has more runs than it may execute: it may hide other exports. */
function findFlooded(waiting: readonly QueuedRun[], perExport: number): ReadonlySet<number> {
  // Small runs have a list of their own.
  const perTeam = new Map<string, number>();
  const perLane = new Map<string, number>();
  const crowded = new Set<number>();
  for (const { projectId, exportId, backfillId, small = false } of waiting) {
    const list = `${projectId} ${small}`;
    perTeam.set(list, (perTeam.get(list) ?? 0) + 1);
    if (backfillId !== null) continue;
    const inLane = (perLane.get(exportId) ?? 0) + 1;
    perLane.set(exportId, inLane);
    if (inLane > perExport) crowded.add(projectId);
  }
  const isFull = (id: number, small: boolean) =>
    perTeam.get(`${id} ${small}`) === candidatesPerTeam;
  return new Set([...crowded].filter((id) => isFull(id, true) || isFull(id, false)));
}

/**
 * The first time needs no id: one dispatcher marks the run, and enqueues it once. From then on
 * the queue refuses an entry that it already holds. If it lost the job, or the worker crashed just after
 * it fetched the job, the queue may still hold the id. So the id changes with each doubling of the times.
 */
function toEntry({ runId, timesEnqueued, small }: EnqueuedRun): QueueEntry {
  const doublings = Math.floor(Math.log2(timesEnqueued));
  return { runId, deduplicationId: doublings === 0 ? null : `${runId}.${doublings}`, small };
}
