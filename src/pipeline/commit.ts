import type { Destination } from '../destinations/destination.ts';
import { SluiceError } from '../domain/errors.ts';
import { hit } from '../domain/failpoints.ts';
import { isManifestKey, manifestKey } from '../domain/object-keys.ts';
import type { Column } from '../domain/row-block.ts';
import type { FileSet } from './file-set.ts';
import type { CommitIntent, IntervalJob, IntervalResult } from './interval-job.ts';
import {
  buildManifest,
  decodeManifest,
  encodeManifest,
  type Manifest,
  type ManifestFile,
} from './manifest.ts';

/** What is at the key of an interval's manifest. */
export interface FoundManifest {
  /** Null where there is none, or none that may be read. */
  readonly manifest: Manifest | null;
  /** Of what must still be there when it is replaced; null for nothing. */
  readonly etag: string | null;
}

/**
 * Reads the manifest at an interval's key. Credentials that may only write see none: then there is
 * what we recorded.
 *
 * @throws SluiceError `destination.key_taken` where the object there is another export's, or none
 *   of ours: this export must not replace it
 */
export async function readManifest(
  destination: Destination,
  job: IntervalJob,
): Promise<FoundManifest> {
  if (!job.writesManifest) return { manifest: null, etag: null };
  const key = manifestKey(job.prefix, job.interval);
  const found = await destination.readFile(key).catch((error: unknown) => {
    if (error instanceof SluiceError && error.code === 'destination.access_denied')
      return 'denied' as const;
    throw error;
  });
  if (found === null) return { manifest: null, etag: null };
  if (found === 'denied') {
    const recorded = job.inForce?.manifestKey === key ? job.inForce.manifestEtag : null;
    return { manifest: null, etag: recorded };
  }
  const chunks: Uint8Array[] = [];
  for await (const chunk of found.body) chunks.push(chunk);
  const manifest = decodeManifest(Buffer.concat(chunks));
  if (manifest?.batch_export_id !== job.exportId) {
    throw new SluiceError('destination.key_taken', key);
  }
  return { manifest, etag: found.etag };
}

/**
 * What an earlier attempt of this run has put in force without being able to record it; null where
 * it did not come so far.
 */
export function findAdoptable(job: IntervalJob, found: FoundManifest): IntervalResult | null {
  const { intent } = job;
  if (!intent || found.manifest?.run_id !== job.runId) return null;
  const digest = (files: readonly ManifestFile[]) => files.map((file) => file.sha256).join();
  if (digest(found.manifest.files) !== digest(intent.files)) return null;
  return {
    ...intent,
    manifestKey: manifestKey(job.prefix, job.interval),
    manifestEtag: found.etag,
  };
}

/** Makes the files readable, then puts the manifest that names them in force. */
export async function putInForce(
  destination: Destination,
  job: IntervalJob,
  files: FileSet,
  intent: CommitIntent,
  columns: readonly Column[],
  found: FoundManifest,
  confirm: () => Promise<void>,
): Promise<IntervalResult> {
  await hit('before_complete');
  await files.complete();
  await hit('after_complete');
  const { manifestKey: key } = intent;
  if (key === null) return { ...intent, manifestEtag: null };
  const manifest = buildManifest({ ...job, ...job.encoding, ...intent, columns });
  await hit('before_manifest');
  // Whoever changes it between our look and our put is told, and so are we.
  const body = encodeManifest(manifest);
  const { etag } = await destination.commitManifest(key, body, found.etag, confirm);
  await hit('after_manifest');
  return { ...intent, manifestEtag: etag };
}

/** Every key that an earlier attempt may have made readable without our record of it. */
export function keysOfIntent(intent: CommitIntent | null): readonly string[] {
  if (!intent) return [];
  const files = [...intent.files, ...intent.rejectedFiles];
  const manifest = intent.manifestKey === null ? [] : [intent.manifestKey];
  return [...manifest, ...files.map((file) => file.key), ...intent.superseded];
}

/** Removes what the interval had before and no longer has, also under a former prefix. */
export async function removeStaleFiles(
  destination: Destination,
  job: IntervalJob,
  current: Pick<IntervalResult, 'files' | 'rejectedFiles' | 'manifestKey'>,
  found: FoundManifest,
): Promise<void> {
  const files = [...current.files, ...current.rejectedFiles].map((file) => file.key);
  const keys = new Set<string | null>([current.manifestKey, ...files]);
  const listed = [...(found.manifest?.files ?? []), ...(found.manifest?.rejected_files ?? [])];
  const former = new Set([
    ...(job.inForce?.manifestKey ? [job.inForce.manifestKey] : []),
    ...(job.inForce?.fileKeys ?? []),
    ...listed.map((file) => file.key),
    ...keysOfIntent(job.intent),
  ]);
  const stale = [...former].filter((key) => !keys.has(key));
  // A manifest goes before the files that it names.
  const manifests = stale.filter(isManifestKey);
  if (manifests.length > 0) await destination.deleteFiles(manifests);
  const rest = stale.filter((key) => !isManifestKey(key));
  if (rest.length > 0) await destination.deleteFiles(rest);
}
