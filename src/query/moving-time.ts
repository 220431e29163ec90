import { castTypes } from './allow-list.ts';
import { type Expression, operandsOf } from './expression.ts';
import { Refusal } from './problem.ts';
import type { Scope } from './translate-column.ts';

const movingWord = /\b(?:now|today|tomorrow|yesterday)\b/i;

/** Functions that read a literal as a time. */
const timeFunctions: ReadonlySet<string> = new Set(
  'date_bin date_part date_trunc extract isfinite timezone to_char'.split(' '),
);

/**
 * Refuses a literal such as `'yesterday'` if PostgreSQL would read it as a time: it would select other rows
 * on each attempt. Elsewhere the same word is plain text.
 */
export function refuseMovingTime(expression: Expression, scope: Scope, offset: number): void {
  const operands = operandsOf(expression);
  const moves = (part: Expression) => part.kind === 'string' && movingWord.test(part.value);
  if (!operands.some(moves)) return;
  const readsTime =
    isTime(expression, scope) ||
    (expression.kind === 'call' && timeFunctions.has(expression.name)) ||
    operands.some((part) => isTime(part, scope));
  if (!readsTime) return;
  throw new Refusal(
    'moving time',
    offset,
    'Use a fixed time such as 2024-03-01, not a word such as now or today.',
  );
}

/** Whether the value is a time, as far as we know without the server. */
function isTime(expression: Expression, scope: Scope): boolean {
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
