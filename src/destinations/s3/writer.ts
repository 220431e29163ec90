import { SluiceError } from '../../domain/errors.ts';
import { failpoint } from '../../failpoints/failpoint.ts';
import type {
  CompleteOptions,
  DestinationContext,
  FileOptions,
  FileWriter,
  UploadJournal,
  UploadPart,
  UploadProgress,
  UploadRef,
} from '../destination.ts';
import { callDeadline, delayAbort } from './call-deadline.ts';
import type { S3Connection } from './client.ts';
import { completeUpload } from './complete-upload.ts';
import { toDestinationError } from './errors.ts';
import { PartDigest, type PartSums } from './part-digest.ts';
import { partSize } from './part-sizes.ts';
import {
  abortUpload,
  createUpload,
  hasSameEncryption,
  listParts,
  partEtag,
  signsParts,
  takesChecksums,
  uploadPart,
} from './uploads.ts';

type Limits = Pick<DestinationContext, 'partBytes' | 'partsInFlight' | 'maxParts'>;

/** Begins a file. The journal records it before the store is asked, and its id before this resolves. */
export async function createWriter(
  connection: S3Connection,
  options: FileOptions,
  limits: Limits,
  journal: UploadJournal,
  signal?: AbortSignal,
): Promise<FileWriter> {
  const patient = callDeadline(signal && delayAbort(signal, createPatienceMs));
  await journal.starting(options.key);
  const { upload, checksums, alone } = await createUpload(connection, options, patient);
  await failpoint('upload_begun');
  const writer = new S3Writer(connection, upload, limits, journal, checksums, [], signal);
  try {
    await journal.started(upload, alone);
  } catch (error) {
    // It has no record, so it must not remain.
    await abortUpload(connection, upload, AbortSignal.timeout(abortPatienceMs)).catch(() => {});
    throw error;
  }
  return writer;
}

/**
 * If a request for an upload is given up, its answer would be lost, and so the upload's id: wait for a
 * while.
 */
const createPatienceMs = 5_000;

/** A file's first buffer, and how much larger each of the next is until it has the size of a part. */
const firstBytes = 64 * 1024;
const growth = 4;

/** A cancelled run keeps its slot while its uploads are aborted. The sweep aborts the others. */
const abortPatienceMs = 5_000;

/**
 * Continues an upload. Recorded parts that the store still has are not sent again.
 *
 * @throws SluiceError `destination.upload_lost` if the file has to be begun again
 */
export async function resumeWriter(
  connection: S3Connection,
  progress: UploadProgress,
  limits: Limits,
  journal: UploadJournal,
  signal?: AbortSignal,
): Promise<FileWriter> {
  const { key, uploadId, parts } = progress;
  const checksums = takesChecksums(progress);
  // A part of the earlier attempt that arrives after our Complete would change the object.
  const isSafe = connection.traits?.sealsUploads ?? true;
  const isEncrypted = hasSameEncryption(connection, progress);
  if (checksums === null || !isSafe || !isEncrypted) {
    // The lineage has not reached its commit, so no attempt can be completing the upload.
    await abortUpload(connection, progress, signal);
    const why = !isSafe
      ? 'begun by another attempt, at a store that takes parts of a completed upload'
      : isEncrypted
        ? 'begun by an older release, without a part'
        : 'begun with another encryption';
    throw new SluiceError('destination.upload_lost', why);
  }
  const held = new Map(
    (await listParts(connection, progress, signal)).map((part) => [part.number, part]),
  );
  const known = parts.filter((part) => {
    const found = held.get(part.number);
    return found?.bytes === part.bytes && found.tag === partEtag(part);
  });
  return new S3Writer(
    connection,
    { key, uploadId },
    limits,
    journal,
    checksums,
    known,
    signal,
    true,
  );
}

/**
 * A file as a multipart upload, however small. Once the next attempt has aborted an upload, no store
 * can complete it. So a worker that lost its lease cannot put its object over a committed one. A single
 * PutObject could, at any later time.
 */
class S3Writer implements FileWriter {
  readonly upload: UploadRef;
  readonly #connection: S3Connection;
  readonly #limits: Limits;
  readonly #journal: UploadJournal;
  readonly #checksums: boolean;
  /** Whether another attempt, which may still run, has the upload too. */
  readonly #shared: boolean;
  readonly #stop = new AbortController();
  readonly #signal: AbortSignal;
  readonly #inFlight = new Set<Promise<void>>();
  /** Parts that arrived before an earlier one. */
  readonly #early = new Map<number, UploadPart>();
  /** Parts that an earlier attempt sent and the store has. */
  readonly #known: ReadonlyMap<number, UploadPart>;
  /** The parts that arrived, without a gap. */
  readonly #parts: UploadPart[] = [];
  /** Buffers to reuse: allocating one costs more than filling it. */
  readonly #spare: Buffer[] = [];
  #buffer: Buffer | null = null;
  /** Of the part that is being filled; the buffer may still be smaller. */
  #partBytes = 0;
  #filled = 0;
  #digest: PartDigest | null = null;
  #nextNumber = 1;
  #recorded: Promise<void> = Promise.resolve();
  #failure: SluiceError | null = null;
  #sealed = false;
  #aborted = false;
  /** Whether the tag of the first part is its MD5. */
  #isDigest = false;
  #result: { readonly etag: string } | null = null;

  constructor(
    connection: S3Connection,
    upload: UploadRef,
    limits: Limits,
    journal: UploadJournal,
    checksums: boolean,
    known: readonly UploadPart[],
    signal?: AbortSignal,
    shared = false,
  ) {
    this.#shared = shared;
    this.#connection = connection;
    this.upload = upload;
    this.#limits = limits;
    this.#journal = journal;
    this.#checksums = checksums;
    this.#known = new Map(known.map((part) => [part.number, part]));
    this.#signal = signal ? AbortSignal.any([this.#stop.signal, signal]) : this.#stop.signal;
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
    if (!this.#sealed && unsent) await this.#sendPart();
    this.#sealed = true;
    await Promise.all(this.#inFlight);
    this.#throwFailure();
  }

  async complete(options: CompleteOptions = {}): Promise<{ readonly etag: string }> {
    if (this.#result === null) {
      await this.flush();
      const areDigests = this.#isDigest && this.#parts.length === 1;
      const whole = { parts: this.#parts, shared: this.#shared, areDigests, ...options };
      const etag = await completeUpload(this.#connection, this.upload, whole, this.#signal);
      this.#result = { etag };
    }
    await this.#journal.ended(this.upload);
    return this.#result;
  }

  async abort(): Promise<void> {
    if (this.#result !== null || this.#aborted) return;
    this.#fail(new SluiceError('destination.unavailable', 'the upload was aborted'));
    await Promise.all(this.#inFlight);
    await abortUpload(this.#connection, this.upload, AbortSignal.timeout(abortPatienceMs));
    await this.#journal.ended(this.upload);
    this.#aborted = true;
  }

  async suspend(): Promise<void> {
    if (this.#result !== null || this.#aborted) return;
    this.#fail(new SluiceError('destination.unavailable', 'the upload was suspended'));
    await Promise.all(this.#inFlight);
  }

  /** Starts to send the buffer; resolves when another part may be filled. */
  async #sendPart(): Promise<void> {
    const number = this.#nextNumber;
    const buffer = this.#buffer ?? Buffer.alloc(0);
    const sums = (this.#digest ?? this.#openDigest()).end();
    const sending = this.#upload(number, buffer, this.#filled, sums);
    this.#nextNumber = number + 1;
    this.#buffer = null;
    this.#filled = 0;
    this.#digest = null;
    this.#inFlight.add(sending);
    void sending.then(() => this.#inFlight.delete(sending));
    if (this.#inFlight.size >= this.#limits.partsInFlight) await Promise.race(this.#inFlight);
    this.#throwFailure();
  }

  #openDigest(): PartDigest {
    return new PartDigest({
      crc32: this.#checksums,
      sha256: signsParts(this.#connection, this.#checksums),
      // Small files have one part.
      md5: this.#nextNumber === 1 || this.#known.has(this.#nextNumber),
    });
  }

  /** Never rejects: a failure stops the other parts, and the next call throws it. */
  async #upload(number: number, buffer: Buffer, length: number, sums: PartSums): Promise<void> {
    try {
      const body = buffer.subarray(0, length);
      const part = this.#findKnown(number, length, sums) ?? (await this.#send(number, body, sums));
      if (number === 1) this.#isDigest = partEtag(part) === `"${sums.md5}"`;
      this.#spare.push(buffer);
      await this.#record(part);
    } catch (error) {
      this.#fail(toDestinationError(error, []));
    }
  }

  #send(number: number, body: Buffer, sums: PartSums): Promise<UploadPart> {
    return uploadPart(this.#connection, this.upload, number, body, sums, this.#signal);
  }

  /** The part as an earlier attempt sent it, if it had the same bytes: its ETag is their MD5. */
  #findKnown(number: number, length: number, { md5 }: PartSums): UploadPart | null {
    const known = this.#known.get(number);
    if (known?.bytes !== length) return null;
    return partEtag(known).replaceAll('"', '') === md5 ? known : null;
  }

  async #record(part: UploadPart): Promise<void> {
    this.#early.set(part.number, part);
    const before = this.#parts.length;
    for (;;) {
      const next = this.#early.get(this.#parts.length + 1);
      if (next === undefined) break;
      this.#parts.push(next);
      this.#early.delete(next.number);
    }
    // The record of the earlier attempt stays until there is more.
    if (this.#parts.length === before || this.#parts.length <= this.#known.size) return;
    const progress = { ...this.upload, parts: [...this.#parts] };
    this.#recorded = this.#recorded.then(() => this.#journal.progressed(progress));
    await this.#recorded;
  }

  /** Throws rather than send a part too many, which would cut the file. */
  #takeBuffer(): Buffer {
    if (this.#nextNumber > this.#limits.maxParts) {
      const detail = `the file needs more than ${this.#limits.maxParts} parts; set max_file_size_mb`;
      this.#fail(new SluiceError('destination.invalid_config', detail));
      this.#throwFailure();
    }
    const size = partSize(this.#nextNumber, this.#limits.partBytes, this.#limits.maxParts);
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
