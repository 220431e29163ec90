import type { Agent as HttpAgent } from 'node:http';
import type { Agent as HttpsAgent } from 'node:https';
import type { TObject } from 'typebox';
import type { DestinationConfig } from '../../foundation/domain/file-settings.ts';
import type { Problem } from '../../foundation/domain/problem.ts';
import type { RetryPolicy } from '../../foundation/domain/retry-policy.ts';
import { type StoreTraits, usualParts } from '../../foundation/domain/store-traits.ts';
import type { Instant } from '../../foundation/domain/time.ts';
import type { SharedProbes } from './shared-probes.ts';

export type { StoreTraits } from '../../foundation/domain/store-traits.ts';

export interface UploadRef {
  readonly key: string;
  /** Only the destination reads it. */
  readonly uploadId: string;
}

export interface FileOptions {
  readonly key: string;
  /** The file's own type. With a Content-Encoding clients would unpack a `.gz`, and the manifest would not fit. */
  readonly contentType: string;
  /** The export, recorded with the object. */
  readonly owner?: string;
  /** The run that makes the file, recorded with the object. */
  readonly run?: RunMark;
  /** True if the key is meant for this file only. If the store keeps If-None-Match, a small file has no upload then. */
  readonly isNewKey?: boolean;
  /** The file ends once it has about this many bytes; null or missing: it has no limit. */
  readonly maxBytes?: number | null;
}

/** Which run made a file, and in which era of its database: a copy of the database has other runs. */
export interface RunMark {
  readonly id: string;
  readonly era: string;
}

export interface FileFacts {
  readonly bytes: number;
  readonly etag: string | null;
  /** The export that made the object; null or missing if that is not known. */
  readonly owner?: string | null;
  /** The run that made it; null or missing if that is not known. */
  readonly run?: RunMark | null;
  /** When it was put, by the clock of the store; null or missing if the store does not say. */
  readonly modifiedAt?: Instant | null;
}

/** An address that reads one object without credentials, for a short time. */
export interface FileLink {
  readonly url: string;
  /** By our clock. Sooner than asked if the credentials of the destination end sooner. */
  readonly expiresAt: Instant;
}

export interface OpenObject {
  readonly body: AsyncIterable<Uint8Array>;
  readonly etag: string | null;
  readonly modifiedAt?: Instant | null;
}

/**
 * One file that is being written. Nothing is readable at `key` before `complete`; `abort` leaves
 * nothing behind. `write` resolves once there is room for more (back-pressure), in order; then `bytes`
 * may be reused. After a failure each call throws it; the caller must still call `abort`.
 */
export interface FileWriter {
  /** Null if none was begun. */
  readonly upload: UploadRef | null;
  /** Once it has resolved, the caller may use the memory of the bytes again. */
  write(bytes: Uint8Array): Promise<void>;
  /** Waits until every byte is at the destination, not yet readable. Afterwards nothing may be written. */
  flush(): Promise<void>;
  /** Makes the whole file readable. May be called again. @throws `destination.conflict` if the key is not as `replaces` says */
  complete(options?: CompleteOptions): Promise<{ readonly etag: string | null }>;
  /** Stops what is in flight and removes the upload. No effect after `complete`, or again. */
  abort(): Promise<void>;
}

export interface CompleteOptions {
  /** The tag that must be at the key; null: it must be free; undefined: anything is replaced. */
  readonly replaces?: ManifestTag;
  /** The file is not made readable unless the lease holds (`run.lease_lost`). Absent: it may be at any time. */
  readonly lease?: PutLease;
}

export interface ReadOptions {
  readonly signal?: AbortSignal;
  /** For an object that the caller holds in memory. */
  readonly maxBytes?: number;
}

/** Is notified of uploads, so that none is forgotten. */
export interface UploadJournal {
  /** Begins the names of markers that a probe writes: they show whose they are. */
  readonly marker: string;
  /** Must be durable before an upload or marker is begun: a sweep must look for it. @throws `run.lease_lost`: then none may be */
  starting(): Promise<void>;
  /** The bytes of one more part of a file are at the destination. */
  sent(key: string, part: number, bytes: number): Promise<void>;
}

/** For what ends within one request to us: no sweep looks for it. */
export const unrecorded: UploadJournal = {
  marker: '',
  starting: async () => {},
  sent: async () => {},
};

export const allTraits: StoreTraits = {
  ifNoneMatch: true,
  ifMatch: 'quoted',
  completeIfNoneMatch: true,
  completeIfMatch: true,
  checksums: true,
  parts: usualParts,
};

export interface CheckStep {
  readonly step: string;
  readonly passed: boolean;
  /** The fault and the remedy; null if the step passed. */
  readonly error: string | null;
  /** A weakness with which runs work; null if nothing is. */
  readonly warning: string | null;
}

/** The tag of an interval's current manifest as we recorded it; null if there is none. */
export type ManifestTag = string | null;

/** The lease of the run on whose behalf an object is put, as this process knows it. */
export interface PutLease {
  /** Says whether it lasts by each clock of this process. Sends nothing, so it can be the last thing before a put. */
  holds(): boolean;
  /** Asks our database if little of it is left, or `always`: a machine may have been paused. @throws `run.lease_lost` */
  extend(always: boolean): Promise<void>;
}

export interface ManifestOptions {
  /** Checks the run's fence right before each unconditional put; it throws to prevent the put. */
  readonly confirm?: () => Promise<void>;
  /** MD5 digests (hexadecimal) of manifests that may be replaced: credentials that cannot read know no others. */
  readonly ours?: readonly string[];
  /** Nothing is sent once it does not hold: `run.lease_lost`. Absent: the put may come at any time. */
  readonly lease?: PutLease;
  /** Records the marker of a probe that the put may need. Absent: a later probe removes it if this process dies. */
  readonly journal?: UploadJournal;
  readonly signal?: AbortSignal | undefined;
}

/**
 * An open connection to one export's destination. Throws SluiceError `destination.*` only. A method that
 * takes no signal, or is called without one, has a deadline of its own; the body of a file has a minimum
 * speed instead.
 */
export interface Destination {
  /** Call it before more than some hundred KiB are made of what was read. Absent: there is memory. @throws `run.released` */
  readonly holds?: (bytes: number) => void;
  /** The probed abilities of the store; null before the first probe. The destination may probe again by itself. */
  readonly traits: StoreTraits | null;
  /**
   * Tries out what the store supports, with marker objects that it removes again. If another export of
   * the project did so at the same store since this one was changed, its result is used.
   *
   * @param journal so that the markers are removed if this process dies
   */
  probe(signal: AbortSignal, journal?: UploadJournal): Promise<StoreTraits>;
  /** @param signal stops what the writer waits for; the caller must still call `abort` */
  createFile(
    options: FileOptions,
    journal: UploadJournal,
    signal?: AbortSignal,
  ): Promise<FileWriter>;
  /** Aborts an upload that another attempt left behind; an unknown one is no error. */
  abortUpload(upload: UploadRef, signal?: AbortSignal): Promise<void>;
  listUploads(prefix: string, signal?: AbortSignal): AsyncIterable<UploadRef>;
  /** The commit point: puts the manifest if the current one is `expected`, or anyway if the store knows no conditions. */
  commitManifest(
    key: string,
    body: Uint8Array,
    expected: ManifestTag,
    options?: ManifestOptions,
  ): Promise<{ readonly etag: ManifestTag }>;
  /**
   * The object's bytes and tag, or null if there is no object. Read the body to its end or leave the
   * loop: until then it holds a connection or an open file.
   *
   * @throws SluiceError `destination.invalid_answer` if the object has more than `options.maxBytes`
   */
  readFile(key: string, options?: ReadOptions): Promise<OpenObject | null>;
  /** Size and tag of the object, and who made it; null if there is none. */
  statFile(key: string, signal?: AbortSignal): Promise<FileFacts | null>;
  /** A link with which a browser saves the object as `name`. Absent: the destination has no links. */
  readonly linkFile?: (
    key: string,
    options: { readonly seconds: number; readonly name: string; readonly signal: AbortSignal },
  ) => Promise<FileLink>;
  /** Every readable object whose key starts with `prefix`, ascending by key. @param after the list begins with the next key */
  listFiles(
    prefix: string,
    signal?: AbortSignal,
    after?: string,
  ): AsyncIterable<{ readonly key: string; readonly bytes: number }>;
  /** Missing ones are no error. */
  deleteFiles(keys: readonly string[], signal?: AbortSignal): Promise<void>;
  /** Tries each step of a run, with a marker object that is removed again, up to the first that fails. */
  test(signal: AbortSignal): Promise<readonly CheckStep[]>;
  close(): Promise<void>;
}

export interface DestinationContext {
  /** For all connections. They refuse forbidden addresses with SluiceError `destination.endpoint_forbidden`. */
  readonly httpAgent: HttpAgent;
  readonly httpsAgent: HttpsAgent;
  /** Why the agents refuse the host of a URL, without asking a resolver. Absent: they refuse none. */
  readonly refusalOf?: (url: URL) => string | null;
  readonly allowAmbientCredentials: boolean;
  /** Endpoint for assuming roles; null: AWS's endpoint of the region. */
  readonly stsEndpoint: string | null;
  readonly fileDestinationRoot: string | null;
  /** Bytes of a file's first parts; minimum 5 MiB for S3. */
  readonly partBytes: number;
  readonly partsInFlight: number;
  /** Maximum parts per file; 10,000 at S3. Part sizes grow so that any size fits. */
  readonly maxParts: number;
  readonly connectTimeoutMs: number;
  /** A request that moves (nearly) no byte for this time has stalled. */
  readonly stallTimeoutMs: number;
  /** A request that is slower, on average and after the first `stallTimeoutMs`, is ended. */
  readonly minBytesPerSecond: number;
  /** Retries of a single request within an attempt; the worker retries whole attempts. */
  readonly requestRetry: RetryPolicy;
  /** Between exports at the same store; absent: each destination probes. */
  readonly sharedProbes?: SharedProbes;
}

/** An option of each HTTP request: the agents resolve names on behalf of a tenant. */
export interface OwnedRequest {
  readonly tenant: string;
}

export interface DestinationOwner {
  /** Made per project. A role's trust policy names it, so that no other project can use the role. */
  readonly externalId: string;
  /** The time since the export was changed; default: just now. */
  readonly changedForMs?: number;
}

/** A destination as data: `configSchema` makes validation, OpenAPI and form. Secrets have `writeOnly: true`. */
export interface DestinationDefinition {
  readonly type: string;
  readonly configSchema: TObject;
  /** The secret property that is the id of a key; absent: none. Its last characters are shown. */
  readonly keyIdProperty?: string | undefined;
  /** Properties of the config besides the file settings: the place of the files, and how it is reached. */
  readonly ownProperties: readonly string[];
  /** Says whether an installation has what the destination needs. The API refuses a config of another. */
  isAvailable(context: DestinationContext): boolean;
  /** False if nothing that is written can be read again: then there is nothing to verify, and no upload to note. */
  readonly keepsFiles: boolean;
  /** True if a run holds parts of its file in memory until they are sent. */
  readonly buffersParts: boolean;
  /** True if files can make up a table: their address is the same for every reader. */
  readonly holdsTables?: boolean | undefined;
  /**
   * Rules that a schema cannot express. The `attr` of each problem is the property
   * (`aws_secret_access_key`). `config` has passed the schema, and its defaults are filled in.
   */
  validate(config: DestinationConfig, context: DestinationContext): readonly Problem[];
  /** Identifies the place of a config's files, without the prefix. If it changes, the export has moved. */
  place(config: DestinationConfig): string;
  /** The address of an object as its own tools take it: `s3://bucket/key`. Null if there is none. */
  uri(config: DestinationConfig, key: string): string | null;
  /**
   * The config as it is stored for a project, if all projects share one store. It changes the place so that
   * no project reaches the files of another. Absent: the store keeps its users apart.
   *
   * @param config not checked yet; the result is
   */
  readonly enclose?:
    | ((config: DestinationConfig, projectId: number) => DestinationConfig)
    | undefined;
  /**
   * `config` has passed the schema and `validate` and contains its secrets. Opens no connection.
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
