import type { Outcome, Problem, ProblemCode } from '../use-cases/outcome.ts';

export type ApiErrorCode =
  | ProblemCode
  | 'parse_error'
  | 'not_authenticated'
  | 'authentication_failed'
  | 'permission_denied'
  | 'method_not_allowed'
  | 'unsupported_media_type'
  | 'payload_too_large'
  | 'error';

export interface ApiProblem extends Omit<Problem, 'code'> {
  readonly code: ApiErrorCode;
}

/** An answer that is an error, as the contract's table of statuses says it. */
export class ApiError extends Error {
  readonly status: number;
  readonly problems: readonly ApiProblem[];
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    status: number,
    problems: readonly ApiProblem[],
    headers: Readonly<Record<string, string>> = {},
  ) {
    super(problems[0]?.detail ?? `status ${status}`);
    this.name = 'ApiError';
    this.status = status;
    this.problems = problems;
    this.headers = headers;
  }
}

const problem = (code: ApiErrorCode, detail: string, attr: string | null = null): ApiProblem[] => [
  { code, detail, attr },
];
const challenge = { 'www-authenticate': 'Bearer' };

export const notAuthenticated = (): ApiError =>
  new ApiError(
    401,
    problem('not_authenticated', 'Authentication credentials were not provided.'),
    challenge,
  );

export const authenticationFailed = (): ApiError =>
  new ApiError(401, problem('authentication_failed', 'The API key is not valid.'), challenge);

export const permissionDenied = (detail: string): ApiError =>
  new ApiError(403, problem('permission_denied', detail));

export const notFound = (): ApiError => new ApiError(404, problem('not_found', 'Not found.'));

export const invalid = (...problems: readonly ApiProblem[]): ApiError =>
  new ApiError(400, problems);

export const malformed = (detail: string): ApiError =>
  new ApiError(400, problem('parse_error', detail));

const statusOfCode: Partial<Record<ApiErrorCode, number>> = {
  not_found: 404,
  conflict: 409,
  throttled: 429,
};

/** Nobody knows when a backfill ends; to ask more often than this tells nothing new. */
const headersOfCode: Partial<Record<ApiErrorCode, Record<string, string>>> = {
  throttled: { 'retry-after': '60' },
};

/**
 * The value of an outcome.
 *
 * @throws ApiError for a refusal
 */
export function accept<T>(outcome: Outcome<T>): T {
  if (outcome.ok) return outcome.value;
  const [first] = outcome.problems;
  throw new ApiError(
    (first && statusOfCode[first.code]) ?? 400,
    outcome.problems,
    first && headersOfCode[first.code],
  );
}
