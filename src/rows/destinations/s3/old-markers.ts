import { systemClock } from '../../../foundation/domain/clock.ts';
import { markerPrefix } from '../../../foundation/domain/object-keys.ts';
import type { S3Connection } from './client.ts';
import { deleteObjects, headObject, listObjects } from './objects.ts';

/** Far above the time of a probe, also if the clock of the store is wrong by hours. */
const oldMs = 24 * 3_600_000;

/** Markers that are looked at: each costs a request. */
const mostMarkers = 20;

/**
 * Removes markers in a folder whose process died before it could, and that no note names: those of a test, or of a commit
 * without a run. What fails here is no matter of the probe.
 */
export async function removeOldMarkers(connection: S3Connection, folder: string): Promise<void> {
  try {
    const prefix = `${folder === '' ? '' : `${folder}/`}${markerPrefix}`;
    let looked = 0;
    for await (const { key } of listObjects(connection, prefix)) {
      looked += 1;
      if (looked > mostMarkers) return;
      const madeAt = (await headObject(connection, key))?.modifiedAt ?? null;
      if (madeAt !== null && systemClock.now() - madeAt > oldMs)
        await deleteObjects(connection, [key]);
    }
  } catch {
    // The credentials may not list, read or delete: `sluice verify` names what is left.
  }
}
