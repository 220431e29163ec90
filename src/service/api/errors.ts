import type { ErrorObject } from 'ajv';
import type { FastifyError } from 'fastify';
import { type Static, Type } from 'typebox';
import { describeError } from '../../foundation/domain/describe-error.ts';
import { SluiceError } from '../../foundation/domain/errors.ts';
import {
  type Problem,
  type ProblemCode,
  problemCodes,
  Refusal,
  Throttled,
} from '../../foundation/domain/problem.ts';
import { isDatabaseUnavailable } from '../../state/store/database/unavailable.ts';
import type { Api, Reply, Request } from './api.ts';
import { Ref, Resource, Text, TextOrNull } from './shapes.ts';
import { mostProblems, problemsOf, queryProblemsOf } from './validation/problem-of.ts';

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

export const whole = (code: ProblemCode, detail: string): Problem => ({ code, detail, attr: null });
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

/** The status and headers of a refusal, by the contract's table of statuses. */
export function toApiError(refusal: Refusal): ApiError {
  if (refusal instanceof ApiError) return refusal;
  const { code = 'error' } = refusal.problems[0] ?? {};
  const waitMs = refusal instanceof Throttled ? refusal.retryAfterMs : null;
  const seconds = String(Math.max(1, Math.ceil((waitMs ?? 0) / 1_000)));
  const headers: Record<string, string> = waitMs === null ? {} : { 'retry-after': seconds };
  return new ApiError(statusOfCode[code] ?? 400, refusal.problems, headers);
}

const problem = {
  type: Type.Enum([
    ...(['validation_error', 'invalid_request', 'authentication_error'] as const),
    ...(['throttled_error', 'server_error'] as const),
  ]),
  code: Type.Enum([...problemCodes]),
  detail: Text('What is wrong and what to do, for people.'),
  attr: TextOrNull('The field, nested names joined by `__`; null if it is not about a field.'),
};

const about = 'The first problem, a list of all problems, and the request id in the log.';
const ErrorBody = Resource('Error', about, {
  ...problem,
  errors: Type.Array(Type.Object(problem)),
  request_id: Type.String(),
});
type ErrorBody = Static<typeof ErrorBody>;

const meanings = {
  400: 'The request is malformed or a field is not valid.',
  401: 'The key is missing, unknown, revoked or expired.',
  403: 'The key lacks the scope, or has no access to the organization or project.',
  404: 'The record does not exist in this organization or project.',
  409: 'The request conflicts with the current state or with another request.',
  413: 'The body is larger than 1 MiB.',
  415: 'The body is not application/json.',
  422: 'The Idempotency-Key was used with another request.',
  429: 'Too many requests, or too many backfills or previews running.',
  500: 'An error of Sluice. Report it with the `request_id`.',
  503: 'The database is unreachable. Try again after `Retry-After`.',
} as const;

const RetryAfter = { type: 'integer', description: 'Seconds to wait before the next attempt.' };
const headers: Partial<Record<ErrorStatus, object>> = {
  429: { 'Retry-After': RetryAfter },
  503: { 'Retry-After': RetryAfter },
};

type ErrorStatus = keyof typeof meanings;

export function only(...statuses: readonly ErrorStatus[]) {
  const content = { 'application/json': { schema: Ref(ErrorBody) } };
  const entries = statuses.map((status) => {
    return [status, { description: meanings[status], headers: headers[status], content }];
  });
  return Object.fromEntries(entries) as Record<never, never>;
}

/** The error answers of an operation that needs a key. A POST may carry an Idempotency-Key. */
export function errorsOf(method: string) {
  const more = { POST: [409, 413, 415, 422], PATCH: [413, 415], PUT: [413, 415] } as const;
  return only(400, 401, 403, 404, ...(more[method as keyof typeof more] ?? []), 429, 500, 503);
}

export function answerErrors(api: Api): void {
  api.setErrorHandler((error: FastifyError, request, reply) => {
    const answer = toApiError(refusalOf(error, request));
    if (answer.status >= 500) request.log.error({ err: error }, 'request failed');
    return sendError(request, reply, answer);
  });
  api.setNotFoundHandler((request, reply) => sendError(request, reply, noOperation));
  // Before its body is read.
  api.addHook('onRequest', (request, _reply, done) => (request.is404 ? done(noOperation) : done()));
}

/** Answers with an error; also for code that Fastify's error handler does not cover. */
export function sendError(request: Request, reply: Reply, refusal: Refusal): Reply {
  const error = toApiError(refusal);
  return reply
    .code(error.status)
    .headers(error.headers)
    .type('application/json; charset=utf-8')
    .send(errorBody(error, request.id));
}

function errorBody({ status, problems }: ApiError, requestId: string): ErrorBody {
  const type = typeOf(status, problems[0]?.code);
  const shown = problems.slice(0, mostProblems);
  const errors = shown.map(({ code, detail, attr }) => ({
    ...{ type, code, detail: clip(detail, maxDetail) },
    attr: attr === null ? null : clip(attr, maxAttr),
  }));
  const [first = { type, code: 'error' as const, detail: 'An error occurred.', attr: null }] =
    errors;
  return { ...first, errors, request_id: requestId };
}

function typeOf(status: number, code: Problem['code'] | undefined): ErrorBody['type'] {
  if (status >= 500) return 'server_error';
  if (status === 429) return 'throttled_error';
  if (status === 401 || status === 403) return 'authentication_error';
  return status === 400 && code !== 'parse_error' ? 'validation_error' : 'invalid_request';
}

/** A client may send a name of any length, and an error may quote it. */
const maxAttr = 500;
const maxDetail = 4_000;
const clip = (text: string, length: number): string =>
  text.length > length ? `${text.slice(0, length)}…` : text;

/** The answer to a client after an error; an unexpected one is a 500 without internals. */
export function refusalOf(thrown: unknown, request: Request): Refusal {
  if (thrown instanceof Refusal) return thrown;
  const error = thrown as FastifyError;
  if (error.validation) {
    const errors = error.validation as ErrorObject[];
    const ofQuery = error.validationContext === 'querystring';
    return new Refusal(
      ...(ofQuery ? queryProblemsOf(errors, request.query) : problemsOf(errors, request.body)),
    );
  }
  if (isDatabaseUnavailable(error)) {
    const problem = whole('error', 'The database is unreachable. Try again in a few seconds.');
    return new ApiError(503, problem, { 'retry-after': '5' });
  }
  if (error instanceof SluiceError) return ofDomain(error);
  return ofFramework(error) ?? unexpected;
}

const noPath = 'No operation has this path. /api/openapi.json lists them all.';
const noOperation = one(404, 'not_found', noPath);
const isOurFault = 'A server error occurred. Report it to your operator with the request_id.';
const unexpected = one(500, 'error', isOurFault);

/** Errors of ours that are no bugs: their texts say what to do. */
const passingOfOurs: readonly SluiceError['code'][] = [
  'transformation.sandbox_ended',
  'secrets.signing_key_lost',
];

/** An error that the owner or the operator can fix is a 400 with the remedy; a transient error is a 503. */
function ofDomain(error: SluiceError): ApiError {
  const { code } = error;
  const { fault, retryable } = error.spec;
  const detail = describeError(error);
  // A source that cannot be exported as it is needs its operator, not a bug report.
  if (fault === 'customer' || (fault === 'source' && !retryable)) {
    return one(400, 'invalid_input', detail);
  }
  const isPassing = retryable && (fault !== 'internal' || passingOfOurs.includes(code));
  return isPassing ? one(503, 'error', detail) : unexpected;
}

function ofFramework({ code, statusCode }: FastifyError): Refusal | null {
  if (code === 'FST_ERR_CTP_BODY_TOO_LARGE') {
    return one(413, 'payload_too_large', 'The body is larger than 1 MiB.');
  }
  if (code === 'FST_ERR_CTP_INVALID_MEDIA_TYPE') {
    return one(415, 'unsupported_media_type', 'The body must be application/json.');
  }
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500) {
    return malformed('The request is malformed. Check its syntax.');
  }
  return null;
}

function one(status: number, code: Problem['code'], detail: string): ApiError {
  return new ApiError(status, whole(code, detail));
}
