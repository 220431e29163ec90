import { setImmediate } from 'node:timers/promises';
import { parseSpanBack, parseTime } from '../../../foundation/domain/parse-time.ts';
import { maxPageBytes } from '../../../foundation/domain/page-bytes.ts';
import type { OffsetPage, PageRequest, TimeBound } from '../../../state/store/database/lists.ts';
import type { Request } from '../api.ts';

const defaultLimit = 100;
const maxLimit = 1_000;

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
export async function offsetEnvelope<T, View>(
  request: Request,
  { limit, offset }: PageRequest,
  page: OffsetPage<T>,
  view: (item: T) => View | Promise<View>,
) {
  const results = await viewsOfPage(page.results, (items) => Promise.all(items.map(view)));
  // A page of large rows ends early.
  const end = offset + results.length;
  const link = (start: number) => linkTo(request, { limit: String(limit), offset: String(start) });
  return {
    count: page.count,
    next: results.length > 0 && end < page.count ? link(end) : null,
    previous: offset > 0 ? link(Math.max(0, offset - limit)) : null,
    results,
  };
}

/** The absolute address of this request, with some parameters replaced; omits an offset of 0. */
export function linkTo(request: Request, changes: Readonly<Record<string, string>>): string {
  const [path = '', search = ''] = request.originalUrl.split('?', 2);
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

/** Items that are viewed before other requests have their turn. */
const perSlice = 50;

/**
 * The views of a page, up to its size; always the first. The rest is on the next page. It makes them in slices, so that no other
 * request waits for the whole page.
 */
export async function viewsOfPage<T, View>(
  items: readonly T[],
  viewsOf: (slice: readonly T[]) => readonly View[] | Promise<readonly View[]>,
): Promise<View[]> {
  const views: View[] = [];
  let bytes = 0;
  for (let from = 0; from < items.length; from += perSlice) {
    if (from > 0) await setImmediate();
    for (const view of await viewsOf(items.slice(from, from + perSlice))) {
      bytes += Buffer.byteLength(JSON.stringify(view));
      if (bytes > maxPageBytes && views.length > 0) return views;
      views.push(view);
    }
  }
  return views;
}
