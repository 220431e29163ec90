import { BlockRow } from './block-row.ts';
import { type Edit, type Json, JsonObject, type JsonText, jsonNull, textOf } from './json.ts';
import { RowError } from './effort.ts';
import type { Step, StepFacts, StepResult } from './step.ts';
import type { Row } from './transform.ts';

export interface ChainColumns {
  readonly names: readonly string[];
  /** Key, tenant and interval column. */
  readonly protected: readonly string[];
  /** Why a column cannot hold a value, without the value; null if it can. Absent: it can. */
  readonly misfit?: (column: string, value: Json) => string | null;
}

export type RowKey = Readonly<Record<string, JsonText>>;

/** Errors of one kind in one step, and the key of the first row that had one. */
export interface StepErrors {
  readonly reason: string;
  readonly rows: number;
  readonly firstKey: RowKey;
}

/** A step that keeps rows with errors: in = out + dropped. One that rejects: in = out + dropped + errored. */
export interface StepCounters {
  readonly in: number;
  readonly out: number;
  readonly dropped: number;
  readonly errored: number;
}

const maxKinds = 20;

export interface StepTally {
  readonly step: StepFacts;
  readonly counters: StepCounters;
  /** Milliseconds that the step took for its rows; for a step in this thread from a sample of them. */
  readonly timeMs: number;
  /** By the order in which they first came; the last kinds of very many are counted together. */
  readonly errors: readonly StepErrors[];
}

/**
 * Its id; it had errors in more rows than its config allows. Null if none had. Ask at its end.
 * @param besides rows of the interval that did not reach the chain, and count as rows without errors
 */
export function findExcess(
  steps: readonly StepTally[],
  besides = 0,
): { readonly step: number; readonly reason: string } | null {
  for (const { step, counters, errors } of steps) {
    const { in: rows, errored } = counters;
    if (errored <= step.maxErrorShare * (rows + besides)) continue;
    const reason = `Step ${step.id} (${step.name}) had errors in ${errored} of ${rows} rows, more than max_error_share ${step.maxErrorShare} allows. The first: ${errors[0]?.reason}`;
    return { step: step.id, reason };
  }
  return null;
}

/** Sees what a step makes of a row: `after` is null if the row left, `error` is why the step could not handle it. */
export type Watcher = (
  step: StepTally,
  before: Row,
  after: Row | null,
  error: string | null,
) => void;

export class ChainStep implements StepTally {
  readonly step: Step;
  readonly #columns: ChainColumns;
  readonly #names: ReadonlySet<string>;
  readonly #counters = { in: 0, out: 0, dropped: 0, errored: 0 };
  readonly #errors = new Map<string, StepErrors>();
  #timedMs = 0;
  #timedRows = 0;
  #watcher: Watcher | null = null;

  constructor(step: Step, columns: ChainColumns) {
    this.step = step;
    this.#columns = columns;
    this.#names = new Set(columns.names);
  }

  get counters(): StepCounters {
    return this.#counters;
  }

  get errors(): readonly StepErrors[] {
    return [...this.#errors.values()];
  }

  get timeMs(): number {
    return this.#timedRows === 0 ? 0 : (this.#timedMs * this.#counters.in) / this.#timedRows;
  }

  watch(watcher: Watcher): void {
    this.#watcher = watcher;
  }

  addTime(ms: number, rows: number): void {
    this.#timedMs += ms;
    this.#timedRows += rows;
  }

  /** @returns the row for the next step, null for a dropped one, or why the row is rejected */
  judge(before: Row, result: StepResult, keyOf: () => RowKey): StepResult {
    this.#counters.in += 1;
    const judged = result instanceof JsonObject ? this.#check(before, result) : result;
    if (judged instanceof RowError) {
      this.#countError(judged.message, keyOf);
      const isRejected = this.step.onError === 'reject';
      this.#watcher?.(this, before, isRejected ? null : before, judged.message);
      if (isRejected) return judged;
      this.#counters.out += 1;
      return before;
    }
    this.#watcher?.(this, before, judged, null);
    this.#counters[judged === null ? 'dropped' : 'out'] += 1;
    return judged;
  }

  #check(before: Row, after: Row): Row | RowError {
    if (after === before) return before;
    const changes = after.changesSince(before);
    for (const [column, value] of changes) {
      if (!this.#names.has(column))
        return new RowError(`There is no column ${shown(column)} to write to.`);
      const reason = value === undefined ? null : this.#columns.misfit?.(column, value);
      if (reason)
        return new RowError(`The column ${column} does not accept the new value: ${reason}`);
    }
    for (const column of this.#columns.protected) {
      const change = changes.find(([name]) => name === column);
      if (!change) continue;
      if (textOf(change[1] ?? jsonNull) !== textOf(before.get(column) ?? jsonNull)) {
        return new RowError(`The column ${column} must not change.`);
      }
    }
    return this.#fillIn(after, changes);
  }

  /** A column that was taken away is null in the file, and stays in its place for the next step. */
  #fillIn(row: Row, changes: readonly Edit[]): Row {
    const gone = changes.filter(([, value]) => value === undefined);
    if (gone.length === 0) return row;
    if (row instanceof BlockRow) return row.edit(gone.map(([name]) => [name, jsonNull]));
    return new JsonObject(
      new Map(this.#columns.names.map((name) => [name, row.get(name) ?? jsonNull])),
    );
  }

  #countError(reason: string, keyOf: () => RowKey): void {
    this.#counters.errored += 1;
    const isKnown = this.#errors.has(reason) || this.#errors.size < maxKinds - 1;
    const kind = isKnown ? reason : 'Other errors.';
    const { rows = 0, firstKey = keyOf() } = this.#errors.get(kind) ?? {};
    this.#errors.set(kind, { reason: kind, rows: rows + 1, firstKey });
  }
}

/** A plugin may make up a name of any length, with any character. */
function shown(name: string): string {
  return /^[\w$ .-]{1,63}$/.test(name) ? name : 'of this name';
}
