import { createHash } from 'node:crypto';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import { type S3Connection, sendTo } from './client.ts';
import { readXml, textIn, type XmlElement } from './xml.ts';

/** A page fits into the limit of an answer, however long its keys are (1,024 bytes at S3). */
export const keysPerPage = 500;

interface Page<Item, Marker> {
  readonly items: readonly Item[];
  /** Where the next page begins; null after the last one. */
  readonly next: Marker | null;
}

/**
 * Reads a list page by page. The store decides where a page begins and whether there is another one, so the
 * number of pages is bounded, and each must begin after the one before.
 *
 * @param operation for the error
 * @param maxPages each may take about half a second to parse
 * @throws SluiceError `destination.invalid_answer` if the list has no end
 */
export async function* readPages<Item, Marker>(
  operation: string,
  readPage: (marker: Marker | null) => Promise<Page<Item, Marker>>,
  isAfter: (next: Marker, before: Marker) => boolean,
  maxPages: number,
): AsyncGenerator<Item> {
  // Digests of the markers, which can have many KiB each.
  const seen = new Set<string>();
  let marker: Marker | null = null;
  for (let pages = 1; ; pages += 1) {
    const { items, next }: Page<Item, Marker> = await readPage(marker);
    yield* items;
    if (next === null) return;
    const name = createHash('sha256').update(JSON.stringify(next)).digest('base64');
    if (seen.has(name) || (marker !== null && !isAfter(next, marker))) {
      throw endless(`${operation}: page ${pages + 1} does not begin after page ${pages}`);
    }
    if (pages === maxPages) throw endless(`${operation}: more than ${maxPages} pages`);
    seen.add(name);
    marker = next;
  }
}

/** Sends a request for a list, or for a page of it. @param key for the parts of an upload */
export async function readList(
  connection: S3Connection,
  query: Readonly<Record<string, string>>,
  signal: AbortSignal,
  key = '',
): Promise<XmlElement> {
  const { body } = await sendTo(connection, { method: 'GET', key, query }, signal);
  // `readAnswer` takes nothing else as a list.
  return (await readXml(body.toString('utf8'))) ?? { name: '', text: '', children: [] };
}

/** @throws SluiceError `destination.invalid_answer` if the store says that there is more, but not how to ask for it */
export function nextOf<Marker>(
  operation: string,
  page: XmlElement,
  next: Marker | undefined,
): Marker | null {
  if (textIn(page, 'IsTruncated').trim() !== 'true') return null;
  if (next) return next;
  const detail = `${operation}: the store says that there is more, but not how to ask for it`;
  throw new SluiceError('destination.invalid_answer', detail);
}

/** A key of a list. Some stores encode keys although they were not asked to, and say so. */
export function keyOf(page: XmlElement, listed: string): string {
  if (textIn(page, 'EncodingType') !== 'url') return listed;
  try {
    return decodeURIComponent(listed.replaceAll('+', ' '));
  } catch {
    return listed;
  }
}

function endless(detail: string): SluiceError {
  return new SluiceError('destination.invalid_answer', detail);
}
