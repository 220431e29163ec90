import type { Problem } from './api-types.ts';
import { isRecord } from './json.ts';

export interface ErrorAnswer {
  readonly problems: readonly Problem[];
  readonly requestId: string | null;
}

/** The status explains a body that is not the API's but a proxy's. @param isRead whether it changed nothing */
export function readErrorBody(status: number, body: unknown, isRead: boolean): ErrorAnswer {
  const fallback = [{ code: 'error', detail: explainStatus(status, isRead), attr: null }];
  if (!isRecord(body)) return { problems: fallback, requestId: null };
  const listed = Array.isArray(body.errors) ? body.errors : [body];
  const problems = listed.map(readProblem).filter((problem) => problem !== null);
  const requestId = typeof body.request_id === 'string' ? body.request_id : null;
  return { problems: problems.length > 0 ? problems : fallback, requestId };
}

function readProblem(value: unknown): Problem | null {
  if (!isRecord(value) || typeof value.detail !== 'string') return null;
  // The page sends it by itself, so its name says nothing to the reader.
  if (value.attr === 'Idempotency-Key') {
    const detail = 'The first request of this change is still running. Try again in a moment.';
    return { code: 'conflict', detail, attr: null };
  }
  return {
    code: typeof value.code === 'string' ? value.code : 'error',
    detail: value.detail,
    attr: typeof value.attr === 'string' ? value.attr : null,
  };
}

/** The next step if it is not known whether a change was made. */
const mayBeDone =
  'What you asked for may have been done: look at the page before you try it again.';

function explainStatus(status: number, isRead: boolean): string {
  const what =
    status === 502 || status === 503 || status === 504
      ? 'The service is unavailable.'
      : `The service answered with status ${status}.`;
  return isRead || status < 500 ? what : `${what} ${mayBeDone}`;
}

/** Why there is no answer. @param isTooLate whether the page gave up waiting */
export function explainLost(isTooLate: boolean, isRead: boolean): string {
  const what = isTooLate
    ? 'The service does not answer.'
    : 'The service is unreachable. Check your network.';
  return isRead ? what : `${what} ${mayBeDone}`;
}

/** Sorts problems: those of the fields by name, and all others. */
export function sortProblems(
  problems: readonly Problem[],
  fields: readonly string[],
): { readonly byField: ReadonlyMap<string, string>; readonly others: readonly Problem[] } {
  const byField = new Map<string, string>();
  const others: Problem[] = [];
  for (const problem of problems) {
    const field = fields.find((name) => isAt(problem.attr, name));
    if (field === undefined) others.push(problem);
    else byField.set(field, [byField.get(field), problem.detail].filter(Boolean).join(' '));
  }
  return { byField, others };
}

/** A problem of an item (`include_events__0`) belongs to the field of its list. */
function isAt(attr: string | null, field: string): boolean {
  return attr === field || (attr?.startsWith(`${field}__`) ?? false);
}

/** Splits `code: what happened and what to do`; a text without a code has code null. */
export function readRunError(text: string): {
  readonly code: string | null;
  readonly text: string;
} {
  const [, code = null, rest = text] = /^([a-z_]+\.[a-z_]+): (.+)$/s.exec(text) ?? [];
  return { code, text: rest };
}
