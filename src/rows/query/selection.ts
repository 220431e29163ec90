import { SluiceError } from '../../foundation/domain/errors.ts';
import type { Model, ModelChanges } from '../../foundation/domain/model.ts';
import type { Timestamp } from '../../foundation/domain/time.ts';
import { aliveFilter, changedFilter, type ElementBounds } from './change-rows.ts';
import { binary, castTo, columnNamed, type Expression } from './expression.ts';
import type { ParsedQuery } from './parse-query.ts';
import { conjunction } from './translate.ts';

export interface Selection {
  readonly model: Model;
  /** Null: all columns of the model and every row. */
  readonly query: ParsedQuery | null;
  readonly tenantKey: string;
  /** Instead of the rows of a range; missing: none. */
  readonly element?: (ElementBounds & { readonly changes: ModelChanges }) | null;
  /** Half-open, by the interval column; exact to the microsecond. Without such a column every row is selected. */
  readonly range: { readonly start: Timestamp; readonly end: Timestamp };
  /** Only rows with one of these events; null or empty: all. */
  readonly includeEvents: readonly string[] | null;
  /** Without rows with one of these events; a row without an event stays. */
  readonly excludeEvents: readonly string[] | null;
}

/** Untyped, so that it takes the column's type. */
export const ofTenant = ({ model, tenantKey }: Selection): Expression =>
  binary(columnNamed(model.tenantColumn), '=', literal(tenantKey));

/** Literals: nothing is pasted into text. */
export function rowFilter(selection: Selection): Expression {
  const { model, range, element } = selection;
  const { intervalColumn: at } = model;
  const bound = (operator: string, time: Timestamp) =>
    at === null ? [] : [binary(columnNamed(at), operator, instant(time))];
  return conjunction('AND', [
    ofTenant(selection),
    ...(element ? changedFilter(element.changes, element) : []),
    ...(element ? aliveFilter(element.changes) : []),
    ...bound('>=', range.start),
    ...bound('<', range.end),
    ...eventFilter(selection),
  ]);
}

export function eventFilter({ model, includeEvents, excludeEvents }: Selection): Expression[] {
  const events = (names: readonly string[]): Expression => {
    if (model.eventColumn === null) {
      const detail = `${model.name} has no event column. Remove include_events and exclude_events.`;
      throw new SluiceError('query.invalid', detail);
    }
    const operand = columnNamed(model.eventColumn);
    return { kind: 'in', negated: false, operand, items: names.map(literal) };
  };
  return [
    ...(includeEvents?.length ? [events(includeEvents)] : []),
    ...(excludeEvents?.length
      ? [{ kind: 'test', test: 'IS NOT TRUE', operand: events(excludeEvents) } as const]
      : []),
  ];
}

export function literal(value: string): Expression {
  // A literal cannot contain a NUL, and a lone surrogate would become another character.
  if (/\0|\p{Cs}/u.test(value)) {
    const detail = 'An event name contains a NUL or half of a surrogate pair. Remove it.';
    throw new SluiceError('query.invalid', detail);
  }
  return { kind: 'string', value };
}

export function instant(timestamp: Timestamp): Expression {
  if (!/^\d{4,6}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/.test(timestamp)) {
    throw new Error('A bound is a UTC timestamp with microseconds.');
  }
  return castTo(literal(timestamp), 'timestamptz');
}
