import type { Timestamp } from '../domain/time.ts';
import type { Conditions } from './time-bound.ts';

/** A place between two rows of a list that is ordered by a time, then by id. */
export interface KeysetPlace {
  readonly direction: 'next' | 'previous';
  readonly at: Timestamp;
  readonly id: string;
}

export interface KeysetOrder {
  /** SQL of the column. */
  readonly column: string;
  readonly descending: boolean;
}

export interface KeysetPage<T> {
  readonly results: readonly T[];
  readonly hasNext: boolean;
  readonly hasPrevious: boolean;
}

/** Adds the place to the conditions. @returns the clauses that order and bound the page */
export function seek(
  conditions: Conditions,
  order: KeysetOrder,
  idColumn: string,
  place: KeysetPlace | null,
  limit: number,
): string {
  const { column } = order;
  const descending = order.descending !== (place?.direction === 'previous');
  if (place) {
    const at = conditions.parameter(place.at);
    const comparison = `(${column}, ${idColumn}) ${descending ? '<' : '>'} (${at}::timestamptz, ?::uuid)`;
    conditions.add(comparison, place.id);
  }
  const direction = descending ? 'desc' : 'asc';
  // One more than asked for tells whether there is a further page.
  return `order by ${column} ${direction}, ${idColumn} ${direction} limit ${conditions.parameter(limit + 1)}`;
}

/** The rows of `seek`'s query as a page, in the list's own order. */
export function toKeysetPage<T>(
  rows: readonly T[],
  place: KeysetPlace | null,
  limit: number,
): KeysetPage<T> {
  const results = rows.slice(0, limit);
  const further = rows.length > limit;
  if (place?.direction === 'previous') {
    return { results: results.reverse(), hasNext: true, hasPrevious: further };
  }
  return { results, hasNext: further, hasPrevious: place !== null };
}
