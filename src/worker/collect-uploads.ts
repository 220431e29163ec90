import type { Destination } from '../destinations/destination.ts';
import { SluiceError } from '../domain/errors.ts';
import type { Sql } from '../store/database.ts';
import {
  findLiveUploadIds,
  findOrphanedUploads,
  findUploadOwner,
  forgetNote,
  forgetUpload,
  listAbortableUploads,
  listNotedKeys,
  type UploadPlace,
} from '../store/uploads.ts';
import type { ExecutorOptions } from './execute-run.ts';

/** Number of leases for which a key is checked again if the answer with its upload's id was lost. */
const noteLeases = 3;

/** Destinations of runs per sweep. */
const placesPerSweep = 20;

/**
 * Aborts uploads that their worker could not abort: it was killed, the destination was unreachable, or the
 * export has another destination now. The next sweep retries what fails.
 */
export async function collectUploads(options: ExecutorOptions): Promise<void> {
  const { db } = options.context;
  for (const place of await findOrphanedUploads(db, placesPerSweep)) {
    await collectAt(options, place).catch(options.onSweepError);
  }
}

async function collectAt(options: ExecutorOptions, place: UploadPlace): Promise<void> {
  const { db, policy } = options.context;
  const { runId } = place;
  const owner = await findUploadOwner(db, place);
  if (!owner) return;
  const destination = options.connectors.openDestination(owner);
  try {
    for (const upload of await listAbortableUploads(db, place)) {
      await destination.abortUpload(upload);
      await forgetUpload(db, runId, upload);
    }
    for (const key of await listNotedKeys(db, place)) {
      if (await abortUnknown(db, destination, key)) {
        await forgetNote(db, runId, key, noteLeases * policy.leaseMs);
      }
    }
  } finally {
    await destination.close();
  }
}

/**
 * Aborts uploads of a key that no live run has: their worker was killed or disconnected before it got their
 * ids. If the store or the credentials cannot list uploads, the bucket's lifecycle rule must remove them;
 * they contain no byte.
 *
 * @returns false if it is not known yet whose they are
 */
async function abortUnknown(db: Sql, destination: Destination, key: string): Promise<boolean> {
  const found: { readonly key: string; readonly uploadId: string }[] = [];
  try {
    for await (const upload of destination.listUploads(key)) {
      if (upload.key === key) found.push(upload);
    }
  } catch (error) {
    if (!(error instanceof SluiceError) || error.spec.retryable) throw error;
    return true;
  }
  // Asked after the list: an upload begun before the list has its note or its id by now.
  const live = await findLiveUploadIds(db, key);
  if (live === null) return false;
  for (const upload of found) {
    if (!live.some((id) => id.endsWith(upload.uploadId))) await destination.abortUpload(upload);
  }
  return true;
}
