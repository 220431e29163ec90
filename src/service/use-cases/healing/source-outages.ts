import { causeKindOf, probeDelayMs } from '../../../foundation/domain/causes.ts';
import { describeError, type SluiceError } from '../../../foundation/domain/errors.ts';
import type { Transactor } from '../../../state/store/database/database.ts';
import {
  listSourceCauses,
  noteCause,
  type SourceCause,
  takeProbe,
} from '../../../state/store/healing/causes.ts';
import { endCauses } from './end-causes.ts';

/** Who asks a source, and for which model. */
export interface SourceQuestion {
  readonly teamId: number;
  readonly model: string;
  readonly place: string;
}

/**
 * What is known of sources while they are asked for something else than a run's rows. A source that is known not to work is
 * asked by its one probe alone; if no run makes the probe, this does.
 */
export class SourceOutages {
  readonly #db: Transactor;
  readonly #dead = new Set<string>();
  #known: ReadonlyMap<string, SourceCause> = new Map();

  constructor(db: Transactor) {
    this.#db = db;
  }

  /** Models that were refused. */
  get dead(): readonly string[] {
    return [...this.#dead];
  }

  async refresh(): Promise<void> {
    const causes = await listSourceCauses(this.#db);
    this.#known = new Map(causes.map((cause) => [cause.place, cause]));
  }

  /** Whether the source may be asked: it is not known to be down, or this is its probe. */
  async mayAsk({ model, place }: SourceQuestion): Promise<boolean> {
    if (this.#dead.has(model)) return false;
    const cause = this.#known.get(place);
    if (!cause?.isOpen) return true;
    const isProbe = await takeProbe(this.#db, cause.id, probeDelayMs(cause.ageMs));
    if (!isProbe) this.#dead.add(model);
    return isProbe;
  }

  /** The source has answered. */
  async noteAnswer({ place }: SourceQuestion): Promise<void> {
    const cause = this.#known.get(place);
    if (cause) await endCauses(this.#db, [cause.id]);
    if (cause) await this.refresh();
  }

  /** It has failed: that counts if the error is about the source. */
  async noteFailure({ teamId, model, place }: SourceQuestion, error: SluiceError): Promise<void> {
    if (causeKindOf(error.code)?.scope !== 'source') return;
    const failure = { teamId, scope: 'source', place, code: error.code } as const;
    const noted = await noteCause(this.#db, {
      ...failure,
      text: describeError(error),
      isLasting: false,
    });
    if (noted.isOpen) this.#dead.add(model);
  }
}
