import { castTypes } from './allow-list.ts';
import { type Expression, operandsOf } from './expression.ts';
import { RefusedPart } from './problem.ts';
import { findOtherZone } from './time-text.ts';
import type { Scope } from './translate-column.ts';

const movingWord = /\b(?:now|today|tomorrow|yesterday)\b/i;

const timeFunctions: ReadonlySet<string> = new Set(
  'date_bin date_part date_trunc extract isfinite timezone to_char'.split(' '),
);

/** Their arguments that are times; another one may be a text of any kind. */
const timeArguments: Readonly<Record<string, readonly number[]>> = {
  ...{ date_part: [1], date_trunc: [1], extract: [1], timezone: [1] },
  ...{ isfinite: [0], to_char: [0], date_bin: [1, 2] },
};

/** Refuses a word such as `'yesterday'`, which selects other rows on each attempt, or a time zone that is none. */
export function refuseMovingTime(expression: Expression, scope: Scope, offset: number): void {
  const operands = operandsOf(expression);
  if (!operands.some(({ kind }) => kind === 'string')) return;
  const isCall = expression.kind === 'call';
  const readsTime =
    isTime(expression, scope) ||
    (isCall && timeFunctions.has(expression.name)) ||
    operands.some((part) => isTime(part, scope));
  if (!readsTime) return;
  if (operands.some((part) => part.kind === 'string' && movingWord.test(part.value))) {
    const message = 'Use a fixed time such as 2024-03-01, not a word such as now or today.';
    throw new RefusedPart('moving time', offset, message);
  }
  const times = isCall
    ? (timeArguments[expression.name] ?? []).map((at) => operands[at])
    : operands;
  for (const part of times) {
    const zone = part?.kind === 'string' ? findOtherZone(part.value) : null;
    if (zone === null) continue;
    const message = 'Write times in ISO 8601, and zones by their names, such as Europe/Berlin.';
    throw new RefusedPart(`time zone ${zone.slice(0, 40)}`, offset, message);
  }
}

/** As far as we know without the server. */
export function isTime(expression: Expression, scope: Scope): boolean {
  switch (expression.kind) {
    case 'column': {
      const { columns } = scope.model;
      const type = columns.find(({ name }) => name === expression.name)?.sourceType;
      return /^(?:date|time)/.test(type ?? '');
    }
    case 'cast':
      return castTypes.get(expression.type.name)?.temporal === true;
    case 'call':
      return /^(?:date_(?:bin|trunc)|timezone|to_timestamp|make_date)$/.test(expression.name);
    case 'form':
    case 'case':
    case 'array':
    case 'subscript':
      return operandsOf(expression).some((part) => isTime(part, scope));
    case 'binary':
      return /^[+-]$/.test(expression.operator) && isTime(expression.left, scope);
    default:
      return false;
  }
}
