import { type Static, Type } from 'typebox';
import { problemCodes } from '../../../foundation/domain/problem.ts';
import { Nullable, named, Ref } from './shapes.ts';

const problem = {
  type: Type.Enum([
    'validation_error',
    'invalid_request',
    'authentication_error',
    'throttled_error',
    'server_error',
  ]),
  code: Type.Enum([...problemCodes]),
  detail: Type.String({ description: 'What is wrong and what to do, for people.' }),
  attr: Nullable(
    Type.String({
      description: 'The field, nested names joined by `__`; null if it is not about a field.',
    }),
  ),
};

/** The body of every error. */
export const ErrorBody = named(
  'Error',
  Type.Object(
    {
      ...problem,
      errors: Type.Array(Type.Object(problem)),
      request_id: Type.String(),
    },
    { description: 'The first problem, a list of all problems, and the request id in the log.' },
  ),
);
export type ErrorBody = Static<typeof ErrorBody>;

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

type Meanings = typeof meanings;
type ErrorStatus = keyof Meanings;

/** Only these error answers. */
export function only(...statuses: readonly ErrorStatus[]) {
  const entries = statuses.map((status) => [
    status,
    {
      description: meanings[status],
      headers: headers[status],
      content: { 'application/json': { schema: Ref(ErrorBody) } },
    },
  ]);
  return Object.fromEntries(entries) as Record<never, never>;
}

/** The error answers of an operation that needs a key. A POST may carry an Idempotency-Key. */
export function errorsOf(method: string) {
  const more = { POST: [409, 413, 415, 422], PATCH: [413, 415], PUT: [413, 415] } as const;
  return only(400, 401, 403, 404, ...(more[method as keyof typeof more] ?? []), 429, 500, 503);
}
