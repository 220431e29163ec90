import { failpoint } from '../../../foundation/failpoints/failpoint.ts';
import type { FileOptions, FileWriter } from '../destination.ts';
import { withDelayedAbort } from './call-deadline.ts';
import type { S3Connection } from './client.ts';
import type { FilePut } from './put-file.ts';
import { createUpload } from './uploads.ts';
import { type BegunUpload, S3Writer, type Writing } from './writer.ts';

/** Begins an upload. The journal is notified before the store is asked. */
export async function createWriter(writing: Writing, options: FileOptions): Promise<FileWriter> {
  return new S3Writer(writing, options, await beginUpload(writing, options));
}

/** Says whether a file may be put at once: only a store that was probed protects an object at its key. */
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
  await journal.starting();
  const begun = await withDelayedAbort(signal, createPatienceMs, (patient) =>
    createUpload(connection, options, patient),
  );
  await failpoint('upload_begun');
  return begun;
}

/**
 * If a request for an upload is given up, its answer would be lost, and so the upload's id: wait for a
 * while.
 */
const createPatienceMs = 5_000;
