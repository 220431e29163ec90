import {
  allTraits,
  type Destination,
  type DestinationContext,
  type UploadJournal,
} from '../destination.ts';
import { callDeadline, withDelayedAbort } from './call-deadline.ts';
import { checkDestination } from './check.ts';
import type { S3Connection } from './client.ts';
import { commitManifest } from './manifest.ts';
import { ownerOf, runOf } from './object-metadata.ts';
import { deleteObjects, headObject, listObjects, listUploads, readObject } from './objects.ts';
import { probePutsOf, probeStore } from './probe.ts';
import { abortUpload } from './upload-doubts.ts';
import { openWriter } from './writer.ts';

/** A probe during a commit delays a run that holds a lease. */
const probePatienceMs = 60_000;

/** Within the default of SHUTDOWN_GRACE_SECONDS. */
const commitPatienceMs = 10_000;

/** @param folder what all keys begin with; probes put their objects there */
export function openS3Destination(
  connection: S3Connection,
  folder: string,
  context: DestinationContext,
): Destination {
  /** True if the connection's traits are only partly known: a commit probed no more than it needed. */
  let isAssuming = false;
  const { sharedProbes: shared } = context;
  const probePuts = async (signal: AbortSignal, journal?: UploadJournal) => {
    shared?.forget(connection.store);
    const knownTraits = connection.traits;
    const puts = await probePutsOf(connection, folder, signal, journal);
    isAssuming ||= knownTraits === null;
    // A store that was not probed is assumed to behave like S3.
    connection.traits = { ...(knownTraits ?? allTraits), ...puts };
    return connection.traits;
  };
  const probeAgain = (signal: AbortSignal, journal?: UploadJournal) =>
    probePuts(callDeadline(signal, probePatienceMs), journal);
  return {
    get traits() {
      return isAssuming || connection.isDoubted ? null : connection.traits;
    },
    async probe(signal, journal) {
      const probe = () => probeStore(connection, folder, signal, journal);
      const traits = shared
        ? await shared.find(connection.store, connection.changedForMs, probe, signal)
        : await probe();
      connection.traits = { ...traits, parts: connection.parts };
      isAssuming = false;
      connection.isDoubted = false;
      return connection.traits;
    },
    createFile(options, journal, signal) {
      const probe = (own: AbortSignal) => probeAgain(own, journal);
      return openWriter({ connection, limits: context, journal, signal, probe }, options);
    },
    abortUpload: (upload, signal) => abortUpload(connection, upload, signal),
    listUploads: (prefix, signal) => listUploads(connection, prefix, signal),
    commitManifest(
      key,
      body,
      expected,
      { confirm = async () => {}, ours = [], lease, journal, signal: given } = {},
    ) {
      // A put that is cut off may still take effect, so a shutdown waits for its answer.
      return withDelayedAbort(given, commitPatienceMs, (signal) => {
        const probe = () => probeAgain(signal, journal);
        const options = { confirm, probe, ours, lease, signal };
        return commitManifest(connection, key, body, expected, options);
      });
    },
    readFile: (key, options) => readObject(connection, key, options),
    async statFile(key, signal) {
      const head = await headObject(connection, key, callDeadline(signal));
      if (head === null) return null;
      const { ContentLength: bytes = 0, ETag: etag = null, Metadata: metadata } = head;
      const { modifiedAt = null } = head;
      return { bytes, etag, owner: ownerOf(metadata), run: runOf(metadata), modifiedAt };
    },
    linkFile: (key, { seconds, name, signal }) =>
      connection.request(
        (client) =>
          client.link(key, seconds, {
            'response-content-disposition': `attachment; filename="${name}"`,
          }),
        signal,
      ),
    listFiles: (prefix, signal, after) => listObjects(connection, prefix, signal, after),
    deleteFiles: (keys, signal) => deleteObjects(connection, keys, signal),
    test: (signal) => checkDestination(connection, folder, context, signal),
    close: async () => connection.close(),
  };
}
