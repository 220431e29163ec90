import type { Destination } from '../../rows/destinations/destination.ts';
import { SluiceError, toSluiceError } from '../../foundation/domain/errors.ts';
import { isMarkerKey } from '../../foundation/domain/object-keys.ts';
import type { Sql } from '../../state/store/database/database.ts';
import { appendLogEntries } from '../../state/store/exports/log-entries.ts';
import {
  endVisit,
  findTeamsWithOrphans,
  maxCollectTries,
  type OrphanedPlace,
  takeOrphanedPlace,
} from '../../state/store/files/orphaned-uploads.ts';
import {
  findLiveUploads,
  findUploadOwner,
  forgetNote,
  forgetUpload,
  listAbortableUploads,
  listNotedKeys,
  type UploadOwner,
} from '../../state/store/files/uploads.ts';
import { collectByTeam, type SweepOptions, teamPatienceMs } from './collect-by-team.ts';

/** Number of leases for which a key is checked again if the answer with its upload's id was lost. */
const noteLeases = 3;

/** Far more than attempts of a run begin for one key. */
const maxUploadsOfKey = 1_000;

/**
 * Aborts uploads that their worker could not abort: it was killed, the destination was unreachable, or the
 * export has another destination now. A later sweep retries what fails.
 */
export async function collectUploads(options: SweepOptions): Promise<void> {
  const { db } = options.context;
  await collectByTeam(
    options,
    (limit) => findTeamsWithOrphans(db, limit),
    async (teamId, signal) => {
      const place = await takeOrphanedPlace(db, teamId, teamPatienceMs);
      if (!place) return false;
      const owner = await findUploadOwner(db, place);
      if (!owner) return true;
      const what = { kind: 'abort_uploads', id: owner.exportId } as const;
      const end = await options.guard.do(what, teamPatienceMs, () =>
        visit(options, { ...place, owner }, signal),
      );
      if (end === 'done') return true;
      // It was not tried.
      await endVisit(db, place, true);
      return false;
    },
  );
}

/** A place and whose it is. */
interface OwnedPlace extends OrphanedPlace {
  readonly owner: UploadOwner;
}

async function visit(options: SweepOptions, place: OwnedPlace, signal: AbortSignal): Promise<void> {
  const { db } = options.context;
  const ended = { uploads: 0 };
  try {
    await collectAt(options, place, ended, signal);
    await endVisit(db, place, true);
  } catch (error) {
    options.onSweepError(error);
    await endVisit(db, place, ended.uploads > 0);
    if (ended.uploads === 0 && place.tries >= maxCollectTries) await giveUp(db, place, error);
  }
}

/** @param ended counts the uploads that are gone */
async function collectAt(
  options: SweepOptions,
  place: OwnedPlace,
  ended: { uploads: number },
  signal: AbortSignal,
): Promise<void> {
  const { db, policy } = options.context;
  const { runId, owner } = place;
  const destination = options.connectors.openDestination(owner);
  try {
    for (const upload of await listAbortableUploads(db, place)) {
      await destination.abortUpload(upload, signal);
      await forgetUpload(db, runId, upload);
      ended.uploads += 1;
    }
    for (const key of await listNotedKeys(db, place)) {
      if (isMarkerKey(key)) await removeMarker(destination, key, signal);
      const end = await abortUnknown(options, owner, destination, key, signal);
      if (end) await forgetNote(db, runId, key, noteLeases * policy.leaseMs);
    }
  } finally {
    await destination.close();
  }
}

/** Removes what a probe left whose process was killed. */
async function removeMarker(
  destination: Destination,
  key: string,
  signal: AbortSignal,
): Promise<void> {
  try {
    await destination.deleteFiles([key], signal);
  } catch (error) {
    // The permission to delete may be missing.
    if (toSluiceError(error).spec.retryable) throw error;
  }
}

async function giveUp(
  db: Sql,
  { runId, owner: { teamId, exportId } }: OwnedPlace,
  caught: unknown,
): Promise<void> {
  const message =
    `Sluice stopped removing unfinished uploads of this run after ${maxCollectTries} tries ` +
    `(${toSluiceError(caught).message}). A lifecycle rule of the bucket can remove them.`;
  await appendLogEntries(db, [{ teamId, exportId, runId, level: 'WARNING', message }]);
}

/**
 * Aborts uploads of a key that no live run has: their worker was killed or disconnected before it got their
 * ids. If the store or the credentials cannot list uploads, the bucket's lifecycle rule must remove them;
 * they contain no byte.
 *
 * @returns false if it is not known yet whose they are
 */
async function abortUnknown(
  { context: { db }, connectors }: Pick<SweepOptions, 'context' | 'connectors'>,
  { teamId, destination: { type, config } }: UploadOwner,
  destination: Destination,
  key: string,
  signal: AbortSignal,
): Promise<boolean> {
  const found: { readonly key: string; readonly uploadId: string }[] = [];
  try {
    for await (const upload of destination.listUploads(key, signal)) {
      if (upload.key === key) found.push(upload);
      if (found.length > maxUploadsOfKey) {
        const detail = `more than ${maxUploadsOfKey} uploads of one key`;
        throw new SluiceError('destination.invalid_answer', detail);
      }
    }
  } catch (error) {
    if (!(error instanceof SluiceError) || error.spec.retryable) throw error;
    // They cannot be listed.
    return true;
  }
  // Asked after the list: an upload begun before the list has its note or its id by now.
  const live = await findLiveUploads(db, teamId, key);
  const place = connectors.placeOf(type, config)?.place;
  const isHere = (one: (typeof live.waiting)[number]) =>
    one.type === type && connectors.placeOf(type, one.config)?.place === place;
  if (live.waiting.some(isHere)) return false;
  for (const upload of found) {
    if (!live.ids.some((id) => id.endsWith(upload.uploadId))) {
      await destination.abortUpload(upload, signal);
    }
  }
  return true;
}
