import { createHash } from 'node:crypto';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import type { RetryPolicy } from '../../../foundation/domain/retry-policy.ts';
import type { FileOptions, ManifestTag, PutLease, StoreTraits } from '../destination.ts';
import type { S3Connection } from './client.ts';
import { conditionHeaders, isSameTag, type PutCondition } from './conditions.ts';
import { codeOf, isCollision, isNotImplemented, refusesChecksums } from './errors.ts';
import { notAStore, usualAdvice } from './not-the-store.ts';
import { hasMark, metadataHeaders } from './object-metadata.ts';
import { checkSize, headOrNothing } from './objects.ts';
import type { PartSums } from './parts.ts';
import type { SendOptions } from './request-handler.ts';
import type { StoreRequest } from './store-client.ts';

/** As the store named it. */
export type Put = { readonly etag: ManifestTag };

export const once: RetryPolicy = { maxAttempts: 1, baseMs: 0, capMs: 0 };

export interface PutTime {
  /** The lease of the run; absent: the put may come at any time. */
  readonly lease?: PutLease | undefined;
  readonly signal: AbortSignal;
}

export interface WholeObject extends Pick<StoreRequest, 'key' | 'payloadHash'> {
  readonly body: Uint8Array;
  /** Hexadecimal digest of the body, if the caller has it. */
  readonly md5?: string | null;
  /** Besides those of the condition and the encryption. */
  readonly headers: NonNullable<StoreRequest['headers']>;
}

/**
 * Each put has a Content-MD5: a bucket with Object Lock takes no object without a checksum, and every store knows this one.
 *
 * @throws SluiceError `destination.not_a_store` if the answer names no tag, as a page of a proxy does not;
 *   `run.lease_lost`
 */
export async function putObject(
  connection: S3Connection,
  { headers: given, md5, ...object }: WholeObject,
  condition: PutCondition,
  { signal, lease }: PutTime,
  policy?: RetryPolicy,
): Promise<{ readonly etag: string }> {
  const withLease = guardedBy(lease);
  const put = (digest: string | undefined) =>
    connection.request(
      async (client, send) => {
        const { headers } = await client.send(
          {
            ...{ ...object, method: 'PUT', query: { 'x-id': 'PutObject' } },
            headers: {
              ...{ ...given, 'content-md5': digest },
              ...{ ...connection.objectHeaders, ...conditionHeaders(condition) },
            },
          },
          await withLease(send),
        );
        if (headers.etag) return { etag: headers.etag };
        throw notAStore(`HTTP 200 without an ETag to the put of ${object.key}. ${usualAdvice}`);
      },
      signal,
      policy,
    );
  const digest = md5 ?? createHash('md5').update(object.body).digest('hex');
  return put(encodeHex(digest)).catch((error: unknown) => {
    // 501 is about a condition too, which the caller knows.
    if (isNotImplemented(error) || !refusesChecksums(error)) throw error;
    return put(undefined);
  });
}

/**
 * Lets a request be sent only under a lease, which is looked at with the connection open, right before the first byte: name
 * lookup, handshakes and waits between tries may take long, and a process may freeze in each.
 *
 * @returns what makes the options of the next try
 */
export function guardedBy(lease: PutLease | undefined) {
  let tries = 0;
  const beforeSend = () => {
    if (lease?.holds() === false) throw new SluiceError('run.lease_lost');
  };
  return async (send: SendOptions): Promise<SendOptions> => {
    tries += 1;
    // A store may have refused the first try because its time is later than that of our machine, which was frozen.
    await lease?.extend(tries > 1);
    return { ...send, beforeSend };
  };
}

export function encodeHex(digest: string): string {
  return Buffer.from(digest, 'hex').toString('base64');
}

/** Puts an object of our own: a manifest, a file of a table, or a marker. @throws as `putObject` does */
export async function putSmallObject(
  connection: S3Connection,
  key: string,
  body: Uint8Array,
  condition: PutCondition,
  time: PutTime,
  policy?: RetryPolicy,
): Promise<Put> {
  const headers = { 'content-type': contentTypeOf(key) };
  return putObject(connection, { key, body, headers }, condition, time, policy);
}

function contentTypeOf(key: string): string {
  if (key.endsWith('.avro')) return 'avro/binary';
  return key.endsWith('.text') ? 'text/plain' : 'application/json';
}

/** A file that is sent in one request, to a key that is free. */
interface WholeFile extends FileOptions {
  readonly body: Uint8Array;
  readonly sums: PartSums;
  /** Random, and the same for each try. */
  readonly mark: string;
}

export interface FilePut {
  readonly lease: PutLease | undefined;
  /** Probes again how the store treats conditional puts, and sets the connection's traits. */
  readonly probe: (signal: AbortSignal) => Promise<StoreTraits>;
  readonly signal: AbortSignal;
}

/**
 * Puts a file if its key is free, and checks that the object is whole. If the answer was lost, the object's mark shows
 * that it is ours.
 *
 * A store that refuses the put although the key is free is probed once more. If it goes on, its traits lose the
 * condition, and the next attempt uses an upload: without a condition a put could replace what another worker wrote.
 *
 * @returns the object's ETag
 * @throws SluiceError `destination.conflict` if the key is not free; `run.lease_lost`
 */
export async function putFile(
  connection: S3Connection,
  file: WholeFile,
  put: FilePut,
): Promise<string> {
  const first = await tryPut(connection, file, put);
  if (typeof first === 'string') return first;
  const { ifNoneMatch } = await put.probe(put.signal);
  const second = ifNoneMatch ? await tryPut(connection, file, put) : first;
  if (typeof second === 'string') return second;
  const { traits } = connection;
  // A collision says nothing about the condition.
  if (traits && !isCollision(second.cause)) connection.traits = { ...traits, ifNoneMatch: false };
  const detail = `the store refuses ${file.key}, although there is no object`;
  throw new SluiceError('destination.conflict', detail, second.cause);
}

/** The store refused a put whose condition was true. */
interface Contradiction {
  readonly cause: unknown;
}

async function tryPut(
  connection: S3Connection,
  file: WholeFile,
  put: FilePut,
): Promise<string | Contradiction> {
  const { key, mark, body } = file;
  try {
    return await putChecked(connection, file, put);
  } catch (error) {
    if (isNotImplemented(error)) return { cause: error };
    if (codeOf(error) !== 'destination.conflict') throw error;
    const head = await headOrNothing(connection, key, put.signal);
    if (head === null) return { cause: error };
    if (head === 'not allowed' || !head.ETag || !hasMark(head.Metadata, mark)) throw error;
    checkSize(head.ContentLength, body.length);
    return head.ETag;
  }
}

/**
 * @throws SluiceError `destination.unavailable` if the tag that the store names is not the digest of these bytes (with
 *   KMS it never is), and the object there is not ours: a proxy may have given the answer to another request
 */
async function putChecked(
  connection: S3Connection,
  file: WholeFile,
  { signal, lease }: FilePut,
): Promise<string> {
  const { key, body, mark, contentType } = file;
  const { sha256, md5 } = file.sums;
  const { fileHeaders } = connection;
  const object = {
    ...{ key, body, md5, payloadHash: sha256 ?? 'UNSIGNED-PAYLOAD' },
    headers: { 'content-type': contentType, ...fileHeaders, ...metadataHeaders(mark, file) },
  };
  const { etag } = await putObject(connection, object, { IfNoneMatch: '*' }, { signal, lease });
  if (isSameTag(etag, md5)) return etag;
  const head = await headOrNothing(connection, key, signal);
  if (head === 'not allowed') return etag;
  if (head?.ETag && hasMark(head.Metadata, mark)) {
    checkSize(head.ContentLength, body.length);
    return head.ETag;
  }
  throw new SluiceError('destination.unavailable', `the store took ${key}, but does not show it`);
}
