import { type Problem, Refusal } from '../../../foundation/domain/problem.ts';
import type { Request } from '../api.ts';
import { refusalOf } from '../hooks/errors.ts';

type Json = Readonly<Record<string, unknown>>;

/** Fields whose rules need the interval. */
const followInterval = ['offset_day', 'offset_hour', 'freshness_minutes', 'deadline_at'];

/**
 * What is wrong with a body that its schema refuses, with all that the rules find in the rest of it: a form or
 * a file is corrected in one go.
 *
 * @param examine the problems of a body that has passed the schema, but for its destination's config
 * @param standIns for required fields that are missing or have a problem
 */
export function everyProblem(
  request: Request,
  standIns: Json,
  examine: (body: Json) => readonly Problem[],
): Refusal {
  const refusal = refusalOf(request.validationError, request);
  const { problems } = refusal;
  const { body } = request;
  if (!isRecord(body) || problems.some(({ attr }) => attr === null)) return refusal;
  const keepsDestination = hasOwnSchema(body.destination, problems);
  const faulty = new Set(problems.map(({ attr }) => fieldOf(attr)));
  if (keepsDestination) faulty.delete('destination');
  // A query is of its model.
  if (faulty.has('model')) faulty.add('dsl_query');
  if (faulty.has('interval')) for (const name of followInterval) faulty.add(name);
  const sound = Object.entries(body).filter(([name]) => !faulty.has(name));
  const known = new Set(problems.map(({ attr }) => attr));
  const others = examine({ ...standIns, ...Object.fromEntries(sound) }).filter(
    ({ attr }) => !known.has(attr) && !faulty.has(fieldOf(attr)),
  );
  return new Refusal(...problems, ...others);
}

/** Whether only the config of a destination has problems: the rules check it by themselves. */
function hasOwnSchema(destination: unknown, problems: readonly Problem[]): boolean {
  const ofDestination = problems.filter(({ attr }) => fieldOf(attr) === 'destination');
  return (
    isRecord(destination) &&
    isRecord(destination.config) &&
    ofDestination.every(({ attr }) => attr?.startsWith('destination__config__'))
  );
}

const fieldOf = (attr: string | null): string => attr?.split('__', 1)[0] ?? '';

function isRecord(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
