import { within } from '../../foundation/domain/patience.ts';
import { type DataInterval, isEarlier, type Moment } from '../../foundation/domain/time.ts';
import { describeOpen } from '../../rows/pipeline/describe-unsettled.ts';
import type { Settlement, Source } from '../../rows/sources/source.ts';
import type { Sql } from '../../state/store/database/database.ts';
import { appendLogEntries } from '../../state/store/exports/log-entries.ts';
import { keepParked, parkRun, wakeRuns } from '../../state/store/runs/parked-runs.ts';
import type { RunNeeds } from '../../state/store/runs/run-needs.ts';
import { retryUntilRecorded } from './retry-until-recorded.ts';

/** How long a run may use a slot for settling. */
const quickMs = 1_000;
const mostKeepEveryMs = 5_000;
/** How long the end of a worker waits for a database that does not answer. */
const goodbyeMs = 5_000;
/** Maximum intervals that one worker watches; runs of others look again after `leaseMs`. */
const mostWatched = 500;

/** The wait failed: the run finds out why in its attempt, which counts and logs faults. */
const inAttempt = 'in_attempt';

export interface ParkingOptions {
  readonly db: Sql;
  /** How long a run stays parked if its worker dies. */
  readonly leaseMs: number;
  /** The worker's name. */
  readonly workerId: string;
  /** @throws SluiceError if there is no such model */
  readonly sourceOf: (model: string) => Source;
  /** Called when runs have become available. */
  readonly onAwake: () => Promise<void>;
  readonly onError: (error: unknown) => void;
  readonly quickMs?: number;
}

/** An interval of one source that runs wait for. */
interface Watch {
  readonly source: Source;
  readonly interval: DataInterval;
  /** Transactions that were open then are waited for. */
  readonly beganAt: Moment;
  readonly abort: AbortController;
  /** Never rejects. */
  readonly settling: Promise<Outcome>;
  /** Once it has ended. */
  outcome: Outcome | null;
  /** Runs that are parked for it. */
  readonly runs: Set<string>;
  /** Calls that wait for it, or park a run for it. */
  calls: number;
  /** What it waits for, as far as it is known. */
  blockers: readonly string[];
}

type Outcome = Settlement | typeof inAttempt;

/** `parked`: the run must not begin now. A null settlement: it settles within its attempt. */
export type Readiness = 'parked' | { readonly settlement: Settlement | null };

/**
 * Settles the intervals of runs before they are claimed. A run that must wait is parked in the outbox and uses
 * neither a slot nor memory. Runs of the same interval and source share a watch, unless they were
 * asked for after it began. Once the interval has settled, its runs go to the dispatcher again, which lets
 * them in as fairly as all others.
 */
export class Parking {
  readonly #options: ParkingOptions;
  readonly #watches = new Set<Watch>();
  /** Runs that are being woken. */
  readonly #waking = new Set<Promise<void>>();
  readonly #timer: NodeJS.Timeout;
  #keeping = false;

  constructor(options: ParkingOptions) {
    this.#options = options;
    const everyMs = Math.min(options.leaseMs / 4, mostKeepEveryMs);
    this.#timer = setInterval(() => void this.keep(), everyMs).unref();
  }

  /** Waits a short time for the interval of a run to settle; parks the run if that is not enough. */
  async settle(runId: string, needs: RunNeeds): Promise<Readiness> {
    const { settlement, beganCommit, model, purpose } = needs;
    // What was begun may be current already: then the attempt needs no rows. An erasure never does.
    if (beganCommit || purpose === 'erase' || settlement === inAttempt)
      return readinessOf(inAttempt);
    let source: Source;
    try {
      source = this.#options.sourceOf(model);
    } catch {
      return readinessOf(inAttempt);
    }
    if (settlement !== null) return this.#confirm(source, needs, settlement as Settlement);
    const { requestedForMs, databaseMs } = needs;
    const requestedAt = {
      process: performance.now() - requestedForMs,
      database: databaseMs - requestedForMs,
    };
    const recalled = source.recall(needs.interval, requestedAt, databaseMs);
    if (recalled) return readinessOf(recalled);
    const watch = this.#find(source, needs.interval, requestedAt) ?? this.#begin(source, needs);
    if (!watch) {
      await this.#park(runId, needs);
      return 'parked';
    }
    watch.calls += 1;
    try {
      const lastsMs = performance.now() - watch.beganAt.process;
      const patienceMs = (this.#options.quickMs ?? quickMs) - lastsMs;
      if (patienceMs > 0 && !this.#isBehind(watch)) {
        const quick = await within(patienceMs, watch.settling, null);
        if (quick) return readinessOf(quick);
      }
      if (!(await this.#park(runId, needs, watch.blockers))) return 'parked';
      watch.runs.add(runId);
      // It ended while the run was being parked.
      if (watch.outcome) await this.#wake([runId], watch.outcome);
      return 'parked';
    } finally {
      watch.calls -= 1;
      this.#endIfUnused(watch);
    }
  }

  /** Keeps the runs parked, and forgets those that were cancelled, or taken by another worker. */
  async keep(): Promise<void> {
    const watches = [...this.#watches];
    const parked = watches.flatMap(({ runs, blockers }) => {
      return [...runs].map((runId) => ({ runId, blockers }));
    });
    const runs = parked.map(({ runId }) => runId);
    if (this.#keeping || runs.length === 0) return;
    this.#keeping = true;
    try {
      const { db, workerId, leaseMs } = this.#options;
      const kept = await keepParked(db, parked, workerId, leaseMs);
      for (const runId of runs) {
        if (!kept.has(runId)) for (const watch of watches) watch.runs.delete(runId);
      }
      for (const watch of watches) this.#endIfUnused(watch);
    } catch (error) {
      this.#options.onError(error);
    } finally {
      this.#keeping = false;
    }
  }

  /** Wakes all runs that are parked here, for other workers. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    const watches = [...this.#watches];
    this.#watches.clear();
    for (const { abort } of watches) abort.abort();
    const { db, workerId } = this.#options;
    const runs = watches.flatMap((watch) => [...watch.runs]);
    const woken = retryUntilRecorded(async () => {
      if (runs.length > 0) await wakeRuns(db, runs, workerId, null);
    }, AbortSignal.timeout(goodbyeMs));
    await Promise.all([woken, within(goodbyeMs, Promise.all(this.#waking), null)]);
  }

  #find(source: Source, { start, end }: DataInterval, requestedAt: Moment): Watch | null {
    for (const watch of this.#watches) {
      const { interval, beganAt } = watch;
      if (watch.source !== source || isEarlier(beganAt, requestedAt)) continue;
      if (interval.start === start && interval.end === end) return watch;
    }
    return null;
  }

  /**
   * Another worker may have found it. A look of its own shows which server answers now, so that it
   * reads from no connection to another one (a failover).
   */
  async #confirm(source: Source, needs: RunNeeds, settlement: Settlement): Promise<Readiness> {
    const patience = AbortSignal.timeout(this.#options.quickMs ?? quickMs);
    try {
      const { server } = await source.recheck(needs.interval, [], patience);
      return isElsewhere(settlement, server) ? readinessOf(inAttempt) : { settlement };
    } catch {
      return readinessOf(inAttempt);
    }
  }

  /** @returns null if there are too many */
  #begin(source: Source, { interval, parkedForMs, databaseMs }: RunNeeds): Watch | null {
    if (this.#watches.size >= mostWatched) return null;
    const abort = new AbortController();
    const beganAt = { process: performance.now(), database: databaseMs };
    const settling = source
      .settle(interval, abort.signal, parkedForMs, databaseMs, (blockers) => {
        watch.blockers = blockers;
      })
      .catch((): Outcome => inAttempt);
    const watch: Watch = {
      ...{ source, interval, beganAt, abort, settling },
      ...{ outcome: null, runs: new Set<string>(), calls: 0, blockers: [] },
    };
    this.#watches.add(watch);
    void settling.then((outcome) => {
      if (abort.signal.aborted) return;
      watch.outcome = outcome;
      this.#watches.delete(watch);
      if (watch.runs.size > 0) return this.#wake([...watch.runs], outcome);
    });
    return watch;
  }

  /** What keeps an earlier end from settling keeps this one too. */
  #isBehind({ source, interval: { end } }: Watch): boolean {
    return [...this.#watches].some(
      (other) => other.source === source && other.interval.end <= end && other.runs.size > 0,
    );
  }

  #endIfUnused(watch: Watch): void {
    if (watch.outcome || watch.calls > 0 || watch.runs.size > 0) return;
    watch.abort.abort();
    this.#watches.delete(watch);
  }

  /** @returns whether the run is parked now */
  async #park(
    runId: string,
    { teamId, exportId }: RunNeeds,
    blockers: readonly string[] = [],
  ): Promise<boolean> {
    const { db, workerId, leaseMs } = this.#options;
    // If the answer was lost, the run may be parked already, and sleep for a whole lease.
    const parked = await retryUntilRecorded(
      () => parkRun(db, runId, workerId, leaseMs, blockers),
      AbortSignal.timeout(leaseMs / 2),
    );
    if (parked?.isFirst) {
      const entry = {
        teamId,
        exportId,
        runId,
        level: 'INFO',
        message: describeWait(blockers),
      } as const;
      await appendLogEntries(db, [entry]).catch(this.#options.onError);
    }
    return parked !== null;
  }

  /**
   * Repeats it while the database is unreachable: what cut off the source may have cut off the database as well. If
   * that takes longer than `leaseMs`, the runs wake by themselves, and settle again.
   */
  async #wake(runIds: readonly string[], outcome: Outcome): Promise<void> {
    const { db, leaseMs, workerId, onAwake, onError } = this.#options;
    const patience = AbortSignal.timeout(leaseMs);
    const waking = retryUntilRecorded(() => wakeRuns(db, runIds, workerId, outcome), patience)
      .then(onAwake)
      .catch(onError);
    this.#waking.add(waking);
    await waking;
    this.#waking.delete(waking);
  }
}

function describeWait(blockers: readonly string[]): string {
  const open = describeOpen('Now open', blockers);
  return `The run waits until no transaction can add rows to its interval, up to SETTLE_TIMEOUT_SECONDS. It uses no slot while it waits.${open}`;
}

/** Whether it was found at a server that does not answer any more. */
function isElsewhere({ server }: Settlement, now: string | null | undefined): boolean {
  return typeof server === 'string' && server !== now;
}

function readinessOf(outcome: Outcome): Readiness {
  return { settlement: outcome === inAttempt ? null : outcome };
}
