import type { ErrorObject } from 'ajv';
import type { FastifyError } from 'fastify';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import { describeError } from '../../../foundation/domain/describe-error.ts';
import { type Problem, Refusal } from '../../../foundation/domain/problem.ts';
import { isDatabaseUnavailable } from '../../../state/store/database/unavailable.ts';
import type { Api, Reply, Request } from '../api.ts';
import { ApiError, malformed, toApiError } from '../api-error.ts';
import type { ErrorBody } from '../schemas/error.ts';
import { mostProblems, problemsOf, queryProblemsOf } from '../validation/problem-of.ts';

/** Every error has the body of the contract. */
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
    const detail = 'The database is unreachable. Try again in a few seconds.';
    return new ApiError(503, { code: 'error', detail, attr: null }, { 'retry-after': '5' });
  }
  if (error instanceof SluiceError) return ofDomain(error);
  return ofFramework(error) ?? unexpected;
}

const noOperation = one(
  404,
  'not_found',
  'No operation has this path. /api/openapi.json lists them all.',
);

const unexpected = one(
  500,
  'error',
  'A server error occurred. Report it to your operator with the request_id.',
);

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
  return new ApiError(status, { code, detail, attr: null });
}
