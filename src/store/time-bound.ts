import type { Timestamp } from '../domain/time.ts';

/** A bound that a list is filtered by: a time, or a span back from Postgres' now (`7 days`). */
export type TimeBound = { readonly at: Timestamp } | { readonly spanBack: string };

/** The conditions of a list, and the values of their parameters. */
export class Conditions {
  readonly values: unknown[] = [];
  readonly #parts: string[] = [];

  /** @param condition SQL with `?` for the value; null adds nothing */
  add(condition: string, value: unknown): this {
    if (value === null || value === undefined) return this;
    this.#parts.push(condition.replaceAll('?', this.parameter(value)));
    return this;
  }

  /** @param comparison the column and the operator */
  addBound(comparison: string, bound: TimeBound | null): this {
    if (bound === null) return this;
    return 'at' in bound
      ? this.add(`${comparison} ?::timestamptz`, bound.at)
      : this.add(`${comparison} now() - ?::interval`, bound.spanBack);
  }

  /** A further value, as the name of its parameter. */
  parameter(value: unknown): string {
    this.values.push(value);
    return `$${this.values.length}`;
  }

  get sql(): string {
    return this.#parts.join(' and ');
  }
}
