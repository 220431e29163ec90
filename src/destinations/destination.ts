import type { Agent as HttpAgent } from 'node:http';
import type { Agent as HttpsAgent } from 'node:https';
import type { TObject } from 'typebox';
import type { DestinationConfig } from '../domain/file-settings.ts';
import type { Problem } from '../domain/problem.ts';
import type { RetryPolicy } from '../domain/retry-policy.ts';
import type { StoreTraits } from '../domain/store-traits.ts';

export type { StoreTraits } from '../domain/store-traits.ts';

/** What the destination needs to continue or abort an upload after a crash; JSON, no secret. */
export interface UploadRef {
  readonly key: string;
  /** Opaque to all but the destination. */
  readonly uploadId: string;
}

/** Bytes of one file that are safely at the destination, though not yet readable. */
export interface UploadProgress extends UploadRef {
  /** The unbroken run of parts from the first byte on, in order, numbered from 1. */
  readonly parts: readonly UploadPart[];
}

export interface UploadPart {
  readonly number: number;
  readonly bytes: number;
  /** Opaque to all but the destination. */
  readonly tag: string;
}

export interface FileOptions {
  readonly key: string;
  /**
   * The file's own type. There is no Content-Encoding: clients that heed it would unpack a `.gz` on
   * the way, and the bytes would no longer be those of the manifest.
   */
  readonly contentType: string;
  /** Names the export in what a store keeps beside the bytes, if it keeps anything. */
  readonly owner?: string;
}

/** What a store says of an object without its bytes. */
export interface FileFacts {
  readonly bytes: number;
  readonly etag: string | null;
  /**
   * The export that made it; null if the object does not say, as those of earlier builds; left out by a
   * destination that keeps nothing beside the bytes.
   */
  readonly owner?: string | null;
}

/**
 * One file on its way. Nothing is readable at `key` before `complete`; `abort` leaves nothing
 * behind. `write` resolves once there is room for more (back-pressure), in order; `bytes` are free
 * for reuse then. After a failure each call throws it; `abort` or `suspend` is still due.
 */
export interface FileWriter {
  /** Names the upload in the journal. */
  readonly upload: UploadRef;
  write(bytes: Uint8Array): Promise<void>;
  /** Waits until every byte is at the destination, not yet readable. Nothing may be written after it. */
  flush(): Promise<void>;
  /**
   * Makes the file readable, whole, at its key. May be called again with the same effect.
   *
   * @throws SluiceError `destination.conflict` if the key does not hold what `options.replaces` says
   */
  complete(options?: CompleteOptions): Promise<{ readonly etag: string | null }>;
  /** Stops what is in flight and removes the upload. No effect after `complete`, or again. */
  abort(): Promise<void>;
  /** Stops what is in flight and keeps the upload for another attempt. No effect after `complete`. */
  suspend(): Promise<void>;
}

export interface CompleteOptions {
  /**
   * The tag of what must be at the key: null for nothing. Left out, anything is replaced, as it is by a
   * store that knows no conditional writes.
   */
  readonly replaces?: ManifestTag;
  /** Of the whole file, lower-case hexadecimal: a file whose upload two attempts shared is held against it. */
  readonly sha256?: string;
}

/** Told about uploads before and while they exist, so that none is ever forgotten. */
export interface UploadJournal {
  /**
   * Durable before a store is asked for an upload that it will name itself: should nobody hear the
   * answer, the upload is looked for under its key.
   */
  starting(key: string): Promise<void>;
  /**
   * Durable before the first byte is sent.
   *
   * @param alone false where the store may have begun other uploads for the same `starting`, whose
   *   names nobody heard
   */
  started(upload: UploadRef, alone: boolean): Promise<void>;
  /** Never called at once for one upload, and always with more bytes than the last time. */
  progressed(upload: UploadProgress): Promise<void>;
  /** The upload was completed or aborted. Called again where `complete` is. */
  ended(upload: UploadRef): Promise<void>;
}

/** One step of the destination's own test. */
export interface CheckStep {
  readonly step: string;
  readonly passed: boolean;
  /** What went wrong and what to do; null where it passed. */
  readonly error: string | null;
  /** What is weaker than it could be though runs work; null where nothing is. */
  readonly warning: string | null;
}

/** The manifest that is in force for an interval as we recorded it; null where there is none. */
export type ManifestTag = string | null;

/** An open connection to one export's destination. Throws SluiceError `destination.*` only. */
export interface Destination {
  /**
   * What the store is known to keep to; null if it was not tried yet. Each probe replaces it, also
   * one that the destination makes by itself since the store acted against it.
   */
  readonly traits: StoreTraits | null;
  /**
   * Tries out what the store keeps to, with marker objects beside the files that it removes again.
   *
   * @param journal hears of the marker's uploads, so that they are ended if this process dies
   */
  probe(signal: AbortSignal, journal?: UploadJournal): Promise<StoreTraits>;
  /** @param signal ends what the writer waits for; `abort` is still due */
  createFile(
    options: FileOptions,
    journal: UploadJournal,
    signal?: AbortSignal,
  ): Promise<FileWriter>;
  /**
   * Goes on with an upload of an earlier attempt. The file is written again from its first byte, for
   * the attempt reads a snapshot of its own; what turns out to be at the destination already is not
   * sent again. Throws `destination.upload_lost` where the destination no longer has the upload.
   */
  resumeFile(
    options: FileOptions,
    progress: UploadProgress,
    journal: UploadJournal,
    signal?: AbortSignal,
  ): Promise<FileWriter>;
  /** Aborts an upload that another attempt left behind; an unknown one is no error. */
  abortUpload(upload: UploadRef): Promise<void>;
  /**
   * Uploads under `prefix` that are neither completed nor aborted, for collecting forgotten ones. Their
   * ids end the ids that the journal was told.
   */
  listUploads(prefix: string): AsyncIterable<OpenUpload>;
  /**
   * The commit point: puts the manifest if the current one is still `expected`, else throws
   * `destination.conflict`. A store that knows no conditional writes puts it unconditionally.
   *
   * @param confirm asks the run's fence; called right before each unconditional put, which it
   *   prevents by throwing
   * @param ours MD5 digests (hexadecimal) of manifests that may be replaced though their tags are not
   *   known: credentials that may not read see them by no other name
   */
  commitManifest(
    key: string,
    body: Uint8Array,
    expected: ManifestTag,
    confirm?: () => Promise<void>,
    ours?: readonly string[],
  ): Promise<{ readonly etag: ManifestTag }>;
  /**
   * The object's bytes and tag, or null where there is none. The body must be read, to the end or
   * until the reader leaves its loop: it holds a connection or an open file.
   */
  readFile(
    key: string,
    signal?: AbortSignal,
  ): Promise<{ readonly body: AsyncIterable<Uint8Array>; readonly etag: string | null } | null>;
  /** Size, tag and owner of the object, or null if there is none. */
  statFile(key: string): Promise<FileFacts | null>;
  /** Every readable object whose key starts with `prefix`, ascending by key. */
  listFiles(prefix: string): AsyncIterable<{ readonly key: string; readonly bytes: number }>;
  /** Missing ones are no error. */
  deleteFiles(keys: readonly string[]): Promise<void>;
  /**
   * The checks of a run, one by one, with a marker object that is removed again. Ends with the
   * first step that fails.
   */
  test(signal: AbortSignal): Promise<readonly CheckStep[]>;
  close(): Promise<void>;
}

export interface OpenUpload extends UploadRef {
  /** Milliseconds since the Unix epoch by the destination's clock, where it tells. */
  readonly startedAt: number | null;
}

/** What the installation allows and provides; the same for every export. */
export interface DestinationContext {
  /**
   * All connections go through these. They keep sockets alive, live as long as the process and
   * refuse forbidden addresses with SluiceError `destination.endpoint_forbidden`.
   */
  readonly httpAgent: HttpAgent;
  readonly httpsAgent: HttpsAgent;
  readonly allowAmbientCredentials: boolean;
  /** Where roles are assumed; null for the region's own endpoint at AWS. */
  readonly stsEndpoint: string | null;
  readonly fileDestinationRoot: string | null;
  /** Bytes of one part before growth (5 MiB at least, for S3), and parts in flight per file. */
  readonly partBytes: number;
  readonly partsInFlight: number;
  /** Parts of one file at most; 10,000 at S3. Part sizes grow so that any size fits. */
  readonly maxParts: number;
  readonly connectTimeoutMs: number;
  /** A request that moves (nearly) no byte for so long has stalled. */
  readonly stallTimeoutMs: number;
  /** Repeats of a single request within an attempt; the worker repeats whole attempts. */
  readonly requestRetry: RetryPolicy;
}

/** Who an export belongs to, as far as a destination must know. */
export interface DestinationOwner {
  /** Made per project; a role's trust policy names it, so that no other project can use the role. */
  readonly externalId: string;
}

/**
 * A destination as a described object: API validation, secrets, OpenAPI and the form on the page
 * all follow from `configSchema`. Secret properties carry `writeOnly: true`.
 */
export interface DestinationDefinition {
  readonly type: string;
  readonly configSchema: TObject;
  /** False: nothing that is written can be read again, so there is nothing to verify. */
  readonly keepsFiles: boolean;
  /** Whether a run holds parts of its file in memory until they are sent. */
  readonly buffersParts: boolean;
  /**
   * Rules that a schema cannot say. The `attr` of each problem is the property (`aws_secret_access_key`).
   * `config` has passed the schema; a property that is absent has its default.
   */
  validate(config: DestinationConfig, context: DestinationContext): readonly Problem[];
  /**
   * Names where the files of a config go, its prefix aside. If two configs name the same, the one
   * reaches what the other has written; if they do not, the export moves to another place.
   */
  place(config: DestinationConfig): string;
  /**
   * `config` has passed the schema and `validate` and holds its secrets. Opens no connection.
   *
   * @param traits what an earlier probe found; null if none is known
   */
  open(
    config: DestinationConfig,
    context: DestinationContext,
    owner: DestinationOwner,
    traits?: StoreTraits | null,
  ): Destination;
}
