import { type ChainColumns, ChainStep, type RowKey, type StepResult } from './chain-step.ts';
import { jsonNull, textOf } from './json.ts';
import { RowError } from './row-error.ts';
import type { Step } from './step.ts';
import type { Row } from './transform.ts';

/** What became of a row, and in which step (by its id) it left. A rejected row leaves its key and the reason. */
export type Outcome =
  | { readonly kind: 'kept'; readonly row: Row }
  | { readonly kind: 'dropped'; readonly step: number }
  | {
      readonly kind: 'rejected';
      readonly step: number;
      readonly reason: string;
      readonly key: RowKey;
    };

/**
 * Steps in their order; each gets the row of the step before it. What becomes of a row depends on
 * nothing but the row: a chain keeps counters, and no row.
 */
export class Chain {
  /** With their counters and errors. */
  readonly steps: readonly ChainStep[];
  readonly #keyColumns: readonly string[];

  /** @param keyColumns what names a row in logs and among the rejected */
  constructor(steps: readonly Step[], columns: ChainColumns, keyColumns: readonly string[]) {
    this.steps = steps.map((step) => new ChainStep(step, columns));
    this.#keyColumns = keyColumns;
  }

  /** A row that no step changed is the very row that was given. */
  apply(given: Row): Outcome {
    const keyOf = () => this.#keyOf(given);
    let row = given;
    for (const chainStep of this.steps) {
      const { id: step } = chainStep.step;
      const judged = chainStep.judge(row, attempt(chainStep.step, row), keyOf);
      if (judged === null) return { kind: 'dropped', step };
      if (judged instanceof RowError) {
        return { kind: 'rejected', step, reason: judged.message, key: keyOf() };
      }
      row = judged;
    }
    return { kind: 'kept', row };
  }

  /**
   * Why the run must fail, and in which step (by its id): it had errors in more rows than its config
   * allows. Null if none had. Ask at the end.
   */
  findExcess(): { readonly step: number; readonly reason: string } | null {
    for (const chainStep of this.steps) {
      const reason = chainStep.describeExcess();
      if (reason !== null) return { step: chainStep.step.id, reason };
    }
    return null;
  }

  #keyOf(row: Row): RowKey {
    const entries = this.#keyColumns.map((name) => [name, textOf(row.get(name) ?? jsonNull)]);
    return Object.fromEntries(entries);
  }
}

/** An error that is not the step's own may quote the row: of such a one only its kind is kept. */
function attempt({ apply }: Step, row: Row): StepResult {
  try {
    return apply(row);
  } catch (error) {
    if (error instanceof RowError) return error;
    const kind = error instanceof Error ? error.constructor.name : typeof error;
    return new RowError(`The step failed with a ${kind}.`);
  }
}
