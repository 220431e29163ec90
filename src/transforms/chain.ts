import { type ChainColumns, ChainStep, findExcess, type RowKey } from './chain-step.ts';
import { JsonObject, jsonNull, textOf } from './json.ts';
import { RowError } from './row-error.ts';
import type { BatchStep, RowStep, Step, StepResult } from './step.ts';
import type { Row } from './transform.ts';

/** What became of a row, and in which step (by its id) it left. A rejected row leaves its key and the reason. */
export type Outcome = { readonly kind: 'kept'; readonly row: Row } | Left;

type Left =
  | { readonly kind: 'dropped'; readonly step: number }
  | {
      readonly kind: 'rejected';
      readonly step: number;
      readonly reason: string;
      readonly key: RowKey;
    };

/** A clock for each row would take longer than some steps. */
const timedEvery = 16;

/** Steps that follow each other without waiting, or one that waits. */
type Stretch =
  | { readonly kind: 'rows'; readonly steps: readonly InThread[] }
  | {
      readonly kind: 'batch';
      readonly step: BatchStep;
      readonly judge: ChainStep;
      /** The block before has left the step, and when. */
      last: Promise<void>;
      lastEndedAt: number;
    };

interface InThread {
  readonly step: RowStep;
  readonly judge: ChainStep;
}

/**
 * Steps in their order; each gets the row of the step before it. What becomes of a row depends on
 * nothing but the row: a chain keeps counters, and no row.
 */
export class Chain {
  /** With their counters and errors. */
  readonly steps: readonly ChainStep[];
  readonly #stretches: readonly Stretch[];
  readonly #inThread: readonly InThread[] | null;
  readonly #keyColumns: readonly string[];
  #rows = 0;

  /** @param keyColumns what names a row in logs and among the rejected */
  constructor(steps: readonly Step[], columns: ChainColumns, keyColumns: readonly string[]) {
    this.steps = steps.map((step) => new ChainStep(step, columns));
    this.#stretches = stretchesOf(this.steps);
    this.#inThread = inThreadOnly(this.#stretches);
    this.#keyColumns = keyColumns;
  }

  /** Whether no step waits: then `apply` handles a row at once. */
  get isInThread(): boolean {
    return this.#inThread !== null;
  }

  /**
   * One row, at once. A row that no step changed is the very row that was given.
   *
   * @throws TypeError if the chain is not `isInThread`
   */
  apply(given: Row): Outcome {
    if (this.#inThread === null) throw new TypeError('this chain has a step that waits');
    const outcome = this.#through(this.#inThread, given, given);
    return outcome instanceof JsonObject ? { kind: 'kept', row: outcome } : outcome;
  }

  /**
   * The rows of a block, in their order. A row that leaves in a step is not given to the next one. The next
   * block may be given before this one is done: each step gets the blocks in the order of the calls.
   *
   * @throws what a step throws that works elsewhere: no row of the block has an outcome
   */
  async applyBlock(given: readonly Row[]): Promise<readonly Outcome[]> {
    if (this.#inThread !== null) return given.map((row) => this.apply(row));
    const now: (Row | Left)[] = [...given];
    for (const stretch of this.#stretches) {
      if (stretch.kind === 'batch') {
        const through = this.#throughBatch(stretch, given, now, stretch.last);
        stretch.last = through;
        await through;
      } else {
        for (const [index, row] of now.entries()) {
          const first = given[index];
          if (row instanceof JsonObject && first) {
            now[index] = this.#through(stretch.steps, row, first);
          }
        }
      }
    }
    return now.map((end) => (end instanceof JsonObject ? { kind: 'kept', row: end } : end));
  }

  /** @param first the row as it was given, which has the key */
  #through(steps: readonly InThread[], given: Row, first: Row): Row | Left {
    const keyOf = () => this.#keyOf(first);
    const isTimed = this.#rows % timedEvery === 0;
    this.#rows += 1;
    let at = isTimed ? performance.now() : 0;
    let row = given;
    for (const { step, judge } of steps) {
      const judged = judge.judge(row, attempt(step, row), keyOf);
      if (isTimed) {
        const endedAt = performance.now();
        judge.addTime(endedAt - at, 1);
        at = endedAt;
      }
      if (!(judged instanceof JsonObject)) return leave(step.id, judged, keyOf);
      row = judged;
    }
    return row;
  }

  async #throughBatch(
    stretch: Extract<Stretch, { kind: 'batch' }>,
    given: readonly Row[],
    now: (Row | Left)[],
    before: Promise<void>,
  ): Promise<void> {
    const { step, judge } = stretch;
    const givenAt = performance.now();
    const inside = now.flatMap((row, index) => {
      const first = given[index];
      return row instanceof JsonObject && first
        ? [{ index, row, key: JSON.stringify(this.#keyOf(first)), first }]
        : [];
    });
    const [results] = await Promise.all([
      inside.length === 0 ? [] : step.applyBatch(inside),
      before,
    ]);
    // While the step had the block before, this one waited.
    const startedAt = Math.max(givenAt, stretch.lastEndedAt);
    stretch.lastEndedAt = performance.now();
    judge.addTime(stretch.lastEndedAt - startedAt, inside.length);
    if (results.length !== inside.length) {
      throw new TypeError(`${results.length} results for ${inside.length} rows`);
    }
    for (const [at, { index, row, first }] of inside.entries()) {
      const keyOf = () => this.#keyOf(first);
      const judged = judge.judge(row, results[at] ?? null, keyOf);
      now[index] = judged instanceof JsonObject ? judged : leave(step.id, judged, keyOf);
    }
  }

  /** As `findExcess` of its steps. */
  findExcess(): ReturnType<typeof findExcess> {
    return findExcess(this.steps);
  }

  #keyOf(row: Row): RowKey {
    const entries = this.#keyColumns.map((name) => [name, textOf(row.get(name) ?? jsonNull)]);
    return Object.fromEntries(entries);
  }
}

function leave(step: number, judged: null | RowError, keyOf: () => RowKey): Left {
  if (judged === null) return { kind: 'dropped', step };
  return { kind: 'rejected', step, reason: judged.message, key: keyOf() };
}

function stretchesOf(chainSteps: readonly ChainStep[]): readonly Stretch[] {
  const stretches: Stretch[] = [];
  let inThread: InThread[] = [];
  for (const judge of chainSteps) {
    const { step } = judge;
    if (step.kind === 'row') {
      if (inThread.length === 0) stretches.push({ kind: 'rows', steps: inThread });
      inThread.push({ step, judge });
    } else {
      stretches.push({ kind: 'batch', step, judge, last: Promise.resolve(), lastEndedAt: 0 });
      inThread = [];
    }
  }
  return stretches;
}

/** Null if a step waits. */
function inThreadOnly(stretches: readonly Stretch[]): readonly InThread[] | null {
  const [first] = stretches;
  if (first === undefined) return [];
  return stretches.length === 1 && first.kind === 'rows' ? first.steps : null;
}

/** An error that is not the step's own may quote the row: of such a one only its kind is kept. */
function attempt({ apply }: RowStep, row: Row): StepResult {
  try {
    return apply(row);
  } catch (error) {
    if (error instanceof RowError) return error;
    const kind = error instanceof Error ? error.constructor.name : typeof error;
    return new RowError(`The step failed with a ${kind}.`);
  }
}
