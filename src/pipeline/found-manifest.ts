import type { Destination } from '../destinations/destination.ts';
import { SluiceError } from '../domain/errors.ts';
import { manifestKey } from '../domain/object-keys.ts';
import type { IntervalJob } from './interval-job.ts';
import { decodeManifest, type Manifest } from './manifest.ts';

/** What is at the key of an interval's manifest. */
export interface FoundManifest {
  /** Null if there is none, or if the credentials may not read it. */
  readonly manifest: Manifest | null;
  /** The tag that must still be there when the manifest is replaced; null for nothing. */
  readonly etag: string | null;
}

/**
 * Reads the manifest at an interval's key. Credentials that may only write see none: then our own
 * record says what is there.
 *
 * @throws SluiceError `destination.key_taken` if the object is another export's, or not a manifest of
 *   ours: this export must not replace it
 */
export async function findManifest(
  destination: Destination,
  job: IntervalJob,
): Promise<FoundManifest> {
  if (!job.writesManifest) return { manifest: null, etag: null };
  const key = manifestKey(job.prefix, job.interval);
  const found = await readManifestAt(destination, key);
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

/**
 * The object at a manifest's key: null if there is none, `denied` if it may not be read. Its manifest
 * is null if the bytes are not a manifest of ours.
 */
export async function readManifestAt(
  destination: Destination,
  key: string,
): Promise<FoundManifest | null | 'denied'> {
  const found = await destination.readFile(key).catch((error: unknown) => {
    if (error instanceof SluiceError && error.code === 'destination.access_denied')
      return 'denied' as const;
    throw error;
  });
  if (found === null || found === 'denied') return found;
  const chunks: Uint8Array[] = [];
  for await (const chunk of found.body) chunks.push(chunk);
  return { manifest: decodeManifest(Buffer.concat(chunks)), etag: found.etag };
}
