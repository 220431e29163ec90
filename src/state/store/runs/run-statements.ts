import { Grouped, KeyedGroups } from '../../../foundation/domain/grouped.ts';
import {
  beginFreeCommits,
  beginLockedCommit,
  type BegunCommit,
  type CompletedRun,
  completeFree,
  completeLocked,
  type CompletionOutcome,
} from './completions.ts';
import {
  type AdvancingBackfill,
  findAdvancing,
  planFreePages,
  planLockedPage,
  type PlannedPage,
} from '../exports/backfills.ts';
import { type ClaimedRun, claimFree, claimLocked, type ClaimRequest } from './claims.ts';
import type { Transactor } from '../database/database.ts';
import { isDatabaseUnavailable } from '../database/unavailable.ts';

/** Callers that ask at the same moment share a statement, which waits for no lock; what it leaves out is asked again by one that waits. */
export class RunStatements {
  readonly #db: Transactor;
  readonly #leaseMs: number;
  readonly #claims: Grouped<ClaimRequest, ClaimedRun | null>;
  readonly #commits: Grouped<BegunCommit, boolean | null>;
  readonly #completions: Grouped<CompletedRun, CompletionOutcome | null>;
  /** By export: those that lock it first. */
  readonly #lockedCompletions: KeyedGroups<CompletedRun, CompletionOutcome>;
  readonly #backfills: Grouped<string, AdvancingBackfill | null>;
  readonly #pages: Grouped<PlannedPage, number | null>;

  /** @param leaseMs how long a claim and the begin of a commit hold the run */
  constructor(db: Transactor, leaseMs: number) {
    this.#db = db;
    this.#leaseMs = leaseMs;
    this.#claims = shared((requests) => claimFree(db, requests, leaseMs));
    this.#commits = shared((requests) => beginFreeCommits(db, requests, leaseMs));
    this.#completions = shared((runs) => completeFree(db, runs));
    this.#lockedCompletions = new KeyedGroups(() => shared((runs) => completeLocked(db, runs)));
    this.#backfills = shared((ids) => findAdvancing(db, ids));
    this.#pages = shared((pages) => planFreePages(db, pages));
  }

  /** See `claimLocked`. */
  async claim(request: ClaimRequest): Promise<ClaimedRun | null> {
    // Almost always no other transaction changes the run at this moment.
    return (await this.#claims.take(request)) ?? claimLocked(this.#db, request, this.#leaseMs);
  }

  /** From here on the run cannot be cancelled. Until the receipt names them, the keys are leftovers. @returns false: lease lost */
  async beginCommit(commit: BegunCommit): Promise<boolean> {
    const isHeld = await this.#commits.take(commit);
    return isHeld ?? beginLockedCommit(this.#db, commit, this.#leaseMs);
  }

  /** All or nothing. @returns null, and records nothing, if the lease is lost */
  async complete(completed: CompletedRun): Promise<CompletionOutcome | null> {
    const outcome = await this.#complete(completed);
    return outcome.isCompleted ? outcome : null;
  }

  async #complete(completed: CompletedRun): Promise<CompletionOutcome> {
    const { exportId } = completed.run;
    // The counts of steps are another statement.
    const hasSteps = (completed.result.steps ?? []).length > 0;
    if (hasSteps) return this.#lockedCompletions.take(exportId, completed);
    const outcome = await this.#completions.take(completed);
    if (outcome) return outcome;
    // Another completion of this process may hold the export. If each locked it for itself instead, the next ones would
    // find it locked too, and so on.
    await this.#lockedCompletions.ended(exportId);
    return (
      (await this.#completions.take(completed)) ?? this.#lockedCompletions.take(exportId, completed)
    );
  }

  /** Locks nothing: `planPage` notices if another worker has advanced the backfill since. @returns null: it has ended */
  findAdvancing(backfillId: string): Promise<AdvancingBackfill | null> {
    return this.#backfills.take(backfillId);
  }

  /** Does not wait for the disk: in a crash all that followed is lost too. @returns how many runs; null: ended, or advanced by another */
  async planPage(page: PlannedPage): Promise<number | null> {
    return (await this.#pages.take(page)) ?? planLockedPage(this.#db, page);
  }
}

/** If the database is unavailable, it is so for all of a group. */
function shared<Item, Result>(
  send: (items: readonly Item[]) => Promise<readonly Result[]>,
): Grouped<Item, Result> {
  return new Grouped(send, isDatabaseUnavailable);
}
