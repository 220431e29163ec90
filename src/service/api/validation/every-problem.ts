import { type Problem, Refusal, Throttled } from '../../../foundation/domain/problem.ts';
import type { Reply, Request } from '../api.ts';
import { refusalOf } from '../errors.ts';

type Json = Readonly<Record<string, unknown>>;

export interface BodyRules {
  /** For required fields that are missing or have a problem. */
  readonly standIns?: Json;
  /** Problems that the schema cannot see. */
  faults?(body: Json): readonly Problem[];
  /** For fields with a problem: values with which the rules over the other fields, and over the rest of this one, can be checked. */
  repair?(body: Json, faulty: ReadonlySet<string>): Json;
  /** Fields that cannot be checked without another one, by that one. */
  readonly follow?: Readonly<Record<string, readonly string[]>>;
  /** The problems of a body that has passed the schema, but for the config of its destination; or it is refused. */
  examine(
    request: Request,
    body: Json,
    reply: Reply,
  ): readonly Problem[] | Promise<readonly Problem[]>;
}

/** A body that its schema refuses is refused with all that the rules find in the rest of it. */
export function refusesAll(rules: BodyRules) {
  return {
    attachValidation: true,
    preHandler: async (request: Request, reply: Reply): Promise<void> => {
      const { body, validationError } = request;
      const faults = isRecord(body) ? (rules.faults?.(body) ?? []) : [];
      if (!validationError && faults.length === 0) return;
      const ofSchema = validationError ? refusalOf(validationError, request) : new Refusal();
      throw await everyProblem(request, reply, rules, merged(ofSchema, faults));
    },
  };
}

async function everyProblem(
  request: Request,
  reply: Reply,
  rules: BodyRules,
  refusal: Refusal,
): Promise<Refusal> {
  const { problems } = refusal;
  const { body } = request;
  if (!isRecord(body) || problems.some(({ attr }) => attr === null)) return refusal;
  const keepsDestination = hasOwnSchema(body.destination, problems);
  const faulty = new Set(problems.map(({ attr }) => fieldOf(attr)));
  if (keepsDestination) faulty.delete('destination');
  for (const [field, followers] of Object.entries(rules.follow ?? {})) {
    if (faulty.has(field)) for (const name of followers) faulty.add(name);
  }
  const sound = Object.entries(body).filter(([name]) => !faulty.has(name));
  const repaired = rules.repair?.(body, faulty) ?? {};
  const whole = { ...rules.standIns, ...Object.fromEntries(sound), ...repaired };
  const problemList = await problemsOf(async () => rules.examine(request, whole, reply));
  return merged(
    refusal,
    problemList.filter(({ attr }) => fieldOf(attr) in repaired || !faulty.has(fieldOf(attr))),
  );
}

/**
 * If a source, a store or our own tables refuse a request, so do the rules, in the same answer.
 * @param examine the problems that the rules find
 */
export async function withRules<T>(
  check: Promise<T>,
  examine: () => readonly Problem[],
): Promise<T> {
  try {
    return await check;
  } catch (error) {
    // An error of another kind is about the service, not about the body.
    if (!(error instanceof Refusal) || error instanceof Throttled) throw error;
    throw merged(new Refusal(...examine()), error.problems);
  }
}

async function problemsOf(examine: () => Promise<readonly Problem[]>): Promise<readonly Problem[]> {
  try {
    return await examine();
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return error.problems;
  }
}

function merged({ problems }: Refusal, others: readonly Problem[]): Refusal {
  const named = new Set(problems.map(({ attr }) => attr));
  return new Refusal(...problems, ...others.filter(({ attr }) => !named.has(attr)));
}

/** Says whether only the config of a destination has problems: the rules check it by themselves. */
function hasOwnSchema(destination: unknown, problems: readonly Problem[]): boolean {
  const ofDestination = problems.filter(({ attr }) => fieldOf(attr) === 'destination');
  return (
    isRecord(destination) &&
    isRecord(destination.config) &&
    ofDestination.every(({ attr }) => attr?.startsWith('destination__config__'))
  );
}

/** The results of actions, once all have ended. @throws Refusal with the problems of all that are refused */
export async function settled<Results extends readonly unknown[]>(
  actions: { readonly [Index in keyof Results]: Promise<Results[Index]> },
): Promise<Results> {
  const ended = await Promise.allSettled(actions as readonly Promise<unknown>[]);
  const errors = ended.flatMap((one) => (one.status === 'rejected' ? [one.reason as unknown] : []));
  const refusals = errors.filter((error) => error instanceof Refusal);
  const other = errors.find((error) => !(error instanceof Refusal) || error instanceof Throttled);
  if (other !== undefined) throw other;
  const [first, ...others] = refusals;
  if (first)
    throw merged(
      first,
      others.flatMap(({ problems }) => problems),
    );
  return ended.map((one) => (one.status === 'fulfilled' ? one.value : null)) as never;
}

const fieldOf = (attr: string | null): string => attr?.split('__', 1)[0] ?? '';

export function isRecord(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
