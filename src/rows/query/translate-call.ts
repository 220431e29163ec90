import { castTypes, forms } from './allow-list.ts';
import { functions } from './functions.ts';
import type { CastType, Expression } from './expression.ts';
import { isTime } from './moving-time.ts';
import { isFields, listOf, namesIn, onlyFields, type TaggedNode, untag } from './nodes.ts';
import { RefusedPart } from './problem.ts';
import type { Translate } from './translate-column.ts';

const aggregates: ReadonlySet<string> = new Set(
  (
    'count sum avg min max array_agg string_agg bool_and bool_or every any_value stddev variance ' +
    'json_agg jsonb_agg json_object_agg jsonb_object_agg percentile_cont percentile_disc mode'
  ).split(' '),
);

export function translateCall(node: TaggedNode, translate: Translate): Expression {
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

export function translateCast(node: TaggedNode, translate: Translate): Expression {
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

export function translateForm(name: string, args: unknown, translate: Translate): Expression {
  if (!forms.has(name)) {
    throw new RefusedPart(name, translate.offset, 'is not supported.');
  }
  return { kind: 'form', name, arguments: listOf(args).map(translate.part) };
}

export function translateArray(node: TaggedNode, translate: Translate): Expression {
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
  throw new RefusedPart(
    `type ${name}`,
    offset,
    `Use whole numbers in the parentheses after ${name}.`,
  );
}
