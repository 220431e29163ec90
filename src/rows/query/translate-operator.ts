import { binaryOperators, comparisons, likeOperators, unaryOperators } from './allow-list.ts';
import { binary, type Expression } from './expression.ts';
import { listOf, namesIn, onlyFields, type TaggedNode, untag } from './nodes.ts';
import { RefusedPart } from './problem.ts';
import type { Translate } from './translate-column.ts';

const betweenKeywords: ReadonlyMap<unknown, string> = new Map([
  ['AEXPR_BETWEEN', 'BETWEEN'],
  ['AEXPR_NOT_BETWEEN', 'NOT BETWEEN'],
  ['AEXPR_BETWEEN_SYM', 'BETWEEN SYMMETRIC'],
  ['AEXPR_NOT_BETWEEN_SYM', 'NOT BETWEEN SYMMETRIC'],
]);

const fieldNames = ['kind', 'name', 'lexpr', 'rexpr', 'rexpr_list_start', 'rexpr_list_end'];

/** As PostgreSQL parses them (A_Expr): IN, BETWEEN and LIKE too. */
export function translateOperator(node: TaggedNode, translate: Translate): Expression {
  onlyFields(node, fieldNames, translate.offset);
  const { kind, lexpr, rexpr } = node.fields;
  const operator = operatorName(node.fields.name, translate.offset);
  const joined = (name: string) => binary(translate.part(lexpr), name, translate.part(rexpr));
  const between = betweenKeywords.get(kind);
  if (between) {
    const [low, high] = itemsOf(rexpr, translate);
    if (!low || !high) throw refuseOperator(between, translate.offset);
    return { kind: 'between', keyword: between, operand: translate.part(lexpr), low, high };
  }
  switch (kind) {
    case 'AEXPR_OP':
      if (!(lexpr === undefined ? unaryOperators : binaryOperators).has(operator)) {
        throw refuseOperator(operator, translate.offset);
      }
      if (lexpr !== undefined) return joined(operator);
      return { kind: 'unary', operator, operand: translate.part(rexpr) };
    case 'AEXPR_OP_ANY':
    case 'AEXPR_OP_ALL':
      if (!comparisons.has(operator)) throw refuseOperator(operator, translate.offset);
      return {
        kind: 'quantified',
        operator,
        quantifier: kind === 'AEXPR_OP_ANY' ? 'ANY' : 'ALL',
        left: translate.part(lexpr),
        right: translate.part(rexpr),
      };
    case 'AEXPR_DISTINCT':
    case 'AEXPR_NOT_DISTINCT':
      if (operator !== '=') throw refuseOperator(operator, translate.offset);
      return joined(kind === 'AEXPR_DISTINCT' ? 'IS DISTINCT FROM' : 'IS NOT DISTINCT FROM');
    case 'AEXPR_NULLIF':
      return {
        kind: 'form',
        name: 'NULLIF',
        arguments: [translate.part(lexpr), translate.part(rexpr)],
      };
    case 'AEXPR_IN':
      if (operator !== '=' && operator !== '<>') throw refuseOperator(operator, translate.offset);
      return {
        kind: 'in',
        negated: operator === '<>',
        operand: translate.part(lexpr),
        items: itemsOf(rexpr, translate),
      };
    case 'AEXPR_LIKE':
    case 'AEXPR_ILIKE': {
      const like = likeOperators.get(operator);
      if (!like) throw refuseOperator(operator, translate.offset);
      return joined(like);
    }
    case 'AEXPR_SIMILAR':
      throw refuseOperator('SIMILAR TO', translate.offset);
    default:
      throw refuseOperator(String(kind), translate.offset);
  }
}

/** With a schema it could be any user's operator. */
function operatorName(name: unknown, offset: number): string {
  const [operator, ...more] = namesIn(name);
  if (typeof operator === 'string' && more.length === 0) return operator;
  const message = 'Write the operator without OPERATOR() and a schema.';
  throw new RefusedPart('OPERATOR()', offset, message);
}

function itemsOf(list: unknown, translate: Translate): readonly Expression[] {
  const node = untag(list, translate.offset);
  if (node.tag !== 'List') throw refuseOperator(node.tag, translate.offset);
  onlyFields(node, ['items'], translate.offset);
  return listOf(node.fields.items).map(translate.part);
}

function refuseOperator(operator: string, offset: number): RefusedPart {
  return new RefusedPart(`operator ${operator}`, offset, 'is not supported.');
}
