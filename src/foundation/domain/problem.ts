/** Codes of the API's error body. Those before `parse_error` are about a field. */
export const problemCodes = [
  'required',
  'null',
  'blank',
  'invalid_choice',
  'invalid_input',
  'does_not_exist',
  'incorrect_type',
  'max_length',
  'min_value',
  'max_value',
  'parse_error',
  'not_authenticated',
  'authentication_failed',
  'permission_denied',
  'not_found',
  'method_not_allowed',
  'unsupported_media_type',
  'payload_too_large',
  'conflict',
  'throttled',
  'error',
] as const;

export type ProblemCode = (typeof problemCodes)[number];

export interface Problem {
  readonly code: ProblemCode;
  readonly detail: string;
  /** The field, nested names joined by `__`; null if the problem is not about a field. */
  readonly attr: string | null;
}

/** A value that is not possible. */
export function invalid(attr: string | null, detail: string): Problem {
  return { code: 'invalid_input', detail, attr };
}

/** The problems of a table of rules: each row says if it is one, the field, and what is wrong. */
export function problemsIn(
  ...rows: readonly (readonly [boolean, attr: string | null, detail: string])[]
): Problem[] {
  return rows.flatMap(([isWrong, attr, detail]) => (isWrong ? [invalid(attr, detail)] : []));
}

/** Why a request is refused. Thrown, so that a transaction around it is rolled back. */
export class Refusal extends Error {
  readonly problems: readonly Problem[];

  constructor(...problems: readonly Problem[]) {
    super(problems.map(({ detail }) => detail).join('\n'));
    this.name = 'Refusal';
    this.problems = problems;
  }
}

/** There is too much of something now, and room for it after `retryAfterMs`. */
export class Throttled extends Refusal {
  readonly retryAfterMs: number;

  constructor(detail: string, retryAfterMs: number) {
    super({ code: 'throttled', detail, attr: null });
    this.name = 'Throttled';
    this.retryAfterMs = retryAfterMs;
  }
}

export function refuseIfAny(problems: readonly Problem[]): void {
  if (problems.length > 0) throw new Refusal(...problems);
}

/** The record does not exist, or was deleted before it could be locked. */
export const notFound = (): Refusal =>
  new Refusal({ code: 'not_found', detail: 'Not found.', attr: null });

/** @throws Refusal (404) if there is none */
export function orNotFound<T>(found: T | null | undefined): T {
  if (found === null || found === undefined) throw notFound();
  return found;
}

/** The results in the order of the actions. @throws Refusal with the problems of all actions that are refused */
export function withAllProblems<Results extends readonly unknown[]>(
  ...actions: { readonly [Index in keyof Results]: () => Results[Index] }
): Results {
  const problems: Problem[] = [];
  const results = actions.map((action) => {
    try {
      return action();
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      problems.push(...error.problems);
      return null;
    }
  });
  refuseIfAny(problems);
  return results as unknown as Results;
}
