import type { Model } from '../../foundation/domain/model.ts';
import { type Problem, type ProblemCode, Refusal } from '../../foundation/domain/problem.ts';
import type { PropertyFilter } from '../../foundation/domain/property-filter.ts';
import type { Expression } from './expression.ts';
import { printExpression, queryDialect, quoteNameIfNeeded } from './print.ts';
import { normalizedText, type ParsedQuery, parseQuery } from './parse-query.ts';
import { conjunction } from './translate.ts';

const columns: Readonly<Record<string, string>> = {
  event: 'properties',
  person: 'person_properties',
};

interface Operand {
  readonly text: string;
  readonly json: string;
  readonly typeOf: string;
}

type Translate = (operand: Operand, values: readonly string[]) => string;

const quoted = (text: string): string => `'${text.replaceAll("'", "''")}'`;

const containing = (text: string): string => quoted(`%${text.replace(/[\\%_]/g, '\\$&')}%`);

const isOne: Translate = ({ text }, values) => `${text} IN (${values.map(quoted).join(', ')})`;
const isNone: Translate = ({ text }, values) =>
  `(${text} IS NULL OR ${text} NOT IN (${values.map(quoted).join(', ')}))`;

/** Only JSON numbers: PostgreSQL would fail at a text that is not a number. */
const compared =
  (sign: string): Translate =>
  ({ text, json, typeOf }, [value = '']) =>
    `CASE WHEN ${typeOf}(${json}) = 'number' THEN CAST(${text} AS numeric) ${sign} ${value} ELSE FALSE END`;

interface Operator {
  readonly takes: 'values' | 'list' | 'number' | 'nothing';
  readonly translate: Translate;
}

/** A property that is missing is not equal to any value and contains none: `is_not`, `not_in` and `not_icontains` keep its row. */
const operators: Readonly<Record<string, Operator>> = {
  exact: { takes: 'values', translate: isOne },
  is_not: { takes: 'values', translate: isNone },
  in: { takes: 'list', translate: isOne },
  not_in: { takes: 'list', translate: isNone },
  icontains: {
    takes: 'values',
    translate: ({ text }, values) =>
      `(${values.map((value) => `${text} ILIKE ${containing(value)}`).join(' OR ')})`,
  },
  not_icontains: {
    takes: 'values',
    translate: ({ text }, values) =>
      `(${text} IS NULL OR (${values.map((value) => `${text} NOT ILIKE ${containing(value)}`).join(' AND ')}))`,
  },
  is_set: { takes: 'nothing', translate: ({ text }) => `${text} IS NOT NULL` },
  is_not_set: { takes: 'nothing', translate: ({ text }) => `${text} IS NULL` },
  gt: { takes: 'number', translate: compared('>') },
  gte: { takes: 'number', translate: compared('>=') },
  lt: { takes: 'number', translate: compared('<') },
  lte: { takes: 'number', translate: compared('<=') },
};

const refuse = (field: string, code: ProblemCode, detail: string): never => {
  throw new Refusal({ code, detail, attr: field });
};

/** In SQL. @throws Refusal whose attr is a field of the filter */
function conditionOf(filter: PropertyFilter, model: Model): string {
  const { key, operator: name = 'exact', type = 'event' } = filter;
  const column = model.columns.find((candidate) => candidate.name === columns[type]);
  if (!column?.json) {
    const kinds = Object.keys(columns).filter((kind) =>
      model.columns.some((candidate) => candidate.name === columns[kind] && candidate.json),
    );
    const choices = kinds.length === 0 ? 'none' : kinds.join(', ');
    const detail = `Filters of this type cannot be translated exactly. Types of the model ${model.name}: ${choices}. Write the condition into the WHERE of dsl_query.`;
    return refuse('type', 'invalid_choice', detail);
  }
  const operator = Object.hasOwn(operators, name) ? operators[name] : undefined;
  if (!operator) {
    const choices = Object.keys(operators).join(', ');
    const detail = `This operator cannot be translated exactly. Use one of ${choices}, or write the condition into the WHERE of dsl_query.`;
    return refuse('operator', 'invalid_choice', detail);
  }
  const operand: Operand = {
    text: `${column.name} ->> ${quoted(key)}`,
    json: `${column.name} -> ${quoted(key)}`,
    typeOf: column.sourceType === 'json' ? 'json_typeof' : 'jsonb_typeof',
  };
  return operator.translate(inParentheses(operand), valuesOf(filter, operator.takes));
}

const inParentheses = ({ text, json, typeOf }: Operand): Operand => ({
  text: `(${text})`,
  json: `(${json})`,
  typeOf,
});

function valuesOf({ value }: PropertyFilter, takes: Operator['takes']): readonly string[] {
  if (takes === 'nothing') return [];
  const given = [value ?? null].flat();
  if (takes === 'list' && !Array.isArray(value)) {
    return refuse('value', 'incorrect_type', 'Expected a list of values.');
  }
  if (given.length === 0) return refuse('value', 'invalid_input', 'Must have at least 1 value.');
  if (given.some((one) => one === null)) {
    const detail = 'A value may not be null. Use the operator is_set or is_not_set.';
    return refuse('value', 'null', detail);
  }
  const texts = given.map(String);
  if (takes !== 'number') return texts;
  const [only = '', second] = texts;
  const isNumber = second === undefined && /^-?\d{1,100}(\.\d{1,100})?$/.test(only);
  return isNumber ? [only] : refuse('value', 'incorrect_type', 'Expected one number.');
}

type Changed =
  | { readonly ok: true; readonly dslQuery: string | null }
  | { readonly ok: false; readonly problems: readonly Problem[] };

/**
 * Without those of earlier filters; one that it has already is not added again. @param dslQuery null: every row of the
 * model @returns the same text if its conditions stay
 */
export function applyFilters(
  dslQuery: string | null,
  before: readonly PropertyFilter[],
  after: readonly PropertyFilter[],
  model: Model,
): Changed {
  const parsed = parseQuery(dslQuery ?? everyRow(model), model);
  // The rules report what is wrong with the query itself.
  if (!('ok' in parsed)) return { ok: true, dslQuery };
  const problems: Problem[] = [];
  const conditions = after.flatMap((filter, index) => {
    const term = termOf(filter, model);
    if (!Array.isArray(term)) return [term];
    problems.push(...term.map((one) => ({ ...one, attr: `filters__${index}__${one.attr}` })));
    return [];
  });
  if (problems.length > 0) return { ok: false, problems };
  const former = before.map((filter) => termOf(filter, model));
  const formerTexts = new Set(former.flatMap((term) => ('text' in term ? [term.text] : [])));
  const wantedTexts = new Set(conditions.map(({ text }) => text));
  const terms = termsOf(parsed.ok.where);
  const others = terms.filter(({ text }) => wantedTexts.has(text) || !formerTexts.has(text));
  const texts = new Set(others.map(({ text }) => text));
  const added = conditions.filter(({ text }) => !texts.has(text));
  if (added.length === 0 && others.length === terms.length) return { ok: true, dslQuery };
  const where = [...others, ...added].map(({ expression }) => expression);
  if (where.length === 0 && parsed.ok.star) return { ok: true, dslQuery: null };
  const query: ParsedQuery = { ...parsed.ok, where: joined(where) };
  return { ok: true, dslQuery: normalizedText(query, model) };
}

const everyRow = (model: Model): string => `SELECT * FROM ${quoteNameIfNeeded(model.name)}`;

function joined(terms: readonly Expression[]): Expression | null {
  const [first, ...others] = terms;
  return others.length === 0 ? (first ?? null) : conjunction('AND', terms);
}

function termOf(filter: PropertyFilter, model: Model) {
  try {
    const condition = conditionOf(filter, model);
    const parsed = parseQuery(`${everyRow(model)} WHERE ${condition}`, model);
    if (!('ok' in parsed)) return parsed.problems.map((one) => ({ ...one, attr: 'value' }));
    const [term] = termsOf(parsed.ok.where);
    if (!term) throw new Error('a condition has no terms');
    return term;
  } catch (error) {
    if (error instanceof Refusal) return [...error.problems];
    throw error;
  }
}

function termsOf(where: ParsedQuery['where']) {
  if (where === null) return [];
  const isAnd = where.kind === 'logic' && where.operator === 'AND';
  return (isAnd ? where.operands : [where]).map((expression) => ({
    expression,
    text: printExpression(expression, queryDialect),
  }));
}
