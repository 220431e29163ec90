import { Bounds } from './bounds.ts';
import type { Expression } from './expression.ts';
import { refuseMovingTime } from './moving-time.ts';
import {
  isFields,
  listOf,
  offsetOf,
  onlyFields,
  type TaggedNode,
  untag,
  wordsFor,
} from './nodes.ts';
import { RefusedPart } from './problem.ts';
import { translateArray, translateCall, translateCast, translateForm } from './translate-call.ts';
import { type Scope, type Translate, translateColumn } from './translate-column.ts';
import { translateOperator } from './translate-operator.ts';

const maxDepth = 100;
const maxNodes = 2_000;

/** Nodes that one query may still have, and the sizes so far; shared by its expressions. */
export interface Budget {
  nodes: number;
  readonly bounds: Bounds;
}

export function newBudget(): Budget {
  return { nodes: maxNodes, bounds: new Bounds() };
}

type Translator = (node: TaggedNode, translate: Translate) => Expression;

/** Every node that an expression may have. All others are refused. */
const translators: ReadonlyMap<string, Translator> = new Map<string, Translator>([
  ['ColumnRef', (node, { offset, scope }) => translateColumn(node, offset, scope)],
  ['A_Const', translateLiteral],
  ['A_Expr', translateOperator],
  ['BoolExpr', translateLogic],
  ['NullTest', (node, translate) => translateTest(node, 'nulltesttype', translate)],
  ['BooleanTest', (node, translate) => translateTest(node, 'booltesttype', translate)],
  ['TypeCast', translateCast],
  ['FuncCall', translateCall],
  ['CaseExpr', translateCase],
  ['CoalesceExpr', translateCoalesce],
  ['MinMaxExpr', translateMinMax],
  ['A_ArrayExpr', translateArray],
  ['A_Indirection', translateSubscript],
]);

/** @param parent the offset in bytes of the parent, for nodes without one @throws RefusedPart if it is not allowed */
export function translateExpression(
  node: unknown,
  scope: Scope,
  budget: Budget,
  parent: number,
  depth = 0,
): Expression {
  const tagged = untag(node, parent);
  const offset = offsetOf(tagged.fields, parent);
  budget.nodes -= 1;
  if (budget.nodes < 0) {
    throw new RefusedPart('long query', offset, `Use at most ${maxNodes} parts.`);
  }
  if (depth > maxDepth) {
    throw new RefusedPart('nesting', offset, `Nest expressions at most ${maxDepth} levels deep.`);
  }
  const translator = translators.get(tagged.tag);
  if (!translator) {
    const construct = wordsFor(tagged.tag);
    throw new RefusedPart(construct, offset, 'is not supported.');
  }
  const part = (child: unknown) => translateExpression(child, scope, budget, offset, depth + 1);
  const expression = translator(tagged, { scope, offset, part });
  refuseMovingTime(expression, scope, offset);
  budget.bounds.measure(expression, scope, offset);
  return expression;
}

/** Only decimals, without an exponent that makes a short literal a long number. */
const plainNumber = /^-?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d{1,2})?$/i;
const maxDigits = 100;

function translateLiteral(node: TaggedNode, { offset }: Translate): Expression {
  const { fields } = node;
  onlyFields(node, ['ival', 'fval', 'sval', 'boolval', 'isnull'], offset);
  if (fields.isnull === true) return { kind: 'keyword', keyword: 'NULL' };
  // The tree omits zero, empty and false values.
  if (isFields(fields.ival)) return { kind: 'number', text: String(fields.ival.ival ?? 0) };
  if (isFields(fields.sval)) return { kind: 'string', value: String(fields.sval.sval ?? '') };
  if (isFields(fields.boolval)) {
    return { kind: 'keyword', keyword: fields.boolval.boolval === true ? 'TRUE' : 'FALSE' };
  }
  const text = isFields(fields.fval) ? String(fields.fval.fval ?? '') : '';
  if (plainNumber.test(text) && text.length <= maxDigits) return { kind: 'number', text };
  const message = `Use a plain decimal of at most ${maxDigits} characters, with an exponent up to 99.`;
  throw new RefusedPart('number', offset, message);
}

function translateLogic(node: TaggedNode, translate: Translate): Expression {
  onlyFields(node, ['boolop', 'args'], translate.offset);
  const operands = listOf(node.fields.args).map(translate.part);
  const [first] = operands;
  const { boolop } = node.fields;
  if (boolop === 'NOT_EXPR' && first) return { kind: 'not', operand: first };
  if (boolop === 'AND_EXPR') return conjunction('AND', operands);
  if (boolop === 'OR_EXPR') return conjunction('OR', operands);
  throw new RefusedPart(String(boolop), translate.offset, 'is not supported.');
}

/** Operands joined the same way become operands of this one. */
export function conjunction(operator: 'AND' | 'OR', parts: readonly Expression[]): Expression {
  const operands = parts.flatMap((part) =>
    part.kind === 'logic' && part.operator === operator ? part.operands : [part],
  );
  return { kind: 'logic', operator, operands };
}

const tests: ReadonlyMap<unknown, string> = new Map([
  ['IS_NULL', 'IS NULL'],
  ['IS_NOT_NULL', 'IS NOT NULL'],
  ['IS_TRUE', 'IS TRUE'],
  ['IS_NOT_TRUE', 'IS NOT TRUE'],
  ['IS_FALSE', 'IS FALSE'],
  ['IS_NOT_FALSE', 'IS NOT FALSE'],
  ['IS_UNKNOWN', 'IS UNKNOWN'],
  ['IS_NOT_UNKNOWN', 'IS NOT UNKNOWN'],
]);

function translateTest(node: TaggedNode, field: string, translate: Translate): Expression {
  onlyFields(node, ['arg', field], translate.offset);
  const test = tests.get(node.fields[field]);
  if (!test) throw new RefusedPart('IS', translate.offset, 'is not supported.');
  return { kind: 'test', test, operand: translate.part(node.fields.arg) };
}

function translateCase(node: TaggedNode, translate: Translate): Expression {
  onlyFields(node, ['arg', 'args', 'defresult'], translate.offset);
  const { arg, args, defresult } = node.fields;
  const branches = listOf(args).map((branch) => {
    const when = untag(branch, translate.offset);
    onlyFields(when, ['expr', 'result'], translate.offset);
    return {
      when: translate.part(when.fields.expr),
      result: translate.part(when.fields.result),
    };
  });
  return {
    kind: 'case',
    operand: arg === undefined ? null : translate.part(arg),
    branches,
    otherwise: defresult === undefined ? null : translate.part(defresult),
  };
}

function translateCoalesce(node: TaggedNode, translate: Translate): Expression {
  onlyFields(node, ['args'], translate.offset);
  return translateForm('COALESCE', node.fields.args, translate);
}

function translateMinMax(node: TaggedNode, translate: Translate): Expression {
  onlyFields(node, ['op', 'args'], translate.offset);
  const name = String(node.fields.op).replace('IS_', '');
  return translateForm(name, node.fields.args, translate);
}

function translateSubscript(node: TaggedNode, translate: Translate): Expression {
  onlyFields(node, ['arg', 'indirection'], translate.offset);
  const indexes = listOf(node.fields.indirection).map((entry) => {
    const index = untag(entry, translate.offset);
    if (index.tag !== 'A_Indices') {
      const message = 'is not supported: fields of composite values cannot be read.';
      throw new RefusedPart('field access', translate.offset, message);
    }
    onlyFields(index, ['uidx'], translate.offset);
    return translate.part(index.fields.uidx);
  });
  return { kind: 'subscript', operand: translate.part(node.fields.arg), indexes };
}
