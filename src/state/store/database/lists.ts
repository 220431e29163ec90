import { maxPageBytes } from '../../../foundation/domain/page-bytes.ts';
import type { Timestamp } from '../../../foundation/domain/time.ts';

/** A position in a list that is ordered by a time, then by id. */
export interface KeysetPosition {
  readonly direction: 'next' | 'previous';
  readonly at: Timestamp;
  readonly id: string;
}

export interface KeysetOrder {
  readonly column: string;
  readonly descending: boolean;
}

export interface KeysetPage<T> {
  readonly results: readonly T[];
  readonly hasNext: boolean;
  readonly hasPrevious: boolean;
}

/** Adds the position to the conditions. @returns the clauses that order and limit the page */
export function seek(
  conditions: Conditions,
  order: KeysetOrder,
  idColumn: string,
  position: KeysetPosition | null,
  limit: number,
): string {
  const { column } = order;
  const descending = order.descending !== (position?.direction === 'previous');
  if (position) {
    const at = conditions.parameter(position.at);
    const comparison = `(${column}, ${idColumn}) ${descending ? '<' : '>'} (${at}::timestamptz, ?::uuid)`;
    conditions.add(comparison, position.id);
  }
  const direction = descending ? 'desc' : 'asc';
  // One more than requested: it shows whether there is another page.
  return `order by ${column} ${direction}, ${idColumn} ${direction} limit ${conditions.parameter(limit + 1)}`;
}

/** The rows of `seek`'s query as a page, in the list's own order. */
export function toKeysetPage<T>(
  rows: readonly T[],
  position: KeysetPosition | null,
  limit: number,
): KeysetPage<T> {
  const results = rows.slice(0, limit);
  const further = rows.length > limit;
  if (position?.direction === 'previous') {
    return { results: results.reverse(), hasNext: true, hasPrevious: further };
  }
  return { results, hasNext: further, hasPrevious: position !== null };
}

export interface PageRequest {
  readonly limit: number;
  readonly offset: number;
}

export interface OffsetPage<T> {
  readonly count: number;
  readonly results: readonly T[];
}

/** The value of an `ilike` that searches a text as it is. */
export const escapeLike = (search: string | null): string | null =>
  search?.replace(/[\\%_]/g, '\\$&') ?? null;

/** The page of rows that each have the count of all. */
export const countedPage = <Row>(rows: readonly (Row & { readonly count: number })[]) => ({
  count: rows[0]?.count ?? 0,
  results: rows.map(({ count: _, ...row }) => row as unknown as Row),
});

/** SQL of the bytes of a text in an answer: a quotation mark takes two, a control character six. */
export const jsonBytes = (text: string): string =>
  `coalesce(octet_length(to_json(${text})::text), 0)`;

/** Up to the row that exceeds the page's size; always the first. @param page a SELECT with `size` @param order of `page` */
export function upToPageBytes(page: string, order: string): string {
  return `(select * from (
      select page.*, sum(page.size) over (order by ${order}) - page.size as before from (${page}) as page
    ) as weighed where before < ${maxPageBytes})`;
}

/** A limit in time: an instant, or a span before Postgres' now (`7 days`). */
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

  addBound(comparison: string, bound: TimeBound | null): this {
    if (bound === null) return this;
    return 'at' in bound
      ? this.add(`${comparison} ?::timestamptz`, bound.at)
      : this.add(`${comparison} now() - ?::interval`, bound.spanBack);
  }

  /** Adds a condition that has no value, or whose values are parameters already. */
  addSql(condition: string): this {
    this.#parts.push(condition);
    return this;
  }

  /** Adds a value. @returns the name of its parameter */
  parameter(value: unknown): string {
    this.values.push(value);
    return `$${this.values.length}`;
  }

  get sql(): string {
    return this.#parts.join(' and ');
  }
}
