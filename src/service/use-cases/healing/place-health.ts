import { causeKindOf, probeDelayMs } from '../../../foundation/domain/causes.ts';
import { describeError, type SluiceError } from '../../../foundation/domain/errors.ts';
import type { Transactor } from '../../../state/store/database/database.ts';
import {
  listPlaceCauses,
  noteCause,
  type PlaceCause,
  type PlacesAsked,
  takeProbe,
} from '../../../state/store/healing/causes.ts';
import { endCauses } from './end-causes.ts';

/**
 * What is known of sources, or of the stores of an organization, while they are asked for something else than a run's attempt. A
 * place that is known not to work is asked by its one probe alone, whatever number of duties, workers and exports wants
 * something there. It is in our tables, so a worker that starts knows it too.
 */
export class PlaceHealth {
  readonly #db: Transactor;
  readonly #asked: PlacesAsked;
  readonly #probes: 'any' | 'idle';
  #known: ReadonlyMap<string, PlaceCause> = new Map();

  /**
   * @param probes `idle`: no probe is made that a run will make. A store may delete files and refuse to put any, so an answer to
   * something else shows nothing about runs
   */
  constructor(db: Transactor, asked: PlacesAsked, probes: 'any' | 'idle') {
    this.#db = db;
    this.#asked = asked;
    this.#probes = probes;
  }

  async refresh(): Promise<void> {
    const causes = await listPlaceCauses(this.#db, this.#asked);
    const certain = causes.filter(({ code }) => causeKindOf(code)?.isCertain);
    this.#known = new Map(certain.map((cause) => [cause.place, cause]));
  }

  /** Whether the place has failed lately: then a request that fails is not repeated. */
  isSuspected(place: string): boolean {
    return this.#known.has(place);
  }

  /** Why the place is known not to work; null: it is not. */
  openAt(place: string): PlaceCause | null {
    const cause = this.#known.get(place);
    return cause?.isOpen ? cause : null;
  }

  /** @returns null if the place may be asked: it is not known to be down, or this is its probe */
  async refusal(place: string): Promise<PlaceCause | null> {
    const cause = this.openAt(place);
    if (!cause) return null;
    const mayProbe = await takeProbe(
      this.#db,
      cause.id,
      probeDelayMs(cause.ageMs),
      this.#probes === 'idle',
    );
    return mayProbe ? null : cause;
  }

  /** The place has answered. */
  async noteAnswer(place: string): Promise<void> {
    const cause = this.#known.get(place);
    if (!cause) return;
    await endCauses(this.#db, [cause.id]);
    await this.refresh();
  }

  /**
   * It has failed: that counts if the error is about such a place.
   *
   * @param teamId for which it was asked; null: a source, for no one
   * @returns whether it is known to be down now
   */
  async noteFailure(teamId: number | null, place: string, error: SluiceError): Promise<boolean> {
    const kind = causeKindOf(error.code);
    const { scope } = this.#asked;
    if (kind?.scope !== scope || !kind.isCertain) return false;
    const text = describeError(error);
    const failure = { teamId, scope, place, code: error.code, text, isLasting: false };
    const { isOpen } = await noteCause(this.#db, failure);
    await this.refresh();
    return isOpen;
  }
}
