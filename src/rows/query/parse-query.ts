import type { Model, ModelColumn } from '../../foundation/domain/model.ts';
import type { Limits } from './bounds.ts';
import { type Expression, operandsOf } from './expression.ts';
import {
  type Fields,
  firstOffset,
  isFields,
  listOf,
  offsetOf,
  onlyFields,
  untag,
  wordsFor,
} from './nodes.ts';
import { parseSql, positionAt, type Tokens } from './parser.ts';
import { printExpression, queryDialect, quoteNameIfNeeded } from './print.ts';
import { problemAt, type QueryProblem, RefusedPart } from './problem.ts';
import { checkName, isStar, type Scope } from './translate-column.ts';
import { type Budget, newBudget, translateExpression } from './translate.ts';

const maxProblems = 100;

export interface Output {
  readonly name: string;
  readonly expression: Expression;
}

/** It contains only these expressions, nothing else of the caller's text. */
export interface ParsedQuery {
  /** At least one; their names differ. */
  readonly outputs: readonly Output[];
  readonly where: Expression | null;
  readonly star: boolean;
  /** Guards around parts of these expressions, for the server. */
  readonly limits: Limits;
}

type ParseResult =
  | { readonly ok: ParsedQuery }
  | { readonly problems: readonly [QueryProblem, ...QueryProblem[]] };

/** One SELECT over `model`, checked node by node. Reports the problems of each column and of the condition in order. */
export function parseQuery(text: string, model: Model): ParseResult {
  const parsed = parseSql(text);
  const quoted = quoteNameIfNeeded(model.name);
  /** If the name of the model is a word of SQL, the query is something else without quotes. */
  const hinted = (problem: QueryProblem): QueryProblem =>
    quoted === model.name || text.includes(quoted)
      ? problem
      : { ...problem, detail: `${problem.detail} Write the model as ${quoted}.` };
  if ('problem' in parsed) return { problems: [hinted(parsed.problem)] };
  const refused: RefusedPart[] = [];
  const attempt = <T>(read: () => T): T | null => {
    if (refused.length >= maxProblems) return null;
    try {
      return read();
    } catch (error) {
      if (!(error instanceof RefusedPart)) throw error;
      refused.push(error);
      return null;
    }
  };
  const query = attempt(() => {
    const select = readSelect(parsed.statements, parsed.tokens, model);
    return readParts(select, attempt);
  });
  const [first, ...others] = refused.map(({ construct, offset, message }) =>
    problemAt(construct, positionAt(text, offset), message),
  );
  if (first) return { problems: [hinted(first), ...others] };
  if (!query) throw new Error('A query was neither read nor refused.');
  return { ok: query };
}

function readParts(
  { targets, scope, where }: Select,
  attempt: <T>(read: () => T) => T | null,
): ParsedQuery {
  const budget = newBudget();
  const names = new Set<string>();
  const outputs: Output[] = [];
  for (const target of targets) {
    attempt(() => {
      const { offset, read } = readTarget(target, scope, budget);
      for (const output of read) {
        if (names.has(output.name)) {
          const message = `Two columns are called ${output.name}. Give one of them another alias.`;
          throw new RefusedPart(`column "${output.name}" twice`, offset, message);
        }
        names.add(output.name);
        outputs.push(output);
      }
    });
  }
  const condition =
    where === undefined ? null : attempt(() => translateExpression(where, scope, budget, 0));
  const expressions = outputs.map(({ expression }) => expression);
  return {
    outputs,
    where: condition,
    limits: attempt(() => budget.bounds.finish(expressions)) ?? new Map(),
    star: targets.length === 1 && isStarTarget(targets[0], scope),
  };
}

function readTarget(
  target: unknown,
  scope: Select['scope'],
  budget: Budget,
): { readonly offset: number; readonly read: readonly Output[] } {
  const node = untag(target, 0);
  const offset = offsetOf(node.fields, 0);
  onlyFields(node, ['name', 'val'], offset);
  const { name, val } = node.fields;
  if (isStarTarget(target, scope)) {
    const read = scope.model.columns.map(({ name }): Output => {
      const expression = { kind: 'column', name } as const;
      budget.bounds.measure(expression, scope, offset);
      return { name, expression };
    });
    return { offset, read };
  }
  const expression = translateExpression(val, scope, budget, offset);
  const output = typeof name === 'string' ? name : naturalName(expression);
  if (output !== null) checkName(output, offset);
  if (output !== null) return { offset, read: [{ name: output, expression }] };
  const message = 'Add AS and a name.';
  throw new RefusedPart('column without a name', offset, message);
}

function isStarTarget(target: unknown, scope: Select['scope']): boolean {
  const { val } = untag(target, 0).fields;
  if (!isFields(val) || !isFields(val.ColumnRef)) return false;
  return isStar(val.ColumnRef.fields, scope);
}

/** Rows that transformations changed are not at the server; null if it can be applied to them. */
export function describeComputed(outputs: readonly Output[]): string | null {
  const computed = outputs.find(({ expression: { kind } }) => kind !== 'column' && kind !== 'json');
  if (!computed) return null;
  return `With transformations the SELECT list may have only columns and JSON paths, with or without an alias. ${computed.name} is computed. Select the column itself, or turn transformations off.`;
}

/** As PostgreSQL: of the column, of the last key, of what is cast. */
function naturalName(expression: Expression): string | null {
  if (expression.kind === 'column') return expression.name;
  if (expression.kind === 'json') return expression.path.at(-1) ?? null;
  return expression.kind === 'cast' ? naturalName(expression.operand) : null;
}

/** Equal queries have equal text, and it parses to itself. It may exceed the length limit, so keep the original. */
export function normalizedText(query: ParsedQuery, model: Model): string {
  const columns = query.star
    ? '*'
    : query.outputs
        .map(({ name, expression }) => {
          const text = printExpression(expression, queryDialect);
          return naturalName(expression) === name ? text : `${text} AS ${quoteNameIfNeeded(name)}`;
        })
        .join(', ');
  const where = query.where ? ` WHERE ${printExpression(query.where, queryDialect)}` : '';
  return `SELECT ${columns} FROM ${quoteNameIfNeeded(model.name)}${where}`;
}

/** A query as `schema` shows it (contract, section 6). */
interface QuerySchema {
  readonly fields: readonly { readonly expression: string; readonly alias: string }[];
  readonly values: Readonly<Record<string, never>>;
  readonly dsl_query: string;
}

export function schemaOf(query: ParsedQuery, model: Model): QuerySchema {
  return {
    fields: query.outputs.map(({ name, expression }) => ({
      expression: printExpression(expression, queryDialect),
      alias: name,
    })),
    values: {},
    dsl_query: normalizedText(query, model),
  };
}

export function usedColumns(model: Model, query: ParsedQuery | null): readonly ModelColumn[] {
  if (query === null) return model.columns;
  const used = new Set<string>();
  const note = (expression: Expression): void => {
    if (expression.kind === 'column') used.add(expression.name);
    if (expression.kind === 'json') used.add(expression.column);
    operandsOf(expression).forEach(note);
  };
  for (const { expression } of query.outputs) note(expression);
  if (query.where) note(query.where);
  return model.columns.filter(({ name }) => used.has(name));
}

interface Select {
  readonly targets: readonly unknown[];
  readonly scope: Scope;
  readonly where: unknown;
}

/** Clauses that are refused, by their field in the tree, with their first keyword. */
const refusedClauses: ReadonlyMap<string, string> = new Map([
  ['distinctClause', 'DISTINCT'],
  ['intoClause', 'INTO'],
  ['groupClause', 'GROUP BY'],
  ['groupDistinct', 'GROUP BY'],
  ['groupByAll', 'GROUP BY'],
  ['havingClause', 'HAVING'],
  ['windowClause', 'WINDOW'],
  ['valuesLists', 'VALUES'],
  ['sortClause', 'ORDER BY'],
  ['limitOffset', 'OFFSET'],
  ['limitCount', 'LIMIT'],
  ['limitOption', 'FETCH'],
  ['lockingClause', 'FOR'],
  ['withClause', 'WITH'],
]);

const setOperation: ReadonlySet<string> = new Set(['op', 'all', 'larg', 'rarg']);

/** @throws RefusedPart with the clause that makes them something else */
function readSelect(statements: readonly unknown[], tokens: Tokens, model: Model): Select {
  const select = onlySelect(statements, tokens);
  for (const name of Object.keys(select)) refuseClause(name, select, tokens);
  const targets = listOf(select.targetList);
  if (targets.length === 0) {
    throw new RefusedPart('empty SELECT', 0, 'Select at least one column, or *.');
  }
  return { targets, scope: readFrom(select.fromClause, tokens, model), where: select.whereClause };
}

function onlySelect(statements: readonly unknown[], tokens: Tokens): Fields {
  const [first, second] = statements;
  const start = tokens[0]?.start ?? 0;
  if (first === undefined) throw new RefusedPart('empty query', 0, 'Write a SELECT.');
  const { stmt } = first as { readonly stmt?: unknown };
  if (second !== undefined) {
    const { stmt_location: at } = second as { readonly stmt_location?: number };
    const next = tokens.find((token) => token.start >= (at ?? 0));
    throw new RefusedPart('several statements', next?.start ?? start, 'Write one statement only.');
  }
  const node = untag(stmt, start);
  if (node.tag === 'SelectStmt') return node.fields;
  const construct = node.tag.replace(/Stmt$/, '').toUpperCase();
  throw new RefusedPart(construct, start, 'is not supported: write a SELECT.');
}

function refuseClause(name: string, select: Fields, tokens: Tokens): void {
  const value = select[name];
  if (name === 'targetList' || name === 'fromClause' || name === 'whereClause') return;
  if (name === 'limitOption' && value === 'LIMIT_OPTION_DEFAULT') return;
  if (name === 'op' && value === 'SETOP_NONE') return;
  if (setOperation.has(name)) {
    const word = String(select.op).replace('SETOP_', '');
    throw refuseAt(word, word, select, tokens);
  }
  const keyword = refusedClauses.get(name) ?? name;
  throw refuseAt(keyword === 'FOR' ? 'row locking' : keyword, keyword, value, tokens);
}

/** At the keyword, since most clauses do not say where they begin; else at the first part that does. */
function refuseAt(construct: string, keyword: string, node: unknown, tokens: Tokens): RefusedPart {
  const [word] = keyword.toLowerCase().split(' ');
  const matching = tokens.filter(
    ({ text, keywordKind }) => keywordKind > 0 && text.toLowerCase() === word,
  );
  const token = matching.find(({ start }) => depthAt(start, tokens) === 0) ?? matching[0];
  const offset = token?.start ?? firstOffset(node) ?? 0;
  return new RefusedPart(construct, offset, 'is not supported.');
}

/** The FOR of FOR UPDATE is not the one in SUBSTRING(… FOR 2). */
function depthAt(offset: number, tokens: Tokens): number {
  return tokens
    .filter(({ start }) => start < offset)
    .reduce((depth, { text }) => depth + (text === '(' ? 1 : text === ')' ? -1 : 0), 0);
}

function readFrom(fromClause: unknown, tokens: Tokens, model: Model): Scope {
  const [first, second] = listOf(fromClause);
  if (first === undefined) {
    const end = tokens.at(-1)?.end ?? 0;
    throw new RefusedPart('no FROM', end, `Add FROM ${model.name}.`);
  }
  if (second !== undefined) {
    const offset = firstOffset(second) ?? 0;
    throw new RefusedPart('several relations', offset, 'Read one model only.');
  }
  const offset = firstOffset(first) ?? 0;
  const relation = untag(first, offset);
  if (relation.tag !== 'RangeVar') {
    const construct = wordsFor(relation.tag);
    throw refuseAt(construct, construct, first, tokens);
  }
  onlyFields(relation, ['relname', 'inh', 'relpersistence', 'alias'], offset);
  const { relname, inh, relpersistence, alias } = relation.fields;
  if (inh !== true) throw refuseAt('ONLY', 'ONLY', first, tokens);
  if (relname !== model.name || relpersistence !== 'p') {
    const message = `This export can read only ${quoteNameIfNeeded(model.name)}.`;
    throw new RefusedPart(`relation "${String(relname)}"`, offset, message);
  }
  return { model, qualifier: alias === undefined ? model.name : readAlias(alias, model, offset) };
}

function readAlias(alias: unknown, model: Model, offset: number): string {
  const fields = alias as Fields;
  onlyFields({ tag: 'Alias', fields }, ['aliasname'], offset);
  const name = String(fields.aliasname);
  if (!model.columns.some((column) => column.name === name)) return name;
  const message = `${name} is a column. Give ${model.name} another alias.`;
  throw new RefusedPart(`alias "${name}"`, offset, message);
}
