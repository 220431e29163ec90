import type { Destination } from '../destinations/destination.ts';
import { SluiceError } from '../domain/errors.ts';
import { hit } from '../domain/failpoints.ts';
import { manifestKey } from '../domain/object-keys.ts';
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

/** The manifest that is at the destination, with its tag. */
export interface FoundManifest {
  readonly manifest: Manifest;
  readonly etag: string | null;
}

/**
 * Reads the manifest at an interval's key. Credentials that may only write see none.
 *
 * @throws SluiceError `destination.key_taken` where the object there is another export's, or none
 *   of ours: this export must not replace it
 */
export async function readManifest(
  destination: Destination,
  job: IntervalJob,
): Promise<FoundManifest | null> {
  const key = manifestKey(job.prefix, job.interval);
  const found = await destination.readFile(key).catch((error: unknown) => {
    if (error instanceof SluiceError && error.code === 'destination.access_denied') return null;
    throw error;
  });
  if (!found) return null;
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
export function findAdoptable(
  job: IntervalJob,
  found: FoundManifest | null,
): IntervalResult | null {
  const { intent } = job;
  if (!intent || found?.manifest.run_id !== job.runId) return null;
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
  found: FoundManifest | null,
): Promise<IntervalResult> {
  await hit('before_complete');
  await files.complete();
  await hit('after_complete');
  if (!job.writesManifest) return { ...intent, manifestKey: null, manifestEtag: null };
  const key = manifestKey(job.prefix, job.interval);
  const manifest = buildManifest({ ...job, ...job.encoding, ...intent, columns });
  // Whoever changes it between our look and our put is told, and so are we.
  const expected = found ? found.etag : (job.inForce?.manifestEtag ?? null);
  await hit('before_manifest');
  const { etag } = await destination.commitManifest(key, encodeManifest(manifest), expected);
  await hit('after_manifest');
  return { ...intent, manifestKey: key, manifestEtag: etag };
}

/** Every key that an earlier attempt may have made readable without a manifest that names it. */
export function keysOfIntent(intent: CommitIntent | null): readonly string[] {
  if (!intent) return [];
  const files = [...intent.files, ...intent.rejectedFiles];
  return [...files.map((file) => file.key), ...intent.superseded];
}

/** Removes files that the interval had before and no longer has. */
export async function removeStaleFiles(
  destination: Destination,
  job: IntervalJob,
  current: Pick<IntervalResult, 'files' | 'rejectedFiles'>,
  found: FoundManifest | null,
): Promise<void> {
  const keys = new Set([...current.files, ...current.rejectedFiles].map((file) => file.key));
  const listed = [...(found?.manifest.files ?? []), ...(found?.manifest.rejected_files ?? [])];
  const former = new Set([
    ...(job.inForce?.fileKeys ?? []),
    ...listed.map((file) => file.key),
    ...keysOfIntent(job.intent),
  ]);
  const stale = [...former].filter((key) => !keys.has(key));
  if (stale.length > 0) await destination.deleteFiles(stale);
}
