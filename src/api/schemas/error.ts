import { type Static, Type } from 'typebox';
import { problemCodes } from '../../domain/problem.ts';
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
  detail: Type.String({ description: 'What is wrong, for a person to read.' }),
  attr: Nullable(
    Type.String({
      description: 'The field, nested names joined by `__`; null where there is none.',
    }),
  ),
};

/** The body of every error: the first problem, all of them, and the id that the log has. */
export const ErrorBody = named(
  'Error',
  Type.Object(
    {
      ...problem,
      errors: Type.Array(Type.Object(problem)),
      request_id: Type.String(),
    },
    {
      description: 'The first problem, all of them, and the id that the log has.',
      examples: [
        {
          type: 'validation_error',
          code: 'required',
          detail: 'This field is required.',
          attr: 'destination__config__bucket_name',
          errors: [
            {
              type: 'validation_error',
              code: 'required',
              detail: 'This field is required.',
              attr: 'destination__config__bucket_name',
            },
          ],
          request_id: '0b9f7a5e-4f6c-4f0e-9d0e-0f7b2f6f3f55',
        },
      ],
    },
  ),
);
export type ErrorBody = Static<typeof ErrorBody>;

const meanings = {
  400: 'The request is malformed or a field is not valid.',
  401: 'No key, or one that is unknown, revoked or expired.',
  403: 'The key lacks the scope, or the organization or project is not one of its own.',
  404: 'There is no such thing here.',
  409: 'Another request stands in the way.',
  413: 'The body is larger than 1 MiB.',
  415: 'The body is not application/json.',
  422: 'The Idempotency-Key was used with another body.',
  429: 'Too many requests, or too many backfills or previews running.',
  500: 'A fault of ours; `request_id` names it.',
  503: 'The database is away.',
} as const;

const RetryAfter = { type: 'integer', description: 'Seconds after which to try again.' };
const headers: Partial<Record<ErrorStatus, object>> = {
  429: { 'Retry-After': RetryAfter },
  503: { 'Retry-After': RetryAfter },
};

type Meanings = typeof meanings;
type ErrorStatus = keyof Meanings;

/** The error answers of an operation, beside those that every operation behind a key can give. */
export function errors(...statuses: readonly ErrorStatus[]) {
  return only(400, 401, 403, 404, ...statuses, 429, 500, 503);
}

/** These error answers and no others. */
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

/** For operations that take a body. */
export const bodyErrors = () => errors(413, 415);

/** For POST, which may carry an Idempotency-Key. */
export const postErrors = () => errors(409, 413, 415, 422);
