import {
  binaryOperators,
  castTypes,
  comparisons,
  forms,
  likeOperators,
  unaryOperators,
} from './allow-list.ts';
import { Bounds } from './bounds.ts';
import { binary, type CastType, type Expression } from './expression.ts';
import { functions } from './functions.ts';
import { isTime, refuseMovingTime } from './moving-time.ts';
import {
  isFields,
  listOf,
  namesIn,
  offsetOf,
  onlyFields,
  type TaggedNode,
  untag,
  wordsFor,
} from './nodes.ts';
import { RefusedPart } from './problem.ts';
import { type Scope, type Translate, translateColumn } from './translate-column.ts';

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
    return { when: translate.part(when.fields.expr), result: translate.part(when.fields.result) };
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

const betweenKeywords: ReadonlyMap<unknown, string> = new Map([
  ['AEXPR_BETWEEN', 'BETWEEN'],
  ['AEXPR_NOT_BETWEEN', 'NOT BETWEEN'],
  ['AEXPR_BETWEEN_SYM', 'BETWEEN SYMMETRIC'],
  ['AEXPR_NOT_BETWEEN_SYM', 'NOT BETWEEN SYMMETRIC'],
]);

const fieldNames = ['kind', 'name', 'lexpr', 'rexpr', 'rexpr_list_start', 'rexpr_list_end'];

/** As PostgreSQL parses them (A_Expr): IN, BETWEEN and LIKE too. */
function translateOperator(node: TaggedNode, translate: Translate): Expression {
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

const aggregates: ReadonlySet<string> = new Set(
  (
    'count sum avg min max array_agg string_agg bool_and bool_or every any_value stddev variance ' +
    'json_agg jsonb_agg json_object_agg jsonb_object_agg percentile_cont percentile_disc mode'
  ).split(' '),
);

function translateCall(node: TaggedNode, translate: Translate): Expression {
  const { offset } = translate;
  const name = functionName(node.fields.funcname, offset);
  const allowed = functions.get(name);
  if (!allowed) {
    if (!aggregates.has(name))
      throw new RefusedPart(`function ${name}`, offset, 'is not supported.');
    const message = 'is not supported: export queries cannot aggregate.';
    throw new RefusedPart(`aggregate ${name}`, offset, message);
  }
  onlyFields(node, ['funcname', 'args', 'funcformat'], offset);
  const args = listOf(node.fields.args).map(translate.part);
  const [min, max] = allowed.arguments;
  if (args.length < min || args.length > max) {
    const expected = min === max ? `${min}` : `${min} to ${max}`;
    const message = `${name} takes ${expected} arguments, not ${args.length}.`;
    throw new RefusedPart(`function ${name}`, offset, message);
  }
  const wrong = allowed.refuse?.(args);
  if (wrong) throw new RefusedPart(`function ${name}`, offset, `${name} ${wrong}.`);
  return { kind: 'call', name, arguments: args };
}

function translateCast(node: TaggedNode, translate: Translate): Expression {
  onlyFields(node, ['arg', 'typeName'], translate.offset);
  const type = readType(node.fields.typeName, translate.offset);
  const operand = translate.part(node.fields.arg);
  const isFixed = isLiteral(operand) || isTime(operand, translate.scope);
  if (isFixed || castTypes.get(type.name)?.temporal !== true)
    return { kind: 'cast', operand, type };
  if (!type.array) return { kind: 'cast', operand, type, readsTime: true };
  const message = 'is not supported for a value of a row. Cast its elements one by one.';
  throw new RefusedPart(`type ${type.name}[]`, translate.offset, message);
}

/** Is it the same in each row? */
function isLiteral(expression: Expression): boolean {
  const { kind } = expression;
  if (kind === 'array') return expression.items.every(isLiteral);
  return kind === 'string' || kind === 'number' || kind === 'keyword';
}

function translateForm(name: string, args: unknown, translate: Translate): Expression {
  if (!forms.has(name)) throw new RefusedPart(name, translate.offset, 'is not supported.');
  return { kind: 'form', name, arguments: listOf(args).map(translate.part) };
}

function translateArray(node: TaggedNode, translate: Translate): Expression {
  onlyFields(node, ['elements', 'list_start', 'list_end'], translate.offset);
  return { kind: 'array', items: listOf(node.fields.elements).map(translate.part) };
}

function functionName(list: unknown, offset: number): string {
  const names = namesIn(list);
  // The parser adds `pg_catalog` to functions with a syntax of their own (EXTRACT, TRIM).
  const [name, ...more] = names[0] === 'pg_catalog' ? names.slice(1) : names;
  if (typeof name === 'string' && more.length === 0) return name;
  const construct = `function ${names.join('.')}`;
  throw new RefusedPart(construct, offset, 'Write the function without a schema.');
}

function readType(typeName: unknown, offset: number): CastType {
  if (!isFields(typeName)) throw new RefusedPart('cast', offset, 'Name a type.');
  const place = typeof typeName.location === 'number' ? typeName.location : offset;
  onlyFields(
    { tag: 'TypeName', fields: typeName },
    ['names', 'typmods', 'typemod', 'arrayBounds'],
    place,
  );
  const names = namesIn(typeName.names);
  const [name, ...more] = names[0] === 'pg_catalog' ? names.slice(1) : names;
  const allowed = typeof name === 'string' && more.length === 0 ? castTypes.get(name) : undefined;
  const bounds = listOf(typeName.arrayBounds);
  if (!allowed || typeof name !== 'string' || bounds.length > 1) {
    const written = [name, ...more].join('.');
    const construct = `type ${written}${'[]'.repeat(bounds.length)}`;
    throw new RefusedPart(construct, place, 'is not supported.');
  }
  const modifiers = listOf(typeName.typmods).map((node) => readModifier(node, name, place));
  if (modifiers.some((value, index) => value < 0 || value > (allowed.modifiers[index] ?? -1))) {
    const message =
      name === 'interval'
        ? `Write the unit of an interval inside its quotes, without fields and precision: interval '1 day'.`
        : `The type ${name} does not take (${modifiers.join(', ')}).`;
    throw new RefusedPart(`type ${name}`, place, message);
  }
  return { name, modifiers, array: bounds.length === 1 };
}

function readModifier(node: unknown, name: string, offset: number): number {
  const { tag, fields } = untag(node, offset);
  const value = tag === 'A_Const' && isFields(fields.ival) ? (fields.ival.ival ?? 0) : null;
  if (typeof value === 'number') return value;
  const message = `Use whole numbers in the parentheses after ${name}.`;
  throw new RefusedPart(`type ${name}`, offset, message);
}
