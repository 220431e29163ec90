import { parseTime } from '../../../foundation/domain/parse-time.ts';
import { Refusal } from '../../../foundation/domain/problem.ts';
import type { KeysetPage, KeysetPosition } from '../../../state/store/database/lists.ts';
import type { Request } from '../api.ts';
import { isUuid } from '../validation/validator.ts';
import { linkTo, viewsOfPage } from './paging.ts';

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
export async function cursorEnvelope<T, View>(
  request: Request & { readonly query: { readonly cursor?: string } },
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
  // A page of large rows ends early: the rows next to the cursor stay.
  const isBack = positionOf(request.query.cursor, ordering)?.direction === 'previous';
  const fromCursor = isBack ? page.results.toReversed() : page.results;
  const views = await viewsOfPage(fromCursor, (items) => items.map(view));
  const isCut = views.length < fromCursor.length;
  const shown = fromCursor.slice(0, views.length);
  if (isBack) shown.reverse();
  return {
    next: page.hasNext || (isCut && !isBack) ? link(shown.at(-1), 'next') : null,
    previous: page.hasPrevious || (isCut && isBack) ? link(shown[0], 'previous') : null,
    results: isBack ? views.toReversed() : views,
  };
}
