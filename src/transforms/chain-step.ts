import { type Json, JsonObject, type JsonText, jsonNull, textOf } from './json.ts';
import { RowError } from './row-error.ts';
import type { Step } from './step.ts';
import type { Row } from './transform.ts';

/** What a chain knows of the columns of its rows. */
export interface ChainColumns {
  /** All of them: no step adds one. */
  readonly names: readonly string[];
  /** Key, tenant and interval column: no step changes them. */
  readonly protected: readonly string[];
  /** Why a column cannot hold a value, without the value; null if it can. Absent: it can. */
  readonly misfit?: (column: string, value: Json) => string | null;
}

/** The key of a row: columns and their values. */
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

/** What a step makes of a row: a row, null to drop it, or why it could not. */
export type StepResult = Row | null | RowError;

const maxKinds = 20;

/** A step in its chain: judges what the step makes of each row, and counts. */
export class ChainStep {
  readonly step: Step;
  readonly #columns: ChainColumns;
  readonly #names: ReadonlySet<string>;
  readonly #counters = { in: 0, out: 0, dropped: 0, errored: 0 };
  readonly #errors = new Map<string, StepErrors>();

  constructor(step: Step, columns: ChainColumns) {
    this.step = step;
    this.#columns = columns;
    this.#names = new Set(columns.names);
  }

  get counters(): StepCounters {
    return this.#counters;
  }

  /** By the order in which they first came; the last kinds of very many are counted together. */
  get errors(): readonly StepErrors[] {
    return [...this.#errors.values()];
  }

  /**
   * Judges and counts.
   *
   * @returns the row for the next step, null for a dropped one, or why the row is rejected
   */
  judge(before: Row, result: StepResult, keyOf: () => RowKey): StepResult {
    this.#counters.in += 1;
    const judged = result instanceof JsonObject ? this.#check(before, result) : result;
    if (judged instanceof RowError) {
      this.#countError(judged.message, keyOf);
      if (this.step.onError === 'reject') return judged;
      this.#counters.out += 1;
      return before;
    }
    this.#counters[judged === null ? 'dropped' : 'out'] += 1;
    return judged;
  }

  /** Why the run must fail, if too many rows had errors. Ask at its end. */
  describeExcess(): string | null {
    const { in: rows, errored } = this.#counters;
    const { id, name, maxErrorShare } = this.step;
    if (errored <= maxErrorShare * rows) return null;
    const [first] = this.#errors.values();
    return `Step ${id} (${name}) had errors in ${errored} of ${rows} rows, more than max_error_share ${maxErrorShare} allows. The first: ${first?.reason}`;
  }

  #check(before: Row, after: Row): Row | RowError {
    if (after === before) return before;
    for (const [column, value] of after.members) {
      if (!this.#names.has(column))
        return new RowError(`There is no column ${column} to write to.`);
      const reason = value === before.get(column) ? null : this.#columns.misfit?.(column, value);
      if (reason) return new RowError(`The column ${column} cannot hold the new value: ${reason}`);
    }
    const complete = this.#fillIn(after);
    for (const column of this.#columns.protected) {
      if (sourceOf(complete, column) !== sourceOf(before, column)) {
        return new RowError(`The column ${column} must not change.`);
      }
    }
    return complete;
  }

  /** A column that was taken away is null in the file. */
  #fillIn(row: Row): Row {
    if (row.members.size === this.#names.size) return row;
    const missing = this.#columns.names.filter((name) => row.get(name) === undefined);
    return row.with(missing.map((name) => [name, jsonNull]));
  }

  #countError(reason: string, keyOf: () => RowKey): void {
    this.#counters.errored += 1;
    const isKnown = this.#errors.has(reason) || this.#errors.size < maxKinds - 1;
    const kind = isKnown ? reason : 'Other errors.';
    const known = this.#errors.get(kind);
    const { rows, firstKey } = known ?? { rows: 0, firstKey: keyOf() };
    this.#errors.set(kind, { reason: kind, rows: rows + 1, firstKey });
  }
}

function sourceOf(row: Row, column: string): JsonText {
  return textOf(row.get(column) ?? jsonNull);
}
