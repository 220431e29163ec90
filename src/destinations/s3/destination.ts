import type {
  CheckStep,
  Destination,
  DestinationContext,
  FileOptions,
  FileWriter,
  ManifestTag,
  OpenUpload,
  ReadOptions,
  StoreTraits,
  UploadJournal,
  UploadProgress,
  UploadRef,
} from '../destination.ts';
import { callDeadline, delayAbort } from './call-deadline.ts';
import { checkDestination } from './check.ts';
import type { S3Connection } from './client.ts';
import { commitManifest } from './manifest.ts';
import { deleteObjects, headObject, listObjects, readObject } from './objects.ts';
import { probePutsOf, probeStore } from './probe.ts';
import { abortUpload, listUploads, ownerOf } from './uploads.ts';
import { createWriter, resumeWriter } from './writer.ts';

/** How a store behaves that was not probed yet: as S3 does. */
const assumedTraits: StoreTraits = {
  ifNoneMatch: true,
  ifMatch: 'quoted',
  completeIfNoneMatch: true,
  completeIfMatch: true,
  checksums: true,
  sealsUploads: true,
};

/** A probe during a commit delays a run that holds a lease. */
const probePatienceMs = 60_000;

/** Within the default of SHUTDOWN_GRACE_SECONDS. */
const commitPatienceMs = 10_000;

export class S3Destination implements Destination {
  readonly #connection: S3Connection;
  readonly #folder: string;
  readonly #context: DestinationContext;
  /** Whether the connection's traits are only partly known: a commit probed no more than it needed. */
  #isAssuming = false;

  /** @param folder what all keys begin with; probes put their objects there */
  constructor(connection: S3Connection, folder: string, context: DestinationContext) {
    this.#connection = connection;
    this.#folder = folder;
    this.#context = context;
  }

  createFile(
    options: FileOptions,
    journal: UploadJournal,
    signal?: AbortSignal,
  ): Promise<FileWriter> {
    return createWriter(this.#connection, options, this.#context, journal, signal);
  }

  resumeFile(
    _options: FileOptions,
    progress: UploadProgress,
    journal: UploadJournal,
    signal?: AbortSignal,
  ): Promise<FileWriter> {
    return resumeWriter(this.#connection, progress, this.#context, journal, signal);
  }

  abortUpload(upload: UploadRef, signal?: AbortSignal): Promise<void> {
    return abortUpload(this.#connection, upload, signal);
  }

  listUploads(prefix: string, signal?: AbortSignal): AsyncIterable<OpenUpload> {
    return listUploads(this.#connection, prefix, signal);
  }

  get traits(): StoreTraits | null {
    return this.#isAssuming ? null : this.#connection.traits;
  }

  async probe(signal: AbortSignal, journal?: UploadJournal): Promise<StoreTraits> {
    const traits = await probeStore(this.#connection, this.#folder, signal, journal);
    this.#connection.traits = traits;
    this.#isAssuming = false;
    return traits;
  }

  commitManifest(
    key: string,
    body: Uint8Array,
    expected: ManifestTag,
    confirm: () => Promise<void> = async () => {},
    ours: readonly string[] = [],
    given?: AbortSignal,
  ): Promise<{ readonly etag: ManifestTag }> {
    // A put that is cut off may still take effect, so a shutdown waits for its answer.
    const signal = callDeadline(given && delayAbort(given, commitPatienceMs));
    const probe = () => this.#probePuts(callDeadline(signal, probePatienceMs));
    return commitManifest(this.#connection, key, body, expected, { confirm, probe, ours, signal });
  }

  async #probePuts(signal: AbortSignal): Promise<StoreTraits> {
    const known = this.#connection.traits;
    const puts = await probePutsOf(this.#connection, this.#folder, signal);
    this.#isAssuming ||= known === null;
    const traits = { ...(known ?? assumedTraits), ...puts };
    this.#connection.traits = traits;
    return traits;
  }

  readFile(key: string, options?: ReadOptions) {
    return readObject(this.#connection, key, options);
  }

  async statFile(key: string, signal?: AbortSignal) {
    const found = await headObject(this.#connection, key, callDeadline(signal));
    if (found === null) return null;
    const { ContentLength: bytes = 0, ETag: etag = null, Metadata: metadata } = found;
    return { bytes, etag, owner: ownerOf(metadata) };
  }

  listFiles(prefix: string) {
    return listObjects(this.#connection, prefix);
  }

  deleteFiles(keys: readonly string[], signal?: AbortSignal): Promise<void> {
    return deleteObjects(this.#connection, keys, signal);
  }

  test(signal: AbortSignal): Promise<readonly CheckStep[]> {
    return checkDestination(this.#connection, this.#folder, this.#context, signal);
  }

  async close(): Promise<void> {
    this.#connection.close();
  }
}
