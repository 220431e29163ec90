import {
  type Problem,
  type ProblemCode,
  Refusal,
  Throttled,
} from '../../foundation/domain/problem.ts';

/** A refusal with a status or headers that do not follow from its code. */
export class ApiError extends Refusal {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    status: number,
    problem: Problem | readonly Problem[],
    headers: Readonly<Record<string, string>> = {},
  ) {
    super(...[problem].flat());
    this.name = 'ApiError';
    this.status = status;
    this.headers = headers;
  }
}

const whole = (code: ProblemCode, detail: string): Problem => ({ code, detail, attr: null });
const challenge = { 'www-authenticate': 'Bearer' };

export const notAuthenticated = (): ApiError =>
  new ApiError(
    401,
    whole('not_authenticated', 'The API key is missing. Send it as Authorization: Bearer <key>.'),
    challenge,
  );

export const authenticationFailed = (): ApiError =>
  new ApiError(401, whole('authentication_failed', 'The API key is not valid.'), challenge);

export const permissionDenied = (detail: string): Refusal =>
  new Refusal(whole('permission_denied', detail));

export const malformed = (detail: string): Refusal => new Refusal(whole('parse_error', detail));

const statusOfCode: Partial<Record<ProblemCode, number>> = {
  permission_denied: 403,
  not_found: 404,
  method_not_allowed: 405,
  conflict: 409,
  payload_too_large: 413,
  unsupported_media_type: 415,
  throttled: 429,
};

const retryAfter = ({ retryAfterMs }: Throttled) => ({
  'retry-after': String(Math.max(1, Math.ceil(retryAfterMs / 1_000))),
});

/** The status and headers of a refusal, by the contract's table of statuses. */
export function toApiError(refusal: Refusal): ApiError {
  if (refusal instanceof ApiError) return refusal;
  const { code = 'error' } = refusal.problems[0] ?? {};
  const headers = refusal instanceof Throttled ? retryAfter(refusal) : {};
  return new ApiError(statusOfCode[code] ?? 400, refusal.problems, headers);
}
