import { randomUUID } from 'node:crypto';
import { type ErrorCode, SluiceError, toSluiceError } from '../../../foundation/domain/errors.ts';
import { failpoint } from '../../../foundation/failpoints/failpoint.ts';
import type {
  CompleteOptions,
  DestinationContext,
  FileOptions,
  FileWriter,
  UploadJournal,
  UploadRef,
} from '../destination.ts';
import { withDelayedAbort } from './call-deadline.ts';
import type { S3Connection } from './client.ts';
import { allowedParts, codeOf, toDestinationError } from './errors.ts';
import { PartDigest, type PartSums } from './part-digest.ts';
import { learnParts, type PartPlan, partSize, planParts } from './part-sizes.ts';
import { type FilePut, putFile } from './put-object.ts';
import {
  abortUpload,
  type BegunUpload,
  completeUpload,
  createUpload,
  partEtag,
  signsParts,
  type UploadPart,
  uploadPart,
} from './uploads.ts';

export type PartLimits = Pick<DestinationContext, 'partBytes' | 'partsInFlight' | 'maxParts'>;

/** The bucket of a file, and what is notified of its upload. */
interface Writing {
  readonly connection: S3Connection;
  readonly limits: PartLimits;
  readonly journal: UploadJournal;
  readonly signal?: AbortSignal | undefined;
  /** Probes again how the store treats conditional puts. Absent: no file is put at once. */
  readonly probe?: FilePut['probe'];
}

/** A file's first buffer, and how much larger each of the next is until it has the size of a part. */
const firstBytes = 64 * 1024;
const growth = 4;

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
  /** Buffers to reuse: allocating one costs more than filling it. */
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
      this.#buffer = this.#makeRoom(this.#buffer, this.#filled + taken.length);
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
      const { upload } = this.#begun;
      await abortUpload(this.#connection, upload, AbortSignal.timeout(abortPatienceMs));
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

  /** @param made of the same bytes, as if the store takes what its traits say */
  #sumsOf(body: Buffer, made: PartSums, checksums: boolean): PartSums {
    if (checksums === (made.crc32 !== null)) return made;
    const digest = this.#openDigest(checksums);
    digest.update(body);
    return digest.end();
  }

  /** Starts to send the buffer; resolves when another part may be filled. */
  async #sendPart(): Promise<void> {
    const number = this.#nextNumber;
    const buffer = this.#buffer ?? Buffer.alloc(0);
    let sums = (this.#digest ?? this.#openDigest()).end();
    if (this.#begun === null) {
      this.#begun = await this.#begin();
      sums = this.#sumsOf(buffer.subarray(0, this.#filled), sums, this.#begun.checksums);
    }
    const { upload } = this.#begun;
    const sending = this.#upload(upload, number, buffer, this.#filled, sums);
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

  /** The written bytes do not fit into one request. */
  async #begin(): Promise<BegunUpload> {
    try {
      return await beginUpload(this.#writing, this.#options);
    } catch (error) {
      this.#fail(toDestinationError(error));
      throw error;
    }
  }

  #openDigest(checksums = this.#takesChecksums()): PartDigest {
    return new PartDigest({
      crc32: checksums,
      sha256: signsParts(this.#connection, checksums),
      // Small files have one part. A part without a CRC32 has this checksum.
      md5: !checksums || this.#nextNumber === 1,
    });
  }

  #takesChecksums(): boolean {
    return this.#begun?.checksums ?? this.#connection.traits?.checksums ?? true;
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
      const isLarger = equal && this.#learn(null);
      const code = isLarger ? 'destination.invalid_parts' : 'destination.invalid_config';
      this.#fail(new SluiceError(code, detail));
      this.#throwFailure();
    }
    const size = partSize(this.#nextNumber, this.#plan);
    this.#partBytes = size;
    const spare = this.#spare.pop();
    if (spare?.length === size) return spare;
    this.#spare.length = 0;
    // Most files are much smaller than a part.
    return Buffer.allocUnsafeSlow(this.#nextNumber === 1 ? Math.min(size, firstBytes) : size);
  }

  /** The buffer, or a larger one with the same bytes. */
  #makeRoom(buffer: Buffer, needed: number): Buffer {
    if (needed <= buffer.length) return buffer;
    const grown = Math.min(this.#partBytes, Math.max(needed, growth * buffer.length));
    const larger = Buffer.allocUnsafeSlow(grown);
    buffer.copy(larger, 0, 0, this.#filled);
    return larger;
  }

  #fail(error: SluiceError): void {
    this.#failure ??= error;
    this.#stop.abort();
  }

  #throwFailure(): void {
    if (this.#failure !== null) throw this.#failure;
  }
}

/** Retryable errors that say that the upload was not completed. */
const refusals: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'destination.conflict',
  'destination.upload_lost',
  'destination.invalid_parts',
]);

function isRefused({ code, spec }: SluiceError): boolean {
  return refusals.has(code) || (code.startsWith('destination.') && !spec.retryable);
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
  const begun = await withDelayedAbort(signal, createPatienceMs, (patient) =>
    createUpload(connection, options, patient),
  );
  await failpoint('upload_begun');
  return begun;
}
