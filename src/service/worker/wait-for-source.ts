import { readsSource } from '../../foundation/domain/run.ts';
import { Grouped } from '../../foundation/domain/grouped.ts';
import { describeOpen } from '../../rows/pipeline/describe-unsettled.ts';
import type { Settlement, Source } from '../../rows/sources/source.ts';
import type { Sql } from '../../state/store/database/database.ts';
import { isDatabaseUnavailable } from '../../state/store/database/unavailable.ts';
import { appendLogEntries, type NewLogEntry } from '../../state/store/exports/log-entries.ts';
import { goBack, type RunNeeds, type WaitingRun } from '../../state/store/runs/outbox.ts';
import { retryUntilRecorded } from './retry-until-recorded.ts';

/** How long a run may use a slot for its interval to settle. */
const patienceMs = 1_000;
/** The source must answer within this time: after five seconds the dispatcher enqueues an unclaimed run again. */
const answerMs = 3_000;
/** For how long a run waits for a source that does not answer. Then its attempt finds out why, and counts the fault. */
const silentMs = 30_000;

/** A run comes back after a quarter of the time that it has waited, but within these bounds. */
const soonestMs = 1_000;
const latestMs = 5_000;
/** If many wait, they come back one after the other in this rhythm, so that they leave the slots and the database to others. */
const rhythmMs = 25;
/** Each comes back within this time, however many wait. */
const longestMs = 30_000;

export interface WaitOptions {
  readonly db: Sql;
  readonly leaseMs: number;
  /** @throws SluiceError if there is no such model */
  readonly sourceOf: (model: string) => Source;
  /** Aborted when the worker shuts down. */
  readonly stopping: AbortSignal;
  readonly onError: (error: unknown) => void;
}

/** Null: the run does not begin now. A null settlement: it settles within its attempt. */
export type Readiness = { readonly settlement: Settlement | null } | null;

interface LoggedRun extends WaitingRun {
  readonly teamId: number;
  readonly exportId: string;
}

const inAttempt: Readiness = { settlement: null };

/**
 * Settles the intervals of runs before they are claimed. A run waits a short time only. Then it goes back to the outbox like a
 * retry, with the names of what is pending, and any worker looks at these again. Meanwhile it uses no slot, memory or lease.
 */
export class SourceWaits {
  readonly #options: WaitOptions;
  readonly #goBack: Grouped<LoggedRun, boolean | null>;
  /** Runs that this worker has put back and that still wait for their time. */
  #away = 0;

  constructor(options: WaitOptions) {
    this.#options = options;
    this.#goBack = new Grouped(
      (runs: readonly LoggedRun[]) => this.#record(runs),
      isDatabaseUnavailable,
    );
  }

  async settle(runId: string, needs: RunNeeds): Promise<Readiness> {
    const { beganCommit, interval, mode, model, purpose, wait } = needs;
    // What was begun may be current already: then the attempt needs no rows. One that only changes files never does.
    if (beganCommit || !readsSource(purpose)) return inAttempt;
    const how = mode === 'append' ? {} : { onlyEnd: true };
    const { sourceOf, stopping } = this.#options;
    const signal = AbortSignal.any([stopping, AbortSignal.timeout(answerMs)]);
    let settlement: Settlement;
    try {
      settlement = await sourceOf(model).settle(interval, signal, { ...wait, ...how, patienceMs });
    } catch {
      if (stopping.aborted) return null;
      const waitedMs = wait?.waitedMs ?? 0;
      // The attempt finds out why, counts the fault and logs it.
      if (!signal.aborted || waitedMs >= silentMs) return inAttempt;
      await this.#putBack(runId, needs, { pending: wait?.pending ?? null, blockers: [] }, silentMs);
      return null;
    }
    const { pending, blockers = [], leftMs = 0 } = settlement;
    if (leftMs === 0) return { settlement };
    await this.#putBack(runId, needs, { pending, blockers }, leftMs);
    return null;
  }

  async #putBack(
    runId: string,
    { teamId, exportId, wait }: RunNeeds,
    { pending, blockers }: Pick<WaitingRun, 'pending' | 'blockers'>,
    leftMs: number,
  ): Promise<void> {
    const forMs = Math.min(this.#pauseAfter(wait?.waitedMs ?? 0), leftMs);
    this.#away += 1;
    setTimeout(() => {
      this.#away -= 1;
    }, forMs).unref();
    await retryUntilRecorded(
      () => this.#goBack.take({ runId, teamId, exportId, forMs, pending, blockers }),
      AbortSignal.timeout(this.#options.leaseMs / 2),
    );
  }

  /** Puts runs back. The log of each says once what it waits for. */
  async #record(runs: readonly LoggedRun[]): Promise<readonly (boolean | null)[]> {
    const { db, onError } = this.#options;
    const areFirst = await goBack(db, runs);
    const entries = runs
      .filter((_, index) => areFirst[index])
      .map(({ runId, teamId, exportId, blockers }): NewLogEntry => {
        return { teamId, exportId, runId, level: 'INFO', message: describeWait(blockers) };
      });
    await appendLogEntries(db, entries).catch(onError);
    return areFirst;
  }

  #pauseAfter(waitedMs: number): number {
    const alone = Math.min(Math.max(waitedMs / 4, soonestMs), latestMs);
    return Math.min(Math.max(alone, this.#away * rhythmMs), longestMs);
  }
}

function describeWait(blockers: readonly string[]): string {
  const open = describeOpen('Now open', blockers);
  return `The run waits until no transaction can add rows to its interval, up to SETTLE_TIMEOUT_SECONDS. It uses no slot while it waits.${open}`;
}
