import { parseSpanBack, parseTime } from '../../../foundation/domain/parse-time.ts';
import type { OffsetPage, PageRequest, TimeBound } from '../../../state/store/database/lists.ts';
import type { Request } from '../api.ts';

const defaultLimit = 100;
const maxLimit = 1_000;
const maxPageBytes = 8 * 1024 ** 2;

interface PageQuery {
  readonly limit?: number | undefined;
  readonly offset?: number | undefined;
}

/** The page of a request; a limit over 1000 becomes 1000. */
export function pageOf({ limit = defaultLimit, offset = 0 }: PageQuery): PageRequest {
  return { limit: clampLimit(limit), offset: Math.min(offset, Number.MAX_SAFE_INTEGER) };
}

export function clampLimit(limit: number = defaultLimit): number {
  return Math.min(limit, maxLimit);
}

/** The envelope of an offset list. Its links keep the caller's other filters. */
export function offsetEnvelope<T, View>(
  request: Request,
  { limit, offset }: PageRequest,
  page: OffsetPage<T>,
  view: (item: T) => View,
) {
  // A page of large rows ends early.
  const end = offset + page.results.length;
  const link = (start: number) => linkTo(request, { limit: String(limit), offset: String(start) });
  return {
    count: page.count,
    next: page.results.length > 0 && end < page.count ? link(end) : null,
    previous: offset > 0 ? link(Math.max(0, offset - limit)) : null,
    results: page.results.map(view),
  };
}

/** The absolute address of this request, with some parameters replaced; omits an offset of 0. */
export function linkTo(request: Request, changes: Readonly<Record<string, string>>): string {
  const [path = '', search = ''] = request.url.split('?', 2);
  const query = new URLSearchParams(search);
  for (const [name, value] of Object.entries(changes)) query.set(name, value);
  if (query.get('offset') === '0') query.delete('offset');
  return `${request.linkBase}${path}?${query}`;
}

/** A bound of a list, from text that the schema has validated. */
export function timeBound(text: string | undefined): TimeBound | null {
  if (text === undefined) return null;
  const spanBack = parseSpanBack(text);
  if (spanBack !== null) return { spanBack };
  const parsed = parseTime(text);
  return parsed && { at: parsed.timestamp };
}

/**
 * The items of a page up to its size; always the first. The rest is on the next page.
 *
 * @param bytesOf what an item takes in the answer, about
 */
export function upToPageBytes<T>(items: readonly T[], bytesOf: (item: T) => number): readonly T[] {
  let bytes = 0;
  const last = items.findIndex((item) => {
    bytes += bytesOf(item);
    return bytes > maxPageBytes;
  });
  return last === -1 ? items : items.slice(0, last + 1);
}
