import { type ChainColumns, ChainStep, type RowKey, type Watcher } from './chain-step.ts';
import { JsonObject, jsonNull, textOf } from './json.ts';
import { RowError } from './effort.ts';
import type { BatchStep, KeyedRow, RowStep, Step, StepResult } from './step.ts';
import type { Row } from './transform.ts';

/** The fate of a row, and the id of the step in which it left. A rejected row leaves its key and the reason. */
export type Outcome = { readonly kind: 'kept'; readonly row: Row } | Left;

type Left =
  | { readonly kind: 'dropped'; readonly step: number }
  | {
      readonly kind: 'rejected';
      readonly step: number;
      readonly reason: string;
      readonly key: RowKey;
    };

/** Rows by their position; a row may be made at each call. */
export interface Rows {
  readonly length: number;
  at(index: number): Row | undefined;
}

/** Gives others the process; null if this work still has its turn. @throws if the work is given up */
export type Pause = () => Promise<void> | null;

/** Given the row as it was given; once for each, in order. @param pause between the steps of a row that may be long */
export type Judge = (index: number, first: Row, pause?: Pause) => Outcome | Promise<Outcome>;

/** A clock for each row would take longer than some steps. */
const usuallyTimedEvery = 16;

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

/** Each gets the row of the step before it. A chain keeps no row: what becomes of a row depends on it alone. */
export class Chain {
  readonly steps: readonly ChainStep[];
  readonly #stretches: readonly Stretch[];
  readonly #inThread: readonly InThread[] | null;
  readonly #keyColumns: readonly string[];
  readonly #shownAs: (keyColumn: string) => readonly string[];
  #rows = 0;
  #timedEvery = usuallyTimedEvery;

  /** @param keyColumns what names a row in logs and among the rejected @param shownAs their names in the files */
  constructor(
    steps: readonly Step[],
    columns: ChainColumns,
    keyColumns: readonly string[],
    shownAs: (keyColumn: string) => readonly string[] = (name) => [name],
  ) {
    this.steps = steps.map((step) => new ChainStep(step, columns));
    this.#stretches = stretchesOf(this.steps);
    this.#inThread = inThreadOnly(this.#stretches);
    this.#keyColumns = keyColumns;
    this.#shownAs = shownAs;
  }

  /** Before the first row. Each row is timed then. */
  watch(watcher: Watcher): void {
    this.#timedEvery = 1;
    for (const step of this.steps) step.watch(watcher);
  }

  /** A row that no step changed is the very row that was given. @throws TypeError if a step of the chain waits */
  apply(given: Row): Outcome {
    if (this.#inThread === null) throw new TypeError('this chain has a step that waits');
    return outcomeOf(this.#through(this.#inThread, given, given));
  }

  /**
   * Keeps no rows that can be made again. The next block may be given before this one is done; judge them in order.
   * @param pauseOf what to call between the steps of a row
   * @throws what a step throws that works elsewhere: no row of the block has an outcome
   */
  async judgeBlock(given: Rows, pauseOf: (index: number) => Pause | undefined): Promise<Judge> {
    const inThread = this.#inThread;
    if (inThread !== null) {
      return (_, row, pause) =>
        pause ? this.#throughInTurns(inThread, row, row, pause) : this.apply(row);
    }
    // The rows that a step changed, or that left.
    const now = Array.from<undefined | Row | Left>({ length: given.length });
    let judge: Judge | null = null;
    for (const stretch of this.#stretches) {
      if (judge) await keepOutcomes(given, now, judge, pauseOf);
      judge =
        stretch.kind === 'batch'
          ? await this.#throughBatch(stretch, given, now)
          : (index, first, pause) => {
              const row = now[index] ?? first;
              if (!(row instanceof JsonObject)) return row;
              const { steps } = stretch;
              if (pause) return this.#throughInTurns(steps, row, first, pause);
              return outcomeOf(this.#through(steps, row, first));
            };
    }
    return judge ?? ((_, row) => ({ kind: 'kept', row }));
  }

  async #throughInTurns(
    steps: readonly InThread[],
    given: Row,
    first: Row,
    pause: Pause,
  ): Promise<Outcome> {
    const isTimed = this.#isSampled();
    let row: Row | Left = given;
    for (const step of steps) {
      if (!(row instanceof JsonObject)) break;
      row = this.#through([step], row, first, isTimed);
      await pause();
    }
    return outcomeOf(row);
  }

  #isSampled(): boolean {
    this.#rows += 1;
    return (this.#rows - 1) % this.#timedEvery === 0;
  }

  #through(
    steps: readonly InThread[],
    given: Row,
    first: Row,
    isTimed = this.#isSampled(),
  ): Row | Left {
    const keyOf = () => this.#keyOf(first);
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

  /** Resolves in the order of the calls. @returns what judges the rows, once each and in their order */
  #throughBatch(
    stretch: Extract<Stretch, { kind: 'batch' }>,
    given: Rows,
    now: readonly (undefined | Row | Left)[],
  ): Promise<Judge> {
    const { step, judge, last: before } = stretch;
    const givenAt = performance.now();
    const isThere = (known: undefined | Row | Left) =>
      known === undefined || known instanceof JsonObject;
    const rows = now.filter(isThere).length;
    const keyOf = (row: Row) => this.#keyText(row);
    const inside = function* (): Generator<KeyedRow> {
      for (let index = 0; index < given.length; index += 1) {
        const current = now[index];
        if (current !== undefined && !(current instanceof JsonObject)) continue;
        const first = given.at(index);
        if (!first) continue;
        yield { key: keyOf(first), row: current ?? first };
      }
    };
    const applied = rows === 0 ? Promise.resolve([]) : step.applyBatch(inside());
    const work = async (): Promise<Judge> => {
      const [results] = await Promise.all([applied, before]);
      // While the step had the block before, this one waited.
      const startedAt = Math.max(givenAt, stretch.lastEndedAt);
      stretch.lastEndedAt = performance.now();
      judge.addTime(stretch.lastEndedAt - startedAt, rows);
      if (results.length !== rows) {
        throw new TypeError(`${results.length} results for ${rows} rows`);
      }
      let at = 0;
      return (index, first) => {
        const row = now[index] ?? first;
        if (!(row instanceof JsonObject)) return row;
        const keyOfRow = () => this.#keyOf(first);
        const judged = judge.judge(row, results.at(at, row) ?? null, keyOfRow);
        at += 1;
        return outcomeOf(judged instanceof JsonObject ? judged : leave(step.id, judged, keyOfRow));
      };
    };
    const through = work();
    stretch.last = through.then(() => {});
    // The caller has the error of this block; a block behind it ends with it too.
    stretch.last.catch(() => {});
    return through;
  }

  #keyText(row: Row): string {
    let text = '';
    for (const name of this.#keyColumns) {
      const value = JSON.stringify(textOf(row.get(name) ?? jsonNull));
      text += `${text === '' ? '{' : ','}${JSON.stringify(name)}:${value}`;
    }
    return text === '' ? '{}' : `${text}}`;
  }

  #keyOf(row: Row): RowKey {
    const entries = this.#keyColumns.flatMap((column) => {
      const text = textOf(row.get(column) ?? jsonNull);
      return this.#shownAs(column).map((name) => [name, text] as const);
    });
    return Object.fromEntries(entries);
  }
}

function outcomeOf(end: Row | Left): Outcome {
  return end instanceof JsonObject ? { kind: 'kept', row: end } : end;
}

/** A row that is as it was given is not kept. */
async function keepOutcomes(
  given: Rows,
  now: (undefined | Row | Left)[],
  judge: Judge,
  pauseOf: (index: number) => Pause | undefined,
): Promise<void> {
  for (let index = 0; index < given.length; index += 1) {
    const first = given.at(index);
    if (!first) throw new Error('the chain has lost a row');
    const judged = judge(index, first, pauseOf(index));
    const outcome = judged instanceof Promise ? await judged : judged;
    if (outcome.kind !== 'kept') now[index] = outcome;
    else now[index] = outcome.row === first ? undefined : outcome.row;
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
