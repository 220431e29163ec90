import { hash } from 'node:crypto';
import {
  type Json,
  jsonNull,
  JsonObject,
  kindOf,
  listOf,
  objectOf,
  plainOf,
  stringOf,
  textOf,
} from '../json.ts';
import { columnOf, propertiesOf } from '../properties.ts';
import {
  choiceField,
  defineTransform,
  eventColumnField,
  field,
  InvalidSetting,
  jsonField,
  readMembers,
  readNumber,
  requireNames,
  type Row,
} from '../transform.ts';

export const filterEvents = defineTransform({
  id: 2,
  name: 'Filter events',
  description: 'Keeps or drops events by their name.',
  protects: false,
  fields: [
    field('events', 'Events', { required: true, hint: 'Names, comma separated.' }),
    choiceField('mode', 'Action', ['drop', 'keep']),
    eventColumnField,
  ],
  compile(config) {
    const names = new Set(requireNames(config, 'events'));
    const { mode, event_column: column = 'event' } = config;
    return (row) => {
      const isNamed = names.has(stringOf(columnOf(row, column)) ?? '');
      return isNamed === (mode === 'keep') ? row : null;
    };
  },
});

export const sampleRows = defineTransform({
  id: 19,
  name: 'Sample rows',
  description: 'Keeps a share of the rows: always the same ones, by the value of a column.',
  protects: false,
  fields: [
    field('percent', 'Percent that are kept', { required: true, hint: 'From 0 to 100.' }),
    field('by', 'Column', { default: 'distinct_id' }),
    field('seed', 'Seed', { default: '', hint: 'Another seed gives another sample.' }),
  ],
  compile(config) {
    const percent = readNumber(config, 'percent', { from: 0, to: 100, whole: false });
    const { by = 'distinct_id', seed = '' } = config;
    return (row) => {
      const value = columnOf(row, by);
      if (percent === 100) return row;
      return value !== jsonNull && shareOf(seed, plainOf(value)) * 100 < percent ? row : null;
    };
  },
});

/** A place from 0 to 1 that the text always has. */
function shareOf(seed: string, text: string): number {
  const digest = hash('sha256', `${seed}\0${text}`, 'hex');
  return Number.parseInt(digest.slice(0, 8), 16) / 2 ** 32;
}

export const filterRows = defineTransform({
  id: 6,
  name: 'Filter rows',
  description: 'Keeps or drops rows by conditions on their columns and properties.',
  protects: false,
  fields: [
    jsonField(
      'condition',
      'Condition',
      '{"all": [{"column": "event", "is": "signup"}, {"property": "age", "gte": 18}]}',
    ),
    choiceField('mode', 'What becomes of the rows that meet it', ['keep', 'drop']),
  ],
  compile(config) {
    const condition = compileCondition(new JsonObject(readMembers(config, 'condition')));
    return (row) => (condition(row) === (config.mode !== 'drop') ? row : null);
  },
});

type Condition = (row: Row) => boolean;

const setting = 'condition';

function refuse(detail: string): never {
  throw new InvalidSetting(setting, detail);
}

const maxDepth = 10;

/** `all`, `any`, `not`, or one comparison of a column or property. @throws InvalidSetting */
function compileCondition(condition: JsonObject, depth = 1): Condition {
  if (depth > maxDepth) refuse(`Nest groups at most ${maxDepth} levels deep.`);
  const inner = (value: Json): Condition => {
    const object = objectOf(value);
    if (!object) refuse('Each condition must be an object: {"column": …, "is": …}.');
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
    refuse('Write a group as {"all": […]}, {"any": […]} or {"not": {…}}.');
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
    const names = Object.keys(operators).join(', ');
    refuse(
      `A comparison has one operator: ${names}, or its opposite: is_not, not_in, not_contains ….`,
    );
  }
  const takes: readonly string[] = operator.takes;
  if (!takes.includes(kindOf(wanted))) refuse(`${name} compares with a ${takes.join(', ')}.`);
  const holds = (row: Row) => read(row).some((value) => operator.holds(value, wanted));
  return positive === name ? holds : (row) => !holds(row);
}

/** A property that the row does not have counts as null. */
function compileOperand(
  property: Json | undefined,
  column: Json | undefined,
): (row: Row) => readonly Json[] {
  const names = { property: stringOf(property), column: stringOf(column) };
  const { property: name, column: holder } = names;
  if (
    (property === undefined) !== (name === null) ||
    (column === undefined) !== (holder === null)
  ) {
    refuse('column and property must be strings.');
  }
  if (name === null && holder === null) refuse('A comparison names a column, a property, or both.');
  if (name === null) return (row) => [columnOf(row, holder ?? '')];
  const properties = propertiesOf([name], holder ?? 'properties', setting);
  return (row) => {
    const values = properties.read(row);
    return values.length > 0 ? values : [jsonNull];
  };
}

/** Says whether a value of a row compares so to the value of a condition. */
type Operator = (value: Json, wanted: Json) => boolean;

const text =
  (compare: (text: string, wanted: string) => boolean): Operator =>
  (value, wanted) => {
    const [a, b] = [stringOf(value), stringOf(wanted)];
    return a !== null && b !== null && compare(a, b);
  };

const ordered =
  (compare: (sign: number) => boolean): Operator =>
  (value, wanted) => {
    const sign = orderOf(value, wanted);
    return sign !== null && compare(sign);
  };

const is: Operator = (value, wanted) => {
  if (kindOf(value) === 'number' && kindOf(wanted) === 'number')
    return orderOf(value, wanted) === 0;
  return kindOf(value) === kindOf(wanted) && plainOf(value) === plainOf(wanted);
};

const isOneOf: Operator = (value, wanted) =>
  (listOf(wanted) ?? []).some((element) => is(value, element));

const operators = {
  is: { holds: is, takes: ['string', 'number', 'boolean', 'null'] },
  in: { holds: isOneOf, takes: ['list'] },
  contains: { holds: text((a, b) => a.includes(b)), takes: ['string'] },
  starts_with: { holds: text((a, b) => a.startsWith(b)), takes: ['string'] },
  ends_with: { holds: text((a, b) => a.endsWith(b)), takes: ['string'] },
  lt: { holds: ordered((sign) => sign < 0), takes: ['string', 'number'] },
  lte: { holds: ordered((sign) => sign <= 0), takes: ['string', 'number'] },
  gt: { holds: ordered((sign) => sign > 0), takes: ['string', 'number'] },
  gte: { holds: ordered((sign) => sign >= 0), takes: ['string', 'number'] },
} as const satisfies Record<string, { holds: Operator; takes: readonly string[] }>;

/** Null for values of different kinds, and for kinds without an order. */
function orderOf(a: Json, b: Json): number | null {
  const [textA, textB] = [stringOf(a), stringOf(b)];
  if (textA !== null && textB !== null) return sign(textA, textB);
  if (kindOf(a) !== 'number' || kindOf(b) !== 'number') return null;
  const [sourceA, sourceB] = [textOf(a), textOf(b)];
  // Whole numbers of any length are exact.
  if (isWhole(sourceA) && isWhole(sourceB)) return sign(BigInt(sourceA), BigInt(sourceB));
  return sign(Number(sourceA), Number(sourceB));
}

const isWhole = (source: string) => /^-?\d+$/.test(source);

function sign<T extends string | number | bigint>(a: T, b: T): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
