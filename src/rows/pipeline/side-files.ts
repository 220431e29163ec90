import { createHash } from 'node:crypto';
import { SluiceError } from '../../foundation/domain/errors.ts';
import { checksumKey, stemOf, successKey } from '../../foundation/domain/object-keys.ts';
import type { FileFacts } from '../destinations/destination.ts';
import { HashedFile } from './hashed-file.ts';
import type { Delivery } from './interval-attempt.ts';
import type { CommitIntent, CommittedFile, IntervalJob } from './interval-job.ts';
import type { ManifestFile } from './manifest.ts';
import { mayStat } from './may-stat.ts';

/**
 * Objects beside the data files and the manifest, for readers that know no manifest: a checksum file for each data file, and
 * an empty one that says that the interval is complete. The manifest does not list them; the receipt does, so that they are
 * verified and removed like data files. Their bytes depend on their key alone, so all attempts put the same.
 */

const checksumType = 'text/plain; charset=utf-8';

/** In the format of `sha256sum`, which looks for the file in its own folder. */
function checksumLine({ key, sha256 }: ManifestFile): Buffer {
  return Buffer.from(`${sha256}  ${key.slice(key.lastIndexOf('/') + 1)}\n`);
}

function entryOf(key: string, generation: number, body: Buffer): ManifestFile {
  const sha256 = createHash('sha256').update(body).digest('hex');
  return { key, generation, rows: 0, bytes: body.length, sha256 };
}

type Commit = Pick<CommitIntent, 'files' | 'rejectedFiles' | 'manifestKey' | 'generation'>;

/** The side files of what a commit makes current. */
export function sideFilesOf(
  { checksumFiles, successFile }: Pick<IntervalJob, 'checksumFiles' | 'successFile'>,
  { files, rejectedFiles, manifestKey, generation }: Commit,
): readonly ManifestFile[] {
  if (manifestKey === null) return [];
  const checksums = [...files, ...rejectedFiles].map((file) =>
    entryOf(checksumKey(file.key), file.generation, checksumLine(file)),
  );
  const success = entryOf(successKey(stemOf(manifestKey)), generation, Buffer.alloc(0));
  return [...(checksumFiles ? checksums : []), ...(successFile ? [success] : [])];
}

/** Puts the checksum files that are not there yet: before the manifest, so that each file it names has its own. @returns the tag of each, by key */
export async function putChecksums(
  putting: Delivery,
  { files, rejectedFiles }: Commit,
): Promise<ReadonlyMap<string, string | null>> {
  const tags = new Map<string, string | null>();
  const { checksumFiles, current } = putting.job;
  if (!checksumFiles) return tags;
  for (const { key, etag = null } of current?.sideFiles ?? []) tags.set(key, etag);
  for (const file of [...files, ...rejectedFiles]) {
    const key = checksumKey(file.key);
    if (tags.has(key)) continue;
    tags.set(key, await putOnce(putting, key, checksumType, checksumLine(file)));
  }
  return tags;
}

/** Puts the file that says that the interval is complete: after the manifest, and again by an attempt that finds its manifest without a record. */
export async function putSuccess<T extends Commit & Pick<CommitIntent, 'sideFiles'>>(
  putting: Delivery,
  commit: T,
): Promise<T> {
  const { manifestKey, sideFiles = [] } = commit;
  if (manifestKey === null) return commit;
  const key = successKey(stemOf(manifestKey));
  if (!sideFiles.some((file) => file.key === key)) return commit;
  const etag = await putOnce(putting, key, 'application/octet-stream', Buffer.alloc(0));
  const withTag = (file: CommittedFile) => (file.key === key ? { ...file, etag } : file);
  return { ...commit, sideFiles: sideFiles.map(withTag) };
}

/** @throws SluiceError `destination.key_taken` if the object is not of this export */
async function putOnce(
  { destination, job, ports, signal }: Delivery,
  key: string,
  contentType: string,
  body: Buffer,
): Promise<string | null> {
  const { exportId: owner, runId, era } = job;
  const there = await mayStat(destination, key, signal);
  const isThere = there !== null && there !== 'denied';
  if (isThere) return checkOwn(there);
  const run = { id: runId, era };
  const options = { key, contentType, owner, run, isNewKey: true };
  const file = new HashedFile(key, 1, await destination.createFile(options, ports.journal, signal));
  try {
    await file.write([body], 0);
    await file.flush();
    return (await file.complete({ replaces: null, lease: ports.lease })).etag;
  } catch (error) {
    await file.abort();
    if (!(error instanceof SluiceError) || error.code !== 'destination.conflict') throw error;
    const now = await mayStat(destination, key, signal);
    // Credentials that cannot read: keys of an interval are of the export whose manifest is there.
    if (now === 'denied') return null;
    if (now === null) throw error;
    return checkOwn(now);
  }

  function checkOwn(found: FileFacts) {
    // A store may keep no metadata. Then what has our bytes is taken for ours.
    const isOwn = found.owner ? found.owner === owner : found.bytes === body.length;
    if (!isOwn) throw new SluiceError('destination.key_taken', key);
    return found.etag;
  }
}
