import { parseTime } from '../../../foundation/domain/parse-time.ts';
import { Refusal } from '../../../foundation/domain/problem.ts';
import type { KeysetPage, KeysetPosition } from '../../../state/store/database/lists.ts';
import type { Request } from '../api.ts';
import { isUuid } from '../validation/validator.ts';
import { linkTo } from './paging.ts';

const timestamp = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/;

/**
 * Decodes a cursor; null if the request has none.
 *
 * @param ordering a cursor of another ordering is not valid
 * @throws Refusal (400) if the cursor is not valid
 */
export function positionOf(cursor: string | undefined, ordering: string): KeysetPosition | null {
  if (cursor === undefined) return null;
  const parts = decode(cursor);
  const [of, direction, at, id] = Array.isArray(parts) ? parts : [];
  if (
    of !== ordering ||
    (direction !== 'next' && direction !== 'previous') ||
    typeof at !== 'string' ||
    !timestamp.test(at) ||
    parseTime(at) === null ||
    typeof id !== 'string' ||
    !isUuid(id)
  ) {
    throw new Refusal({
      code: 'invalid_input',
      detail: 'The cursor is not valid. Use a link from next or previous.',
      attr: 'cursor',
    });
  }
  return { direction, at, id };
}

function decode(cursor: string): unknown {
  try {
    return JSON.parse(Buffer.from(cursor, 'base64url').toString());
  } catch {
    return null;
  }
}

/** The envelope of a cursor list. Its links keep the caller's other filters. */
export function cursorEnvelope<T, View>(
  request: Request,
  ordering: string,
  page: KeysetPage<T>,
  keyOf: (item: T) => { readonly at: string; readonly id: string },
  view: (item: T) => View,
) {
  const link = (item: T | undefined, direction: KeysetPosition['direction']): string | null => {
    if (item === undefined) return null;
    const { at, id } = keyOf(item);
    const text = JSON.stringify([ordering, direction, at, id]);
    return linkTo(request, { cursor: Buffer.from(text).toString('base64url') });
  };
  return {
    next: page.hasNext ? link(page.results.at(-1), 'next') : null,
    previous: page.hasPrevious ? link(page.results[0], 'previous') : null,
    results: page.results.map(view),
  };
}
