import { type SluiceError, toSluiceError } from '../../foundation/domain/errors.ts';
import type { Timestamp } from '../../foundation/domain/time.ts';
import { PlaceHealth } from '../use-cases/healing/place-health.ts';
import type { WorkGuard } from '../use-cases/work-guard.ts';
import type { ExportDestination } from './connectors.ts';
import type { ExecutorOptions } from './execute-run.ts';
import { nameOwnFault } from './own-fault.ts';

/** For all that one sweep does for one team, whose store may hinder it. */
export const teamPatienceMs = 30_000;

/** Teams per sweep; as many as may be served at a time. */
const teamsPerSweep = 16;

/** Places of one team per sweep. */
const placesPerTeam = 20;

/** What the sweep needs to collect what runs have left. */
export interface SweepOptions
  extends Pick<ExecutorOptions, 'context' | 'connectors' | 'onSweepError' | 'stopping'> {
  readonly guard: WorkGuard;
}

/** A destination that a sweep works at, and its team. */
type Store = Pick<ExportDestination, 'exportId' | 'destination'>;

/** The stores of a team's organization. One that is known not to work is left alone until its next probe. */
export class TeamStores {
  readonly #health: PlaceHealth;
  readonly #connectors: SweepOptions['connectors'];
  readonly #teamId: number;
  /** Places whose probe this sweep makes. */
  readonly #probed = new Set<string>();

  constructor({ context, connectors }: SweepOptions, teamId: number) {
    this.#health = new PlaceHealth(context.db, { scope: 'destination', teamId }, 'idle');
    this.#connectors = connectors;
    this.#teamId = teamId;
  }

  refresh(): Promise<void> {
    return this.#health.refresh();
  }

  /** @returns until when the store must be left alone; null: it may be asked */
  async closedUntil(store: Store): Promise<Timestamp | null> {
    const place = this.#placeOf(store);
    if (place === null) return null;
    const refusal = await this.#health.refusal(place);
    if (refusal) return refusal.nextProbeAt;
    if (this.#health.openAt(place)) this.#probed.add(place);
    return null;
  }

  /**
   * Asks the store, and notes what that says about it.
   *
   * @param work whether its requests must not be repeated; it returns an error that it got over
   */
  async ask(store: Store, work: (isTried: boolean) => Promise<SluiceError | null>): Promise<void> {
    const place = this.#placeOf(store);
    const isTried = place !== null && this.#health.isSuspected(place);
    let fault: SluiceError | null = null;
    try {
      fault = await work(isTried);
    } catch (error) {
      fault = toSluiceError(nameOwnFault(error));
      throw error;
    } finally {
      if (place !== null && fault) await this.#health.noteFailure(this.#teamId, place, fault);
      else if (place !== null && this.#probed.has(place)) await this.#health.noteAnswer(place);
    }
  }

  /** Null: its secrets cannot be decrypted, as the work will say. */
  #placeOf(store: Store): string | null {
    try {
      return this.#connectors.destinationPlaceOf(store);
    } catch {
      return null;
    }
  }
}

/**
 * Lets the sweep serve each team with work, all at the same time: a team whose store hinders it does not
 * delay the others.
 *
 * @param serve does the next piece of a team's work; returns false if there is none left
 */
export async function collectByTeam(
  options: SweepOptions,
  findTeams: (limit: number) => Promise<readonly number[]>,
  serve: (teamId: number, stores: TeamStores, signal: AbortSignal) => Promise<boolean>,
): Promise<void> {
  const { stopping, onSweepError } = options;
  const serveTeam = async (teamId: number): Promise<void> => {
    const signal = AbortSignal.any([stopping, AbortSignal.timeout(teamPatienceMs)]);
    const stores = new TeamStores(options, teamId);
    await stores.refresh();
    for (let served = 0; served < placesPerTeam && !signal.aborted; served += 1) {
      if (!(await serve(teamId, stores, signal))) return;
    }
  };
  const teams = await findTeams(teamsPerSweep);
  await Promise.all(teams.map((teamId) => serveTeam(teamId).catch(onSweepError)));
}
