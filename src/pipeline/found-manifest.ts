import type { Destination } from '../destinations/destination.ts';
import { SluiceError } from '../domain/errors.ts';
import { manifestKey } from '../domain/object-keys.ts';
import type { IntervalJob } from './interval-job.ts';
import { type FoundManifest, readManifestAt } from './manifest.ts';

/**
 * Reads the manifest at an interval's key. If the credentials cannot read, our own record is used. The first attempt of
 * an interval that was never exported reads nothing: file and manifest are put only if their keys are free. If one is
 * not, the attempt ends with `destination.conflict`, and the next one reads what is there.
 *
 * @throws SluiceError `destination.key_taken` if the object is another export's, or not a manifest of ours:
 *   this export must not replace it
 */
export async function findManifest(
  destination: Destination,
  job: IntervalJob,
  signal: AbortSignal,
): Promise<FoundManifest> {
  if (!job.writesManifest || isFirstCommit(destination, job)) return { manifest: null, etag: null };
  const key = manifestKey(job.prefix, job.interval);
  const found = await readManifestAt(destination, key, signal);
  if (found === null) return { manifest: null, etag: null };
  if (found === 'denied') {
    const recorded = job.current?.manifestKey === key ? job.current.manifestEtag : null;
    return { manifest: null, etag: recorded };
  }
  if (found.manifest?.batch_export_id !== job.exportId) {
    throw new SluiceError('destination.key_taken', key);
  }
  return found;
}

/** Whether our database knows of nothing that could be at the interval's keys, and the store protects what is there. */
function isFirstCommit({ traits }: Destination, job: IntervalJob): boolean {
  const hasBegun = job.intent !== null || job.mayBeOvertaken || job.begunManifests.length > 0;
  return (
    job.attempt === 1 &&
    // Each number that was given out for the interval raises it.
    job.generation === 1 &&
    job.current === null &&
    !hasBegun &&
    !job.table &&
    traits?.ifNoneMatch === true
  );
}
