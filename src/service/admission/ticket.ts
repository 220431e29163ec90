import type { Destination } from '../../rows/destinations/destination.ts';
import type { IntervalSource } from '../../rows/pipeline/interval-attempt.ts';
import type { Source } from '../../rows/sources/source.ts';
import type { ReadingTurns } from './reading-turns.ts';
import type { SmallRun } from './small-run.ts';

interface TicketOptions {
  readonly organizationId: string;
  readonly ownSteps: number;
  /** Called once, in their order, when the run leaves. */
  readonly ends: readonly (() => void)[];
  readonly turns: ReadingTurns;
  /** Null for a large run. */
  readonly small: SmallRun | null;
}

/** A run that was admitted: it has memory and its turns until it leaves. */
export class Ticket {
  /** For how many steps with an own plugin there is memory; a run with more is handed back. */
  readonly ownSteps: number;
  readonly #options: TicketOptions;
  #isInside = true;

  constructor(options: TicketOptions) {
    this.ownSteps = options.ownSteps;
    this.#options = options;
  }

  /** Whether the run has the memory of a small one, or had it at its start. */
  get isSmall(): boolean {
    return this.#options.small !== null;
  }

  /** Whether the attempt of a small run ended because there was no memory to go on. */
  get hasOutgrown(): boolean {
    return this.#options.small?.hasOutgrown === true;
  }

  /** The source as this run may read it. */
  source(source: Source): IntervalSource {
    const { organizationId, turns, small } = this.#options;
    return {
      settle: (...asked) => source.settle(...asked),
      describe: (...asked) => source.describe(...asked),
      open: async (...asked) => {
        const snapshot = await (small ? small.open(source, ...asked) : source.open(...asked));
        return turns.readIn(organizationId, snapshot);
      },
    };
  }

  /** The destination as this run may read it. */
  destination(destination: Destination): Destination {
    const { small } = this.#options;
    return small ? small.at(destination) : destination;
  }

  leave(): void {
    if (!this.#isInside) return;
    this.#isInside = false;
    for (const end of this.#options.ends) end();
  }
}
