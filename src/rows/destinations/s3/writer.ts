import { randomUUID } from 'node:crypto';
import { SluiceError, toSluiceError } from '../../../foundation/domain/errors.ts';
import { failpoint } from '../../../foundation/failpoints/failpoint.ts';
import type {
  CompleteOptions,
  DestinationContext,
  FileOptions,
  FileWriter,
  UploadJournal,
  UploadRef,
} from '../destination.ts';
import { checkLength } from './answer.ts';
import { withDelayedAbort } from './call-deadline.ts';
import { type S3Connection, sendTo } from './client.ts';
import { completionCondition, conditionHeaders, type PutCondition } from './conditions.ts';
import { allowedParts, codeOf, refusesChecksums, toDestinationError } from './errors.ts';
import { notAStore, usualAdvice } from './not-the-store.ts';
import { metadataHeaders, splitId } from './object-metadata.ts';
import {
  learnParts,
  makeRoom,
  openDigest,
  type PartDigest,
  type PartPlan,
  type PartSums,
  partSize,
  planParts,
  takeBuffer,
} from './parts.ts';
import { encodeHex, type FilePut, guardedBy, putFile } from './put-object.ts';
import { type StoreRequest, textsOf } from './store-client.ts';
import {
  abortUpload,
  checkObject,
  digestOf,
  isRefused,
  judgeCompletion,
  partEtag,
  type UploadPart,
  type WholeUpload,
} from './upload-doubts.ts';
import { escapeXml } from './xml.ts';

/** The bucket of a file, and what is notified of its upload. */
interface Writing {
  readonly connection: S3Connection;
  readonly limits: Pick<DestinationContext, 'partBytes' | 'partsInFlight' | 'maxParts'>;
  readonly journal: UploadJournal;
  readonly signal?: AbortSignal | undefined;
  /** Probes again how the store treats conditional puts. Absent: no file is put at once. */
  readonly probe?: FilePut['probe'];
}

/** A cancelled run keeps its slot while its uploads are aborted. The sweep aborts the others. */
const abortPatienceMs = 5_000;

/**
 * A file as a multipart upload of this attempt alone. Once an upload was aborted, no store can complete it. A single
 * PutObject could take effect at any later time: therefore only a file at a key of its own is put so, and only if the key is
 * free (docs/internals/guarantees.md, C7).
 */
class S3Writer implements FileWriter {
  readonly #connection: S3Connection;
  readonly #writing: Writing;
  readonly #options: FileOptions;
  readonly #plan: PartPlan;
  /** Null as long as the file may be put at once. */
  #begun: BegunUpload | null;
  readonly #stop = new AbortController();
  readonly #signal: AbortSignal;
  readonly #inFlight = new Set<Promise<void>>();
  /** The parts that arrived, by their numbers; no gap once all have. */
  readonly #parts: UploadPart[] = [];
  readonly #spare: Buffer[] = [];
  #buffer: Buffer | null = null;
  /** The size of the part that is being filled; the buffer may still be smaller. */
  #partBytes = 0;
  #filled = 0;
  #digest: PartDigest | null = null;
  #sums: PartSums | null = null;
  readonly #mark = randomUUID();
  #nextNumber = 1;
  #failure: SluiceError | null = null;
  #sealed = false;
  #aborted = false;
  /** The upload may be replacing an object that readers know: at some stores an abort now destroys both. */
  #mayBeReplaced = false;
  #isDigest = false;
  #result: { readonly etag: string } | null = null;

  constructor(writing: Writing, options: FileOptions, begun: BegunUpload | null) {
    const { connection, limits, signal } = writing;
    this.#connection = connection;
    this.#writing = writing;
    this.#options = options;
    this.#plan = planParts(limits, connection.parts, options.maxBytes ?? null);
    this.#begun = begun;
    this.#signal = signal ? AbortSignal.any([this.#stop.signal, signal]) : this.#stop.signal;
  }

  get upload(): UploadRef | null {
    return this.#begun?.upload ?? null;
  }

  async write(bytes: Uint8Array): Promise<void> {
    if (this.#sealed) throw new SluiceError('internal.unexpected', 'write after complete');
    let rest = bytes;
    this.#throwFailure();
    while (rest.length > 0) {
      this.#buffer ??= this.#takeBuffer();
      const taken = rest.subarray(0, this.#partBytes - this.#filled);
      const needed = this.#filled + taken.length;
      this.#buffer = makeRoom(this.#buffer, needed, this.#filled, this.#partBytes);
      this.#buffer.set(taken, this.#filled);
      this.#digest ??= this.#openDigest();
      this.#digest.update(taken);
      this.#filled += taken.length;
      rest = rest.subarray(taken.length);
      if (this.#filled === this.#partBytes) await this.#sendPart();
    }
  }

  async flush(): Promise<void> {
    this.#throwFailure();
    // An upload needs at least one part: an empty file has one empty part.
    const unsent = this.#filled > 0 || this.#nextNumber === 1;
    if (!this.#sealed && unsent && this.#begun !== null) await this.#sendPart();
    this.#sealed = true;
    // An interval may have thousands of files that wait for their commit.
    if (this.#begun === null)
      this.#buffer = Buffer.from(this.#buffer?.subarray(0, this.#filled) ?? []);
    await Promise.all(this.#inFlight);
    this.#spare.length = 0;
    this.#throwFailure();
  }

  async complete(options: CompleteOptions = {}): Promise<{ readonly etag: string }> {
    if (this.#result === null) {
      await this.flush();
      const etag = this.#begun
        ? await this.#completeUpload(this.#begun, options)
        : await this.#put(options);
      this.#result = { etag };
    }
    return this.#result;
  }

  async abort(): Promise<void> {
    if (this.#result !== null || this.#aborted) return;
    this.#fail(new SluiceError('destination.unavailable', 'the upload was aborted'));
    await Promise.all(this.#inFlight);
    if (this.#begun && !this.#mayBeReplaced) {
      const patience = AbortSignal.timeout(abortPatienceMs);
      await abortUpload(this.#connection, this.#begun.upload, patience);
    }
    this.#aborted = true;
  }

  async #completeUpload({ upload }: BegunUpload, options: CompleteOptions): Promise<string> {
    const areDigests = this.#isDigest && this.#parts.length === 1;
    const parts = { connection: this.#connection, upload, parts: this.#parts, areDigests };
    try {
      return await completeUpload({ ...parts, ...options, signal: this.#signal });
    } catch (error) {
      if (codeOf(error) === 'destination.invalid_parts') this.#learn(null);
      this.#mayBeReplaced ||= options.replaces !== null && !isRefused(toSluiceError(error));
      throw error;
    }
  }

  /** Plans the parts of the next attempt. @param most the number of parts that the store allows, if it said so */
  #learn(most: number | null): boolean {
    const sent = Object.values(this.#parts).map(({ bytes }) => bytes);
    const learned = learnParts(this.#plan, sent, most);
    if (learned) this.#connection.learnParts(learned);
    return learned !== null;
  }

  async #put({ lease }: CompleteOptions): Promise<string> {
    const { probe } = this.#writing;
    if (!probe) throw new SluiceError('internal.unexpected', 'the file has no upload');
    const body = (this.#buffer ?? Buffer.alloc(0)).subarray(0, this.#filled);
    this.#sums ??= (this.#digest ?? this.#openDigest()).end();
    const file = { ...this.#options, body, sums: this.#sums, mark: this.#mark };
    return putFile(this.#connection, file, { lease, probe, signal: this.#signal });
  }

  /** Starts to send the buffer; resolves when another part may be filled. */
  async #sendPart(): Promise<void> {
    const number = this.#nextNumber;
    const buffer = this.#buffer ?? Buffer.alloc(0);
    let sums = (this.#digest ?? this.#openDigest()).end();
    if (this.#begun === null) {
      // The written bytes do not fit into one request.
      this.#begun = await beginUpload(this.#writing, this.#options).catch((error: unknown) => {
        this.#fail(toDestinationError(error));
        throw error;
      });
      // The store may take other checksums than its traits say.
      if (this.#begun.checksums !== (sums.crc32 !== null)) {
        sums = this.#openDigest().update(buffer.subarray(0, this.#filled)).end();
      }
    }
    const sending = this.#upload(this.#begun.upload, number, buffer, this.#filled, sums);
    this.#nextNumber = number + 1;
    this.#buffer = null;
    this.#filled = 0;
    this.#digest = null;
    this.#inFlight.add(sending);
    void sending.then(() => this.#inFlight.delete(sending));
    if (this.#inFlight.size >= this.#writing.limits.partsInFlight)
      await Promise.race(this.#inFlight);
    this.#throwFailure();
  }

  #openDigest(): PartDigest {
    const checksums = this.#begun?.checksums ?? this.#connection.traits?.checksums ?? true;
    return openDigest(this.#connection, checksums, this.#nextNumber === 1);
  }

  /** Never rejects: a failure stops the other parts, and the next call throws it. */
  async #upload(
    upload: UploadRef,
    number: number,
    buffer: Buffer,
    length: number,
    sums: PartSums,
  ): Promise<void> {
    try {
      const body = buffer.subarray(0, length);
      const part = await uploadPart(this.#connection, upload, number, body, sums, this.#signal);
      if (number === 1) this.#isDigest = partEtag(part) === `"${sums.md5}"`;
      this.#spare.push(buffer);
      this.#parts[number - 1] = part;
      await this.#writing.journal.sent(upload.key, number, length);
    } catch (caught) {
      const error = toDestinationError(caught);
      if (error.code === 'destination.invalid_parts') this.#learn(allowedParts(error, number));
      this.#fail(error);
    }
  }

  /** Throws rather than send a part too many, which would cut the file. */
  #takeBuffer(): Buffer {
    const { most, equal } = this.#plan;
    if (this.#nextNumber > most) {
      const detail = `the file needs more than ${most} parts; set max_file_size_mb`;
      const code =
        equal && this.#learn(null) ? 'destination.invalid_parts' : 'destination.invalid_config';
      this.#fail(new SluiceError(code, detail));
      this.#throwFailure();
    }
    this.#partBytes = partSize(this.#nextNumber, this.#plan);
    return takeBuffer(this.#partBytes, this.#nextNumber === 1, this.#spare);
  }

  #fail(error: SluiceError): void {
    this.#failure ??= error;
    this.#stop.abort();
  }

  #throwFailure(): void {
    if (this.#failure !== null) throw this.#failure;
  }
}

/**
 * Opens a file. If the store protects an object at its key, the file is put at once if it stays smaller than a part, and
 * its upload begins when the first part is full. Otherwise it has an upload from the start.
 */
export async function openWriter(writing: Writing, options: FileOptions): Promise<FileWriter> {
  // Only a store that was probed is known to do it.
  const mayPut = options.isNewKey === true && writing.connection.traits?.ifNoneMatch === true;
  const begun = mayPut && writing.probe ? null : await beginUpload(writing, options);
  return new S3Writer(writing, options, begun);
}

/** If a request for an upload is given up, the id in its answer is lost: wait for a while. */
const createPatienceMs = 5_000;

/** The journal is notified before the store is asked. */
async function beginUpload(
  { connection, journal, signal }: Writing,
  options: FileOptions,
): Promise<BegunUpload> {
  await journal.starting();
  const create = (patient: AbortSignal) => createUpload(connection, options, patient);
  const begun = await withDelayedAbort(signal, createPatienceMs, create);
  await failpoint('upload_begun');
  return begun;
}

export interface BegunUpload {
  readonly upload: UploadRef;
  /** True if its parts have a CRC32. Only if the store said so: some refuse it, and some drop parts that have one. */
  readonly checksums: boolean;
}

export async function createUpload(
  connection: S3Connection,
  options: FileOptions,
  signal: AbortSignal,
): Promise<BegunUpload> {
  const mark = randomUUID();
  const create = (checksum: 'CRC32' | undefined) => {
    const headers = {
      'content-type': options.contentType,
      ...metadataHeaders(mark, options),
      'x-amz-checksum-algorithm': checksum,
      ...connection.fileHeaders,
    };
    const { key } = options;
    return sendTo(connection, { method: 'POST', key, query: { uploads: '' }, headers }, signal);
  };
  const takesChecksums = connection.traits?.checksums ?? true;
  const created = await create(takesChecksums ? 'CRC32' : undefined).catch((error: unknown) => {
    if (!takesChecksums || !refusesChecksums(error)) throw error;
    return create(undefined);
  });
  const id = textsOf(created).get('UploadId');
  if (!id) throw notAStore(`HTTP 200 without an upload id. ${usualAdvice}`);
  checkLength('the upload id', id);
  const checksums = takesChecksums && created.headers['x-amz-checksum-algorithm'] === 'CRC32';
  return { upload: { key: options.key, uploadId: `${mark}.${id}` }, checksums };
}

export async function uploadPart(
  connection: S3Connection,
  upload: UploadRef,
  number: number,
  body: Uint8Array,
  { crc32, sha256, md5 }: PartSums,
  signal: AbortSignal,
): Promise<UploadPart> {
  const etag = await connection.request(async (client, send) => {
    const request: StoreRequest = {
      ...{ method: 'PUT', key: upload.key, body },
      query: { partNumber: String(number), uploadId: splitId(upload)[1], 'x-id': 'UploadPart' },
      headers: {
        'content-type': 'application/octet-stream',
        'x-amz-checksum-crc32': crc32 ?? undefined,
        'content-md5': crc32 === null && md5 !== null ? encodeHex(md5) : undefined,
      },
      payloadHash: sha256 ?? 'UNSIGNED-PAYLOAD',
    };
    const { headers } = await client.send(request, send);
    if (headers.etag) return headers.etag;
    throw notAStore(`HTTP 200 without an ETag for a part. ${usualAdvice}`);
  }, signal);
  return { number, bytes: body.length, tag: crc32 === null ? etag : `${etag} ${crc32}` };
}

/**
 * Completes an upload and checks that the object is whole. @returns its ETag
 *
 * @throws SluiceError `destination.conflict` if the key does not have what `whole.replaces` says; `run.lease_lost`
 */
async function completeUpload(whole: WholeUpload): Promise<string> {
  const { connection, upload, parts, signal } = whole;
  const withLease = guardedBy(whole.lease);
  try {
    const { given, key } = await connection.request(async (client, send) => {
      const condition = completionCondition(whole.replaces, connection.traits);
      const request = completion(upload, parts, condition);
      const texts = textsOf(await client.send(request, await withLease(send)));
      const [etag, key] = [texts.get('ETag'), texts.get('Key')];
      checkLength('the ETag of a completed upload', etag);
      // A store that fails after it began to answer sends status 200 without a result.
      if (!etag && !key) {
        const detail = 'the store answered the completion without a result';
        throw new SluiceError('destination.unavailable', detail);
      }
      return { given: etag ?? '', key };
    }, signal);
    // Then the store names exactly this object and the bytes that were sent.
    const isProven = whole.areDigests && given === digestOf(parts) && key === upload.key;
    return isProven ? given : await checkObject(whole, given);
  } catch (error) {
    return judgeCompletion(whole, error, completeUpload);
  }
}

export function completion(
  upload: UploadRef,
  parts: readonly UploadPart[],
  condition: PutCondition,
): StoreRequest {
  const listed = parts.map((part) => {
    const [etag = '', checksum] = part.tag.split(' ');
    const sum =
      checksum === undefined ? '' : `<ChecksumCRC32>${escapeXml(checksum)}</ChecksumCRC32>`;
    return `<Part><ETag>${escapeXml(etag)}</ETag>${sum}<PartNumber>${part.number}</PartNumber></Part>`;
  });
  const body = `<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${listed.join('')}</CompleteMultipartUpload>`;
  return {
    ...{ method: 'POST', key: upload.key, query: { uploadId: splitId(upload)[1] } },
    headers: { 'content-type': 'application/xml', ...conditionHeaders(condition) },
    body: Buffer.from(body),
  };
}
