import type { TObject } from 'typebox';

/** What the destination needs to continue or abort an upload after a crash; JSON, no secret. */
export interface UploadRef {
  readonly key: string;
  /** Opaque to all but the destination. */
  readonly uploadId: string;
}

/** Bytes of one file that are safely at the destination, though not yet readable. */
export interface UploadProgress extends UploadRef {
  readonly parts: readonly {
    readonly number: number;
    readonly bytes: number;
    readonly tag: string;
  }[];
}

export interface FileOptions {
  readonly key: string;
  readonly contentType: string;
  /** `gzip` and the like where the whole file is compressed, else null. */
  readonly contentEncoding: string | null;
}

/**
 * One file on its way. Nothing is readable at `key` before `complete`; `abort` leaves nothing
 * behind. `write` resolves once there is room for more (back-pressure), in order.
 */
export interface FileWriter {
  write(bytes: Uint8Array): Promise<void>;
  /** Makes the file readable, whole, at its key. May be called again with the same effect. */
  complete(): Promise<{ readonly etag: string | null }>;
  abort(): Promise<void>;
}

/** Told about uploads before and while they exist, so that none is ever forgotten. */
export interface UploadJournal {
  /** Durable before the first byte is sent. */
  started(upload: UploadRef): Promise<void>;
  progressed(upload: UploadProgress): Promise<void>;
  ended(upload: UploadRef): Promise<void>;
}

/** One step of the destination's own test. */
export interface CheckStep {
  readonly step: string;
  readonly passed: boolean;
  /** What went wrong and what to do; null where it passed. */
  readonly error: string | null;
}

/** The manifest that is in force for an interval as we recorded it; null where there is none. */
export type ManifestTag = string | null;

/** An open connection to one export's destination. Throws SluiceError `destination.*` only. */
export interface Destination {
  createFile(options: FileOptions, journal: UploadJournal): Promise<FileWriter>;
  /** Aborts an upload that another attempt left behind; an unknown one is no error. */
  abortUpload(upload: UploadRef): Promise<void>;
  /**
   * The commit point: puts the manifest if the one in force is still `expected`, else throws
   * `destination.conflict`. A store that knows no conditional writes puts it unconditionally.
   */
  commitManifest(
    key: string,
    body: Uint8Array,
    expected: ManifestTag,
  ): Promise<{ readonly etag: ManifestTag }>;
  /** The object's bytes and tag, or null where there is none. */
  readFile(
    key: string,
    signal?: AbortSignal,
  ): Promise<{ readonly body: AsyncIterable<Uint8Array>; readonly etag: string | null } | null>;
  listFiles(prefix: string): AsyncIterable<{ readonly key: string; readonly bytes: number }>;
  deleteFiles(keys: readonly string[]): Promise<void>;
  /** The checks of a run, one by one, with a marker object that is removed again. */
  test(signal: AbortSignal): Promise<readonly CheckStep[]>;
  close(): Promise<void>;
}

/** What the installation allows and provides; the same for every export. */
export interface DestinationContext {
  /** Endpoints on private addresses that tenants may name, `host` or `host:port`. */
  readonly allowedPrivateEndpoints: readonly string[];
  readonly allowAmbientCredentials: boolean;
  readonly fileDestinationRoot: string | null;
  /** Bytes of one part before growth, and parts in flight per file. */
  readonly partBytes: number;
  readonly partsInFlight: number;
  /** An upload that moves no byte for so long has stalled. */
  readonly stallTimeoutMs: number;
}

/**
 * A destination as a described object: API validation, secrets, OpenAPI and the form on the page
 * all follow from `configSchema`. Secret properties carry `writeOnly: true`.
 */
export interface DestinationDefinition {
  readonly type: string;
  readonly configSchema: TObject;
  /** Rules that a schema cannot say. Each problem names the property (`aws_secret_access_key`). */
  validate(config: Record<string, unknown>, context: DestinationContext): readonly ConfigProblem[];
  /** `config` has passed the schema and `validate` and holds its secrets. */
  open(config: Record<string, unknown>, context: DestinationContext): Destination;
}

export interface ConfigProblem {
  readonly property: string;
  readonly code:
    | 'required'
    | 'invalid_choice'
    | 'invalid_input'
    | 'max_length'
    | 'min_value'
    | 'max_value';
  readonly detail: string;
}
