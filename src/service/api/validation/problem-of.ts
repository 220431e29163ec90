import type { ErrorObject } from 'ajv';
import { nearestName } from '../../../foundation/domain/nearest-name.ts';
import type { Problem, ProblemCode } from '../../../foundation/domain/problem.ts';
import { remedyOfStruck } from '../../../foundation/domain/struck.ts';

export const mostProblems = 100;

/** Turns schema errors into problems with the contract's codes, one per field. */
export function problemsOf(errors: readonly ErrorObject[], data: unknown): Problem[] {
  const byField = new Map<string, Problem>();
  for (const error of withoutBranches(errors)) {
    const problem = problemOf(error, data);
    const field = problem.attr ?? '';
    if (!byField.has(field)) byField.set(field, problem);
    if (byField.size >= mostProblems) break;
  }
  return [...byField.values()];
}

/** Collects the problems of a query: a problem with an item of a list names the parameter. */
export function queryProblemsOf(errors: readonly ErrorObject[], query: unknown): Problem[] {
  const named = errors.map((error) => ({
    ...error,
    instancePath: error.instancePath.split('/', 2).join('/'),
  }));
  return problemsOf(named, query);
}

/** Of a union that failed, its own error stays. If null is one of two branches, the other says what is wrong. */
function withoutBranches(errors: readonly ErrorObject[]): ErrorObject[] {
  const pathsOf = (chosen: readonly ErrorObject[]) =>
    new Set(chosen.map(({ instancePath }) => instancePath));
  const unions = pathsOf(errors.filter(({ keyword }) => keyword === 'anyOf'));
  const nullable = pathsOf(errors.filter(isNullBranch));
  return errors.filter((error) => {
    if (!unions.has(error.instancePath)) return true;
    const isUnion = error.keyword === 'anyOf';
    return nullable.has(error.instancePath) ? !isUnion && !isNullBranch(error) : isUnion;
  });
}

function isNullBranch({ keyword, params, schemaPath }: ErrorObject): boolean {
  return keyword === 'type' && params.type === 'null' && /\/anyOf\/1\/type$/.test(schemaPath);
}

function problemOf(error: ErrorObject, data: unknown): Problem {
  const { keyword, params, instancePath } = error;
  const tokens = instancePath.split('/').slice(1);
  const path = tokens.map((token) => token.replaceAll('~1', '/').replaceAll('~0', '~'));
  const value = valueAt(data, path);
  if (keyword === 'required') {
    return problem('required', 'This field is required.', [...path, params.missingProperty]);
  }
  if (keyword === 'additionalProperties') {
    const { additionalProperty: name } = params;
    return problem('invalid_input', unknownField(error, name), [...path, name]);
  }
  if (keyword === 'discriminator') return discriminatorProblem(error, path);
  if (value === null) return problem('null', 'This field may not be null.', path);
  const [code, detail] = describe(error, value);
  return problem(code, detail, path);
}

function unknownField({ parentSchema }: ErrorObject, name: string): string {
  const struck = remedyOfStruck(name);
  if (struck !== undefined) return struck;
  const propertyNames = Object.keys(parentSchema?.properties ?? {});
  const nearest = nearestName(name, propertyNames, 3);
  return `This field is unknown. ${nearest === null ? 'Remove it.' : `Did you mean ${nearest}? Otherwise remove it.`}`;
}

function describe(error: ErrorObject, value: unknown): [ProblemCode, string] {
  const { keyword, params } = error;
  const range = rangeOf(error);
  switch (keyword) {
    case 'type':
      return ['incorrect_type', `Expected ${typeName(params.type)}${range && ` ${range}`}.`];
    case 'enum':
      return ['invalid_choice', `Must be one of ${params.allowedValues.join(', ')}.`];
    case 'x-names-model':
      return [params.code, params.detail];
    case 'const':
      return ['invalid_choice', `Must be ${JSON.stringify(params.allowedValue)}.`];
    case 'anyOf':
    case 'oneOf':
      return ['invalid_choice', 'This value is not allowed.'];
    case 'minLength':
    case 'pattern':
      return typeof value === 'string' && value.trim() === ''
        ? ['blank', 'This field may not be blank.']
        : ['invalid_input', formOf(error)];
    case 'maxLength':
      return ['max_length', `Must have at most ${params.limit} characters.`];
    case 'maxItems':
    case 'maxProperties':
      return ['max_length', `Must have at most ${params.limit} items.`];
    case 'minItems':
    case 'minProperties':
      return ['invalid_input', `Must have at least ${params.limit}.`];
    case 'minimum':
      return ['min_value', `Must be ${range || `at least ${params.limit}`}.`];
    case 'maximum':
      return ['max_value', `Must be ${range || `at most ${params.limit}`}.`];
    case 'format':
      return ['invalid_input', `Must be ${formatName(params.format)}.`];
    default:
      return ['invalid_input', 'This value is not valid.'];
  }
}

/** `from 0 to 10`, if the schema has both limits; else empty. */
function rangeOf({ parentSchema }: ErrorObject): string {
  const { minimum, maximum } = parentSchema ?? {};
  return minimum === undefined || maximum === undefined ? '' : `from ${minimum} to ${maximum}`;
}

function discriminatorProblem(error: ErrorObject, path: readonly string[]): Problem {
  const { params, parentSchema } = error;
  const branches = (parentSchema?.oneOf ?? []) as readonly { readonly $ref?: string }[];
  const types = branches.map(({ $ref = '' }) => $ref.replace(/#$/, '')).join(', ');
  const { tag, tagValue } = params;
  const attr = [...path, tag];
  if (tagValue === undefined) return problem('required', 'This field is required.', attr);
  if (tagValue === null) return problem('null', 'This field may not be null.', attr);
  return typeof tagValue === 'string'
    ? problem('invalid_choice', `Must be one of ${types}.`, attr)
    : problem('incorrect_type', 'Expected a string.', attr);
}

function problem(code: ProblemCode, detail: string, path: readonly unknown[]): Problem {
  return { code, detail, attr: path.length === 0 ? null : path.join('__') };
}

function typeName(type: unknown): string {
  const names = (Array.isArray(type) ? type : String(type).split(',')).filter((n) => n !== 'null');
  return names.map((name) => (/^[aeiou]/.test(name) ? `an ${name}` : `a ${name}`)).join(' or ');
}

/** The form that each pattern of our schemas requires. */
const forms: ReadonlyMap<unknown, string> = new Map([
  ['^[A-Za-z0-9_-]+$', 'Use letters, digits, hyphens and underscores.'],
  ['^[0-9]{12}$', 'Must be the 12 digits of an AWS account, such as 123456789012.'],
  ['^[A-Z][A-Z0-9_]*$', 'Use the name of a class in capital letters, such as STANDARD_IA.'],
  ['^[^=]{1,128}=[^=]{0,256}$', 'Must be key=value, such as team=data, with one equals sign.'],
  ['^([01][0-9]|2[0-3]):[0-5][0-9]$', 'Must be a time of day from 00:00 to 23:59, such as 08:30.'],
  ['^https?://', 'Must begin with http:// or https://.'],
  [
    '^[A-Za-z][A-Za-z0-9_]{0,99}$',
    'Begin with a letter, then use letters, digits and underscores. Use at most 100 characters.',
  ],
  [
    '^arn:[a-z0-9-]+:iam::[0-9]{12}:role/[\\w+=,.@/-]+$',
    'Must be the ARN of a role, such as arn:aws:iam::123456789012:role/sluice.',
  ],
]);

function formOf({ params: { pattern, limit }, parentSchema }: ErrorObject): string {
  if (pattern === undefined) return `Must have at least ${limit} characters.`;
  const example: unknown = parentSchema?.examples?.[0];
  const general = `This value is not valid.${example === undefined ? '' : ` Use one such as ${example}.`}`;
  return forms.get(pattern) ?? general;
}

function formatName(format: string): string {
  if (format === 'date-time') return 'a time in ISO 8601';
  if (format === 'time-or-span') return 'a time in ISO 8601 or a span such as -2h or -7d';
  return format === 'uuid' ? 'a UUID' : `a ${format}`;
}

function valueAt(data: unknown, path: readonly string[]): unknown {
  let value = data;
  for (const name of path) {
    value = typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;
  }
  return value;
}
