import type { Model } from '../../foundation/domain/model.ts';
import { type Fields, firstOffset, listOf, onlyFields, untag, wordsFor } from './nodes.ts';
import type { Tokens } from './parser.ts';
import { quoteNameIfNeeded } from './print.ts';
import { RefusedPart } from './problem.ts';
import type { Scope } from './translate-column.ts';

export interface Select {
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
export function readSelect(statements: readonly unknown[], tokens: Tokens, model: Model): Select {
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
