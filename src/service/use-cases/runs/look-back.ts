import { setTimeout as sleep } from 'node:timers/promises';
import { describeError } from '../../../foundation/domain/describe-error.ts';
import { SluiceError, toSluiceError } from '../../../foundation/domain/errors.ts';
import { describeInterval } from '../../../foundation/domain/time.ts';
import type { Settlement, Source } from '../../../rows/sources/source.ts';
import type { Sql, Transactor } from '../../../state/store/database/database.ts';
import { lockExport } from '../../../state/store/exports/exports.ts';
import type { LogLevel } from '../../../state/store/exports/log-entries.ts';
import { healLateRows } from '../../../state/store/healing/healing.ts';
import { advanceHighWaterMark } from '../../../state/store/intervals/high-water-mark.ts';
import {
  type LookBack,
  mayAddLateRows,
  noteFailedLook,
  noteLateRowsWait,
  noteLook,
  recordLookBack,
  stampLookBack,
  takeLookBacks,
} from '../../../state/store/intervals/look-backs.ts';
import { insertRuns } from '../../../state/store/runs/runs.ts';
import type { Context } from '../context.ts';
import { noteInLog } from '../exports/activity.ts';
import type { WorkGuard } from '../work-guard.ts';
import { sourceRequestOf } from './source-request.ts';

/** Checks that one worker makes at a time. */
const lanes = 4;
/** The number of these that may be checks of slow exports. */
const longLanes = 2;
/** Time limit of a check of a slow export: reading the keys of a large interval is slow. */
const longestMs = 900_000;
/** Time limit of any other check. An organization begins no more checks once its turn has taken this long. */
const turnMs = 30_000;
/** A check reports this often that it goes on: after ten seconds of silence another worker may begin it too. */
const stampMs = 3_000;
/** Until lanes that are free look for work again. */
const idleMs = 5_000;
/** After the end of a turn, so that others that end soon look for work with it. */
const gatherMs = 500;

export interface LookBackOptions {
  /** Throws SluiceError `source.unknown_model`. */
  readonly sourceOf: (model: string) => Source;
  readonly onError: (error: unknown, item: LookBack) => void;
  /** Says whether files that a run makes at such a destination can be read again. */
  keepsFiles(type: string): boolean;
  readonly onMade: () => void;
  readonly guard: WorkGuard;
  readonly slow: SlowExports;
  /** Milliseconds; default 30 s. */
  readonly turnMs?: number;
  /** Ends it, and the checks in progress. */
  readonly stopping: AbortSignal;
}

interface Round {
  readonly isLong: boolean;
  readonly served: Map<string, Promise<void>>;
  /** Organizations that had their turn; they wait until all others had theirs. */
  readonly had: Set<string>;
}

/**
 * Checks completed intervals for late rows: after the end of a transaction that a run did not wait for
 * and, with hours of a look-back, regularly. If rows may have come, a run adds those that the files lack. Rows that left the
 * source, and rows whose content alone changed, are no reason for anything. An interval without late rows and without open transactions becomes
 * settled, and the high-water mark may pass it.
 *
 * Goes on until no interval is due. Organizations take turns. A turn is short: a check that is not done by then is
 * ended, and its export is slow for an hour. Slow exports have two of the four lanes. So slow keys do not keep those
 * of others from being checked, however many organizations have them. An export whose looks fail waits, longer each time.
 */
export async function lookBack(context: Pick<Context, 'db' | 'policy'>, options: LookBackOptions) {
  const { db, policy } = context;
  const { slow, stopping } = options;
  const long: Round = { isLong: true, served: new Map(), had: new Set() };
  const quick: Round = { isLong: false, served: new Map(), had: new Set() };
  const turns = () => [...long.served.values(), ...quick.served.values()];

  const take = async ({ isLong, served, had }: Round): Promise<void> => {
    const limit = Math.min(isLong ? longLanes - served.size : lanes, lanes - turns().length);
    if (limit <= 0 || (isLong && slow.list().length === 0)) return;
    const without = [...new Set([...served.keys(), ...had])];
    const choice = { limit, without, slow: slow.list(), isLong };
    const items = await takeLookBacks(db, policy, choice);
    for (const id of new Set(items.map(({ organizationId }) => organizationId))) {
      const own = items.filter(({ organizationId }) => organizationId === id);
      had.add(id);
      const turn = serve(context, options, own, isLong).finally(() => served.delete(id));
      served.set(id, turn);
    }
  };

  try {
    while (!stopping.aborted) {
      for (const round of [long, quick]) {
        await take(round);
        const isOver = turns().length < lanes && [...round.had].some((id) => !round.served.has(id));
        if (!isOver) continue;
        // The round is over: each organization had its turn.
        round.had.clear();
        await take(round);
      }
      if (turns().length === 0) return;
      const ended = new AbortController();
      const someEnd = Promise.race(turns()).then(() => pause(gatherMs, stopping));
      const allEnd = Promise.all(turns());
      const end = Promise.race([someEnd, allEnd]).finally(() => ended.abort());
      await Promise.race([end, pause(idleMs, AbortSignal.any([stopping, ended.signal]))]);
    }
  } finally {
    await Promise.all(turns());
  }
}

async function serve(
  context: Pick<Context, 'db' | 'policy'>,
  options: LookBackOptions,
  items: readonly LookBack[],
  isLong: boolean,
): Promise<void> {
  const { db } = context;
  const waiting = new Set<string>();
  const { guard, onError, onMade, slow, stopping } = options;
  const shortMs = options.turnMs ?? turnMs;
  const startedAt = performance.now();
  for (const item of items) {
    let beganAt = performance.now();
    if (stopping.aborted || beganAt - startedAt > shortMs) break;
    if (waiting.has(item.exportId)) continue;
    const stamp = () => stampLookBack(db, item).catch((cause) => onError(cause, item));
    const stamping = setInterval(() => void stamp(), stampMs).unref();
    const limitMs = isLong ? longestMs : shortMs;
    let limit = stopping;
    try {
      await guard.do({ kind: 'look_back', id: item.exportId }, limitMs, async () => {
        beganAt = performance.now();
        limit = AbortSignal.timeout(limitMs);
        const signal = AbortSignal.any([stopping, limit]);
        if (await lookAt(context, options, item, signal)) onMade();
      });
    } catch (error) {
      if (stopping.aborted) break;
      // One that was cut short gets a longer turn.
      if (isLong || !limit.aborted) onError(error, item);
      await stamp();
      if (!limit.aborted) {
        const fault = toSluiceError(error);
        const noted = noteFailedLook(db, item).catch((cause) => onError(cause, item));
        if (await noted) waiting.add(item.exportId);
        const isLasting = !fault.spec.retryable;
        if (isLasting) await noteFault(db, item, fault).catch((cause) => onError(cause, item));
      }
    } finally {
      clearInterval(stamping);
    }
    if (performance.now() - beganAt >= shortMs) slow.add(item.exportId);
  }
}

/** Notes that an interval cannot be compared with its source until a cause is removed. The export's log says it once. */
async function noteFault(db: Transactor, item: LookBack, fault: SluiceError): Promise<void> {
  const { exportId, teamId, interval } = item;
  const why = describeError(fault);
  await db.transaction(async (tx) => {
    if (!(await lockExport(tx, exportId))) return;
    const waits = { code: fault.code, text: why };
    const { isFirst } = await noteLateRowsWait(tx, exportId, interval, waits);
    if (!isFirst) return;
    const message = `Sluice cannot look for late rows of ${describeInterval(interval)}, and tries again each hour. ${why}`;
    await noteInLog(tx, { id: exportId, teamId }, 'WARNING', message);
  });
}

const pause = (ms: number, signal: AbortSignal) => sleep(ms, undefined, { signal }).catch(() => {});

async function lookAt(
  { db }: Pick<Context, 'db'>,
  { sourceOf, keepsFiles }: Pick<LookBackOptions, 'sourceOf' | 'keepsFiles'>,
  item: LookBack,
  signal: AbortSignal,
): Promise<boolean> {
  const source = sourceOf(item.model);
  const { interval } = item;
  const state: Pick<Settlement, 'settled' | 'pending' | 'position' | 'server'> = item.settled
    ? { settled: true, pending: [], position: null }
    : await source.recheck(interval, item.pending, signal);
  // A transaction that has ended may have added rows, even if others are still open.
  const hasEnded = item.pending.some((name) => !state.pending.includes(name));
  const compares = item.isDue || hasEnded || state.settled;
  const { snapshot, keyDigest: digest, keyCount: count } = item;
  const look = compares
    ? await source.lookAgain(
        // As the files of the interval were made; the export may have changed since.
        sourceRequestOf({ ...item, ...item.recipe, mode: 'append' }, interval),
        { snapshot, digest, count },
        state.position,
        signal,
        state.server,
      )
    : null;
  const { exportId } = item;
  return db.transaction(async (tx) => {
    // Deleted meanwhile: it never runs again.
    if (!(await lockExport(tx, exportId))) return false;
    await noteLook(tx, item);
    if (look?.mayHaveLateRows) {
      // Paused meanwhile: it is found again afterwards.
      if (!(await mayAddLateRows(tx, exportId))) return false;
      return addLateRows(tx, item, keepsFiles(item.destinationType), look.now.count);
    }
    const { settled, pending } = state;
    const seen = look?.now ?? null;
    const recorded = await recordLookBack(tx, item, { settled, pending, seen });
    if (recorded && settled && !item.settled) await advanceHighWaterMark(tx, exportId);
    return false;
  });
}

/**
 * Makes a run that adds the late rows of an interval, if there are any. Without files there is nothing to add to: then the
 * rows are counted again.
 *
 * @returns whether it made one: not if the interval has a live run, or its files are at a place that the export has left
 */
async function addLateRows(tx: Sql, item: LookBack, keepsFiles: boolean, rowsNow: number) {
  const { exportId, teamId, interval, hasMoved } = item;
  const log = (level: LogLevel, message: string) =>
    noteInLog(tx, { id: exportId, teamId }, level, message);
  if (hasMoved) {
    const code = 'run.late_rows_wait';
    const detail = `the export has another destination now than the files of the interval. The source has ${rowsNow} rows now, and ${item.deliveredRows} were delivered there`;
    const why = describeError(new SluiceError(code, detail));
    if ((await noteLateRowsWait(tx, exportId, interval, { code, text: why })).isNew) {
      await log('WARNING', `${describeInterval(interval)}: ${why}`);
    }
    return false;
  }
  const purpose = keepsFiles ? 'supplement' : 'whole';
  const runs = await insertRuns(tx, [{ exportId, teamId, interval, backfillId: null, purpose }]);
  if (runs.length === 0) return false;
  // The last one failed: it heals as an interval does.
  if (item.tries > 0) await healLateRows(tx, exportId, runs);
  const rows = `The rows of ${describeInterval(interval)} have changed in the source`;
  await log('INFO', `${rows}, and some may have come late. A run looks for them and adds them.`);
  return true;
}

/** Maximum exports that are kept; the oldest go first. */
const most = 1_000;
/** The time for which an export counts as slow after a slow check. */
const slowMs = 3_600_000;

export class SlowExports {
  /** By id, the oldest first: until when, by `performance.now()`. */
  readonly #until = new Map<string, number>();

  list(): readonly string[] {
    for (const [id, until] of this.#until) {
      if (until < performance.now()) this.#until.delete(id);
    }
    return [...this.#until.keys()];
  }

  add(exportId: string): void {
    this.#until.delete(exportId);
    this.#until.set(exportId, performance.now() + slowMs);
    const [oldest] = this.#until.keys();
    if (this.#until.size > most && oldest !== undefined) this.#until.delete(oldest);
  }
}
