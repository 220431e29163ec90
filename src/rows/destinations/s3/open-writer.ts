import { SluiceError } from '../../../foundation/domain/errors.ts';
import { failpoint } from '../../../foundation/failpoints/failpoint.ts';
import type { FileOptions, FileWriter, UploadProgress } from '../destination.ts';
import { withDelayedAbort } from './call-deadline.ts';
import type { S3Connection } from './client.ts';
import type { FilePut } from './put-file.ts';
import {
  abortUpload,
  createUpload,
  hasSameHeaders,
  listParts,
  partEtag,
  takesChecksums,
} from './uploads.ts';
import { abortPatienceMs, type BegunUpload, S3Writer, type Writing } from './writer.ts';

/** Begins an upload. The journal records it before the store is asked, and its id before this resolves. */
export async function createWriter(writing: Writing, options: FileOptions): Promise<FileWriter> {
  return new S3Writer(writing, options, await beginUpload(writing, options));
}

/** Whether a file may be put at once: only a store that was probed protects an object at its key. */
export function mayPut({ traits }: S3Connection, { isNewKey }: FileOptions): boolean {
  return isNewKey === true && traits?.ifNoneMatch === true;
}

/**
 * Opens a file that is put at once if it stays smaller than a part. Its upload begins when the first part is full.
 *
 * @param probe probes again how the store treats conditional puts
 */
export function openWriter(
  writing: Writing,
  options: FileOptions,
  probe: FilePut['probe'],
): FileWriter {
  const begin = () => beginUpload(writing, options);
  return new S3Writer(writing, options, null, { begin, probe });
}

async function beginUpload(
  { connection, journal, signal }: Writing,
  options: FileOptions,
): Promise<BegunUpload> {
  await journal.starting(options.key);
  const { upload, checksums, alone } = await withDelayedAbort(signal, createPatienceMs, (patient) =>
    createUpload(connection, options, patient),
  );
  await failpoint('upload_begun');
  try {
    await journal.started(upload, alone);
  } catch (error) {
    // It has no record, so it must not remain.
    await abortUpload(connection, upload, AbortSignal.timeout(abortPatienceMs)).catch(() => {});
    throw error;
  }
  return { upload, checksums, known: [], shared: false };
}

/**
 * If a request for an upload is given up, its answer would be lost, and so the upload's id: wait for a
 * while.
 */
const createPatienceMs = 5_000;

/**
 * Continues an upload. Recorded parts that the store still has are not sent again.
 *
 * @throws SluiceError `destination.upload_lost` if the file has to be begun again
 */
export async function resumeWriter(
  writing: Writing,
  options: FileOptions,
  progress: UploadProgress,
): Promise<FileWriter> {
  const { connection, signal } = writing;
  const { key, uploadId, parts } = progress;
  const checksums = takesChecksums(progress);
  // A part of the earlier attempt that arrives after our Complete would change the object.
  const isSafe = connection.traits?.sealsUploads ?? true;
  const isSame = hasSameHeaders(connection, progress);
  if (!isSafe || !isSame) {
    // The lineage has not reached its commit, so no attempt can be completing the upload.
    await abortUpload(connection, progress, signal);
    const why = !isSafe
      ? 'begun by another attempt, at a store that takes parts of a completed upload'
      : 'begun with another encryption, access list, class or tags';
    throw new SluiceError('destination.upload_lost', why);
  }
  const held = new Map(
    (await listParts(connection, progress, signal)).map((part) => [part.number, part]),
  );
  const known = parts.filter((part) => {
    const found = held.get(part.number);
    return found?.bytes === part.bytes && found.tag === partEtag(part);
  });
  const begun = { upload: { key, uploadId }, checksums, known, shared: true };
  return new S3Writer(writing, options, begun);
}
