import { setImmediate } from 'node:timers/promises';
import { type TSchema, Type } from 'typebox';
import { maxPageBytes } from '../../foundation/domain/page-bytes.ts';
import { parseSpanBack, parseTime } from '../../foundation/domain/parse-time.ts';
import { invalid, Refusal } from '../../foundation/domain/problem.ts';
import type {
  KeysetPage,
  KeysetPosition,
  OffsetPage,
  PageRequest,
  TimeBound,
} from '../../state/store/database/lists.ts';
import type { Request } from './api.ts';
import { type Named, Nullable, OptionalInt, Ref, Text } from './shapes.ts';
import { isUuid } from './validation/validator.ts';

export const PageQuery = {
  limit: OptionalInt({
    minimum: 1,
    description: 'Number of results per page; 100, at most 1000. A page also ends before 1 MiB.',
  }),
  offset: Type.Optional(Type.Integer({ minimum: 0, description: 'Index of the first result.' })),
};

export const CursorQuery = {
  cursor: Type.Optional(Text('The pagination cursor.')),
  limit: OptionalInt({
    minimum: 1,
    description: 'Number of results per page; 100, at most 1000. A page also ends before 1 MiB.',
  }),
};

const links = {
  next: Nullable(Type.String({ format: 'uri', description: 'The next page; null on the last.' })),
  previous: Nullable(
    Type.String({ format: 'uri', description: 'The page before; null on the first.' }),
  ),
};

export function OffsetPageOf<T extends TSchema>(item: Named<T>) {
  return Type.Object({ count: Type.Integer(), ...links, results: Type.Array(Ref(item)) });
}

export function CursorPageOf<T extends TSchema>(item: Named<T>) {
  return Type.Object({ ...links, results: Type.Array(Ref(item)) });
}

const defaultLimit = 100;
const maxLimit = 1_000;

type AskedPage = Partial<Record<'limit' | 'offset', number | undefined>>;

/** The page of a request; a limit over 1000 becomes 1000. */
export function pageOf({ limit = defaultLimit, offset = 0 }: AskedPage): PageRequest {
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
function linkTo(request: Request, changes: Readonly<Record<string, string>>): string {
  const [path = '', search = ''] = request.originalUrl.split('?', 2);
  const query = new URLSearchParams(search);
  for (const [name, value] of Object.entries(changes)) query.set(name, value);
  if (query.get('offset') === '0') query.delete('offset');
  return `${request.linkBase}${path}?${query}`;
}

export function timeBound(text: string | undefined): TimeBound | null {
  if (text === undefined) return null;
  const spanBack = parseSpanBack(text);
  if (spanBack !== null) return { spanBack };
  const parsed = parseTime(text);
  return parsed && { at: parsed.timestamp };
}

/** Items that are viewed before other requests have their turn. */
const perSlice = 50;

/** The views of a page up to its size, at least one. They are made in slices, so that other requests have their turn. */
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

const timestamp = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/;

/** @param ordering a cursor of another ordering is not valid @throws Refusal (400) */
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
    throw new Refusal(
      invalid('cursor', 'The cursor is not valid. Use a link from next or previous.'),
    );
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
