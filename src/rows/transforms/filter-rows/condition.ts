import {
  type Json,
  type JsonObject,
  jsonNull,
  kindOf,
  listOf,
  objectOf,
  stringOf,
} from '../json.ts';
import { columnOf, propertiesOf } from '../properties.ts';
import { InvalidSetting, type Row } from '../transform.ts';
import { operators } from './operators.ts';

export type Condition = (row: Row) => boolean;

const setting = 'condition';

const maxDepth = 10;

/**
 * A group (`all`, `any`, `not`), or one comparison of a column or property.
 *
 * @throws InvalidSetting
 */
export function compileCondition(condition: JsonObject, depth = 1): Condition {
  if (depth > maxDepth)
    throw new InvalidSetting(setting, `Nest groups at most ${maxDepth} levels deep.`);
  const inner = (value: Json): Condition => {
    const object = objectOf(value);
    if (!object)
      throw new InvalidSetting(
        setting,
        'Each condition must be an object: {"column": …, "is": …}.',
      );
    return compileCondition(object, depth + 1);
  };
  const [[name, value] = ['', jsonNull]] = condition.members;
  if (condition.members.size !== 1) return compileComparison(condition);
  if (name === 'not') {
    const denied = inner(value);
    return (row) => !denied(row);
  }
  const parts = listOf(value);
  if ((name !== 'all' && name !== 'any') || !parts || parts.length === 0) {
    throw new InvalidSetting(
      setting,
      'Write a group as {"all": […]}, {"any": […]} or {"not": {…}}.',
    );
  }
  const conditions = parts.map(inner);
  return name === 'all'
    ? (row) => conditions.every((holds) => holds(row))
    : (row) => conditions.some((holds) => holds(row));
}

function compileComparison(condition: JsonObject): Condition {
  const { property, column, ...rest } = Object.fromEntries(condition.members);
  const read = compileOperand(property, column);
  const [[name, wanted] = ['', jsonNull], ...others] = Object.entries(rest);
  // `is_not` and the like: true of every row that the comparison is false of.
  const positive = name === 'is_not' ? 'is' : name.replace(/^not_/, '');
  const operator = Object.hasOwn(operators, positive)
    ? operators[positive as keyof typeof operators]
    : null;
  if (!operator || others.length > 0) {
    const known = Object.keys(operators).join(', ');
    throw new InvalidSetting(
      setting,
      `A comparison has one operator: ${known}, or its opposite: is_not, not_in, not_contains ….`,
    );
  }
  const takes: readonly string[] = operator.takes;
  if (!takes.includes(kindOf(wanted))) {
    throw new InvalidSetting(setting, `${name} compares with a ${takes.join(', ')}.`);
  }
  const holds = (row: Row) => read(row).some((value) => operator.holds(value, wanted));
  return positive === name ? holds : (row) => !holds(row);
}

/** What a comparison reads; a property that the row does not have counts as null. */
function compileOperand(
  property: Json | undefined,
  column: Json | undefined,
): (row: Row) => readonly Json[] {
  const names = { property: stringOf(property), column: stringOf(column) };
  const { property: name, column: place } = names;
  if ((property === undefined) !== (name === null) || (column === undefined) !== (place === null)) {
    throw new InvalidSetting(setting, 'column and property must be strings.');
  }
  if (name === null && place === null) {
    throw new InvalidSetting(setting, 'A comparison names a column, a property, or both.');
  }
  if (name === null) return (row) => [columnOf(row, place ?? '')];
  const properties = propertiesOf([name], place ?? 'properties', setting);
  return (row) => {
    const values = properties.read(row);
    return values.length > 0 ? values : [jsonNull];
  };
}
