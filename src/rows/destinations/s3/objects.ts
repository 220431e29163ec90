import type { IncomingMessage } from 'node:http';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import { compareKeys } from '../../../foundation/domain/object-keys.ts';
import type { Instant } from '../../../foundation/domain/time.ts';
import type { OpenObject, ReadOptions, UploadRef } from '../destination.ts';
import { callDeadline } from './call-deadline.ts';
import { type S3Connection, sendTo } from './client.ts';
import { AnsweredError, UnreadAnswer } from './error-answer.ts';
import { codeOf, StoreError, toDestinationError } from './errors.ts';
import { mayPass, notAStore, usualAdvice } from './not-the-store.ts';
import type { SendOptions } from './request-handler.ts';
import type { StoreAnswer, StoreRequest } from './store-client.ts';
import { childrenOf, readXml, textIn, type XmlElement } from './xml.ts';
import { createHash } from 'node:crypto';

/** Concurrent deletions. One request per key: not every store supports DeleteObjects. */
const deletionsInFlight = 8;

const maxPages = 20_000;

/** @returns null if there is no such object */
export async function readObject(
  connection: S3Connection,
  key: string,
  { signal = neverAborted, maxBytes }: ReadOptions = {},
): Promise<OpenObject | null> {
  const object = await connection
    .request(async (client, send) => {
      const answer = await client.send(getObject(key), limitBody(send, maxBytes ?? null));
      return { ...answer, etag: tagOf(answer, key) };
    }, signal)
    .catch((error: unknown) => nullIfMissing(connection, key, error, signal));
  if (object === null) return null;
  return {
    body: Buffer.isBuffer(object.body) ? bodyOf(object.body) : withOurErrors(object.body),
    etag: object.etag,
    modifiedAt: timeOf(object.headers),
  };
}

/** A store sends a tag with each object. A page that a proxy sends instead must not be read as one. */
function tagOf({ headers: { etag }, body }: StoreAnswer, key: string): string {
  if (etag) return etag;
  leaveBody(body);
  throw notAStore(`HTTP 200 without an ETag for ${key}. ${usualAdvice}`);
}

/** A time that cannot be read is none. */
function timeOf(headers: StoreAnswer['headers']): Instant | null {
  const time = Date.parse(headers['last-modified'] ?? '');
  return Number.isNaN(time) ? null : time;
}

function getObject(key: string, range?: string): StoreRequest {
  return { method: 'GET', key, query: { 'x-id': 'GetObject' }, headers: { range } };
}

function leaveBody(body: Buffer | IncomingMessage): void {
  if (!Buffer.isBuffer(body)) body.destroy();
}

/** The body of a file may take as long as its minimum speed allows. */
const neverAborted = new AbortController().signal;

function limitBody(send: SendOptions, maxBodyBytes: number | null): SendOptions {
  return { ...send, maxBodyBytes };
}

export interface ObjectHead {
  readonly ETag?: string | undefined;
  readonly ContentLength?: number | undefined;
  readonly Metadata?: Record<string, string> | undefined;
  readonly ServerSideEncryption?: string | undefined;
  readonly modifiedAt?: Instant | null;
}

/** Metadata and size of an object, or null. A refused HEAD does not say why, so then this is a GET of one byte. */
export async function headObject(
  connection: S3Connection,
  key: string,
  signal: AbortSignal = callDeadline(),
): Promise<ObjectHead | null> {
  return await connection
    .request<ObjectHead>(async (client, send) => {
      try {
        const head = headOf(await client.send({ method: 'HEAD', key }, send));
        if (head.ETag && head.ContentLength !== undefined) return head;
      } catch (error) {
        if (!(error instanceof UnreadAnswer) || mayPass(error.status)) throw error;
      }
      const get = (range?: string) =>
        client.send(getObject(key, range), limitBody(send, null)).catch((error: unknown) => {
          // An empty object has no first byte.
          if (range && error instanceof AnsweredError && error.name === 'InvalidRange') return null;
          throw error;
        });
      const object = (await get(oneByte)) ?? (await get());
      if (object === null) return {};
      tagOf(object, key);
      leaveBody(object.body);
      const range = object.headers['content-range'];
      // A store that does not support ranges sends the whole object.
      if (range === undefined) return headOf(object);
      const total = /\/(\d+)$/.exec(range)?.[1];
      if (total !== undefined) return { ...headOf(object), ContentLength: Number(total) };
      // It sent the byte, and does not say of how many.
      const whole = await get();
      if (whole === null) return {};
      leaveBody(whole.body);
      return headOf(whole);
    }, signal)
    .catch((error: unknown) => nullIfMissing(connection, key, error, signal));
}

const metadataPrefix = 'x-amz-meta-';

function headOf({ headers }: StoreAnswer): ObjectHead {
  const notes = Object.entries(headers).filter(([name]) => name.startsWith(metadataPrefix));
  const length = headers['content-length'];
  return {
    ETag: headers.etag,
    ContentLength: length === undefined ? undefined : Number(length),
    Metadata: Object.fromEntries(
      notes.map(([name, value]) => [name.slice(metadataPrefix.length), value]),
    ),
    ServerSideEncryption: headers['x-amz-server-side-encryption'],
    modifiedAt: timeOf(headers),
  };
}

const oneByte = 'bytes=0-0';

/** Each page has a deadline of its own: the reader may take long in between. @throws `destination.invalid_answer` */
export function listObjects(
  connection: S3Connection,
  prefix: string,
  signal?: AbortSignal,
  after?: string,
): AsyncIterable<{ readonly key: string; readonly bytes: number }> {
  interface Marker {
    readonly token: string;
    readonly lastKey: string;
  }
  const readPage = async (marker: Marker | null) => {
    const query = { 'list-type': '2', prefix, 'max-keys': String(keysPerPage) };
    const from =
      marker !== null
        ? { 'continuation-token': marker.token }
        : after !== undefined && { 'start-after': after };
    const page = await readList(connection, { ...query, ...from }, callDeadline(signal));
    const items = childrenOf(page, 'Contents').map((found) => ({
      key: keyOf(page, textIn(found, 'Key')),
      bytes: Number(textIn(found, 'Size')) || 0,
    }));
    const token = nextOf('ListObjectsV2', page, textIn(page, 'NextContinuationToken'));
    const lastKey = items.at(-1)?.key ?? marker?.lastKey ?? '';
    return { items, next: token === null ? null : { token, lastKey } };
  };
  // A page may be empty.
  const isAfter = (next: Marker, before: Marker) =>
    next.lastKey === before.lastKey || compareKeys(next.lastKey, before.lastKey) > 0;
  return readPages('ListObjectsV2', readPage, isAfter, maxPages);
}

export async function deleteObjects(
  connection: S3Connection,
  keys: readonly string[],
  signal?: AbortSignal,
): Promise<void> {
  const queue = keys.values();
  const work = async (): Promise<void> => {
    for (const key of queue) {
      const deadline = signal ?? callDeadline();
      const request = { method: 'DELETE', key, query: { 'x-id': 'DeleteObject' } } as const;
      await sendTo(connection, request, deadline).catch((error: unknown) =>
        nullIfMissing(connection, key, error, deadline),
      );
    }
  };
  await Promise.all(Array.from({ length: deletionsInFlight }, work));
}

/** Null for a missing key, not for a missing bucket. A 404 without a body counts if the store lists no such key. */
async function nullIfMissing(
  connection: S3Connection,
  key: string,
  error: unknown,
  signal: AbortSignal,
): Promise<null> {
  const cause = error instanceof SluiceError ? error.cause : undefined;
  if (!(cause instanceof StoreError)) throw error;
  if (cause.name === 'NoSuchKey' || cause.name === 'NotFound') return null;
  if (cause.name !== 'UnreadAnswer' || cause.status !== 404) throw error;
  const listed = await isListed(connection, key, signal).catch(() => true);
  if (listed) throw error;
  return null;
}

async function isListed(
  connection: S3Connection,
  key: string,
  signal: AbortSignal,
): Promise<boolean> {
  const query = { 'list-type': '2', prefix: key, 'max-keys': '1' };
  const page = await readList(connection, query, signal);
  // A proxy's page would be read as an empty list. A real list names its prefix.
  if (keyOf(page, textIn(page, 'Prefix')) !== key) return true;
  return childrenOf(page, 'Contents').some((found) => keyOf(page, textIn(found, 'Key')) === key);
}

/** A body can also fail while it is read. */
async function* withOurErrors(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    yield* body;
  } catch (error) {
    throw toDestinationError(error);
  }
}

async function* bodyOf(bytes: Buffer): AsyncGenerator<Uint8Array> {
  if (bytes.length > 0) yield bytes;
}

/** @throws SluiceError `destination.unavailable` if an object of `sent` bytes has another size: parts were dropped */
export function checkSize(found: number | undefined, sent: number): void {
  if (found === sent) return;
  const detail = `the store shows an object of ${found ?? 'no'} bytes, but ${sent} were sent`;
  throw new SluiceError('destination.unavailable', detail);
}

/** Credentials may allow writing only: then the object cannot be checked. */
export async function headOrNothing(connection: S3Connection, key: string, signal: AbortSignal) {
  try {
    return await headObject(connection, key, signal);
  } catch (error) {
    if (codeOf(error) === 'destination.access_denied') return 'not allowed';
    throw error;
  }
}

/** Maximum pages of a list of uploads. A store may have smaller pages than we ask for. */
const maxUploadPages = 1_000;

/** The whole list has one deadline. @throws SluiceError `destination.invalid_answer` if it has no end */
export function listUploads(
  connection: S3Connection,
  prefix: string,
  signal?: AbortSignal,
): AsyncIterable<UploadRef> {
  interface Marker {
    readonly 'key-marker': string;
    readonly 'upload-id-marker'?: string;
  }
  const deadline = callDeadline(signal);
  const readPage = async (marker: Marker | null) => {
    const query = { uploads: '', prefix, 'max-uploads': String(keysPerPage) };
    const page = await readList(connection, { ...query, ...marker }, deadline);
    const items = childrenOf(page, 'Upload').map((found) => ({
      key: keyOf(page, textIn(found, 'Key')),
      uploadId: `.${textIn(found, 'UploadId')}`,
    }));
    const [key, id] = [textIn(page, 'NextKeyMarker'), textIn(page, 'NextUploadIdMarker')];
    const next =
      key === ''
        ? undefined
        : { 'key-marker': keyOf(page, key), ...(id !== '' && { 'upload-id-marker': id }) };
    return { items, next: nextOf<Marker>('ListMultipartUploads', page, next) };
  };
  // Upload ids of one key come in the order of their beginning, which is not theirs.
  const isAfter = (next: Marker, before: Marker) =>
    compareKeys(next['key-marker'], before['key-marker']) >= 0;
  return readPages('ListMultipartUploads', readPage, isAfter, maxUploadPages);
}

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
