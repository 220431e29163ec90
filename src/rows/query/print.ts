import { comparisons } from './allow-list.ts';
import type { Limit, Limits } from './bounds.ts';
import type { CastType, Expression } from './expression.ts';
import { functions } from './functions.ts';
import { tokensOf } from './parser.ts';
import { printTimeText } from './time-text.ts';

export interface Dialect {
  readonly column: (name: string) => string;
  readonly json: (column: string, path: readonly string[]) => string;
  readonly function: (name: string) => string;
  readonly type: (name: string) => string;
  /** Around the text of a row that becomes a time; only for a server. */
  readonly timeText?: (text: string) => string;
  readonly operator: (name: string) => string;
  /** Guards around parts of the expression; only for a server. */
  readonly limits?: Limits;
}

const bare: ReadonlySet<Expression['kind']> = new Set([
  'column',
  'json',
  'string',
  'keyword',
  'case',
  'form',
  'call',
  'array',
  'cast',
]);

/** Every compound operand is in parentheses, so it is read back as the same tree. */
export function printExpression(expression: Expression, dialect: Dialect): string {
  const text = printUnguarded(expression, dialect);
  const limit = dialect.limits?.get(expression);
  if (!limit) return text;
  const subject = printUnguarded(expression, queryDialect).slice(0, 80);
  const mark = `${guardMark}${subject} may have at most ${limit.bytes} bytes here, a row has `;
  return printGuard(text, quoteText(mark), limit);
}

function printUnguarded(expression: Expression, dialect: Dialect): string {
  const print = (part: Expression) => printExpression(part, dialect);
  const list = (parts: readonly Expression[]) => parts.map(print).join(', ');
  const operand = (part: Expression) =>
    bare.has(part.kind) || (part.kind === 'number' && !part.text.startsWith('-'))
      ? print(part)
      : `(${print(part)})`;
  switch (expression.kind) {
    case 'column':
      return dialect.column(expression.name);
    case 'json':
      return dialect.json(expression.column, expression.path);
    case 'string':
      return quoteText(expression.value);
    case 'number':
      return expression.text;
    case 'keyword':
      return expression.keyword;
    case 'unary':
      return `${dialect.operator(expression.operator)} ${operand(expression.operand)}`;
    case 'binary':
      return `${operand(expression.left)} ${dialect.operator(expression.operator)} ${operand(expression.right)}`;
    case 'quantified': {
      const { left, operator, quantifier, right } = expression;
      return `${operand(left)} ${operator} ${quantifier} (${print(right)})`;
    }
    case 'logic':
      return expression.operands.map(operand).join(` ${expression.operator} `);
    case 'not':
      return `NOT ${operand(expression.operand)}`;
    case 'test':
      return `${operand(expression.operand)} ${expression.test}`;
    case 'in': {
      const keyword = expression.negated ? 'NOT IN' : 'IN';
      return `${operand(expression.operand)} ${keyword} (${list(expression.items)})`;
    }
    case 'between': {
      const { keyword, low, high } = expression;
      return `${operand(expression.operand)} ${keyword} ${operand(low)} AND ${operand(high)}`;
    }
    case 'case':
      return printCase(expression, print, operand);
    case 'form':
      return `${expression.name}(${list(expression.arguments)})`;
    case 'call':
      return `${dialect.function(expression.name)}(${list(expression.arguments)})`;
    case 'array':
      return `ARRAY[${list(expression.items)}]`;
    case 'subscript': {
      const indexes = expression.indexes.map((index) => `[${print(index)}]`).join('');
      return `(${print(expression.operand)})${indexes}`;
    }
    case 'cast':
      return `CAST(${dialect.timeText && expression.readsTime ? dialect.timeText(print(expression.operand)) : print(expression.operand)} AS ${printType(expression.type, dialect)})`;
  }
}

function printCase(
  { operand: subject, branches, otherwise }: Extract<Expression, { kind: 'case' }>,
  print: (part: Expression) => string,
  operand: (part: Expression) => string,
): string {
  const parts = branches.map(({ when, result }) => `WHEN ${print(when)} THEN ${print(result)}`);
  const head = subject ? `CASE ${operand(subject)}` : 'CASE';
  return [head, ...parts, ...(otherwise ? [`ELSE ${print(otherwise)}`] : []), 'END'].join(' ');
}

function printType({ name, modifiers, array }: CastType, dialect: Dialect): string {
  const suffix = modifiers.length > 0 ? `(${modifiers.join(', ')})` : '';
  return `${dialect.type(name)}${suffix}${array ? '[]' : ''}`;
}

/** A literal that is read back unchanged whatever standard_conforming_strings is. */
export function quoteText(text: string): string {
  const quoted = `'${text.replaceAll("'", "''")}'`;
  const escaped = quoted.replace(/[\\\p{Cc}]/gu, (character) => {
    if (character === '\\') return '\\\\';
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
  return escaped === quoted ? quoted : `E${escaped}`;
}

export function quoteName(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** The lexer's kinds of keyword: 0 none, 1 still allowed as any name, above that not. */
const unreservedKind = 1;
const reservedKind = 4;

/** Quoted only if PostgreSQL would not read the bare name as the same name. */
export function quoteNameIfNeeded(name: string): string {
  if (!/^[a-z_][a-z0-9_$]*$/.test(name)) return quoteName(name);
  return (tokensOf(name)?.[0]?.keywordKind ?? reservedKind) <= unreservedKind
    ? name
    : quoteName(name);
}

export const queryDialect: Dialect = {
  column: quoteNameIfNeeded,
  json: (column, path) => [column, ...path].map(quoteNameIfNeeded).join('.'),
  function: (name) => (functions.get(name)?.reserved ? `pg_catalog.${name}` : name),
  type: (name) => name,
  operator: (name) => name,
};

/**
 * Words and comparisons stay bare: `IN` cannot be qualified, and `=` must not differ from it. pg_catalog comes first in
 * the session's path. For a type of an extension, such as citext, they are the type's own.
 */
const qualifyOperator = (name: string): string =>
  comparisons.has(name) || /^[A-Z ]+$/.test(name) ? name : `OPERATOR(pg_catalog.${name})`;

/** The relation's name in a printed statement; the tenant cannot choose it. */
export const sourceName = 'source';

/** Every name has its schema, so no search path can change its meaning. @param column how a model's column is read */
export function serverDialectWith(column: (name: string) => string): Dialect {
  return {
    column,
    json: (name, path) => {
      const steps = path.map((key, index) => {
        const operator = qualifyOperator(index === path.length - 1 ? '->>' : '->');
        return ` ${operator} ${quoteText(key)}`;
      });
      // The operators associate to the left, and all of them take the key as text.
      return `(${column(name)}${steps.join('')})`;
    },
    function: (name) => `pg_catalog.${name}`,
    type: (name) => `pg_catalog.${name}`,
    timeText: printTimeText,
    operator: qualifyOperator,
  };
}

export const serverDialect: Dialect = serverDialectWith(
  (name) => `${sourceName}.${quoteName(name)}`,
);

/** The prefix of a guard's error. The source recognizes it and takes the rest as the error's text. */
export const guardMark = 'value too large: ';

/** The stored form of a value is compressed by at most this factor (lz4). */
const maxCompression = 256;

/**
 * Too large is an error of class 22. PostgreSQL cannot be interrupted inside one call, so the size is checked before.
 * @param name what the value is called, as a literal
 */
function printGuard(text: string, name: string, { bytes, stored }: Limit): string {
  const size = `pg_catalog.octet_length(CAST(${text} AS pg_catalog.text))`;
  const isLarge = `${size} > ${bytes}`;
  const first = Math.floor(bytes / maxCompression);
  const condition = stored
    ? `pg_catalog.pg_column_size(${text}) > ${first} AND ${isLarge}`
    : isLarge;
  // The message contains the size, so that the planner cannot compute it beforehand.
  const message = `pg_catalog.concat(${name}, ${size})`;
  const failure = `CASE WHEN ${condition} THEN CAST(${message} AS pg_catalog.bool) END`;
  return `CASE WHEN ${failure} THEN NULL ELSE ${text} END`;
}
