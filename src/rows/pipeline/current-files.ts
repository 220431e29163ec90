import { manifestKey } from '../../foundation/domain/object-keys.ts';
import type {
  CommitIntent,
  CommittedFile,
  IntervalResult,
  ManifestFile,
} from '../../foundation/domain/receipt.ts';
import type { Column } from '../../foundation/domain/row-block.ts';
import type { Destination } from '../destinations/destination.ts';
import { buildManifest, type Commit, withSchemaDigest } from './commit.ts';
import type { IntervalJob } from './interval-job.ts';
import { type FoundManifest, isTombstone, mayStat } from './manifest.ts';

/** Finds what an earlier attempt of this run has made current without recording it; null if there is nothing. */
export function findAdoptable(job: IntervalJob, found: FoundManifest): IntervalResult | null {
  const { intent } = job;
  const { manifest } = found;
  if (!intent || manifest?.run_id !== job.runId || isTombstone(manifest)) return null;
  if (manifest.generation !== intent.generation) return null;
  if (!haveSame(manifest.files, intent.files, bytesOf)) return null;
  if (!haveSame(manifest.rejected_files, intent.rejectedFiles, bytesOf)) return null;
  const { etag: manifestEtag, sha256: manifestSha256 = null } = found;
  return { ...intent, manifestKey: manifestKey(job.names), manifestEtag, manifestSha256 };
}

/**
 * Says whether the interval's current files are the same as this attempt's: then nothing is committed. The
 * current files must exist, since users run an interval again to restore a deleted file. And the manifest
 * must be the receipt's, of this era, with no other commit in progress: only a new manifest keeps another
 * commit from succeeding (docs/internals/guarantees.md, C8).
 *
 * @param commit none of its files is readable yet
 * @returns the current files with the new proof, or null
 */
export async function findUnchanged(commit: Omit<Commit, 'files'>): Promise<IntervalResult | null> {
  const { destination, job, intent: made, columns, found, signal } = commit;
  if (job.mayBeOvertaken || job.current === null) return null;
  const current = job.writesManifest ? currentByManifest(job, made, columns, found) : job.current;
  if (current === null || (current.manifestKey === null) === job.writesManifest) return null;
  if (!haveSame(current.files, made.files, bytesOf)) return null;
  if (!haveSame(current.rejectedFiles, made.rejectedFiles, bytesOf)) return null;
  if (!haveSame(current.files, made.files, folderOf)) return null;
  // Without a manifest readers have only the keys, so another prefix must get the files.
  const keysDiffer =
    !haveSame(current.files, made.files, keyOf) ||
    !haveSame(current.rejectedFiles, made.rejectedFiles, keyOf);
  if (!job.writesManifest && keysDiffer) return null;
  const recorded = [...job.current.files, ...job.current.rejectedFiles];
  const tags = new Map(recorded.map(({ key, etag = null }) => [key, etag]));
  const withTag = (file: CommittedFile) => ({ ...file, etag: tags.get(file.key) ?? null });
  const files = current.files.map(withTag);
  const rejectedFiles = current.rejectedFiles.map(withTag);
  for (const file of [...files, ...rejectedFiles]) {
    if (!(await isThere(destination, file, signal))) return null;
  }
  const { generation, era, manifestKey, manifestEtag, manifestSha256 } = current;
  const named = { generation, era, manifestKey, manifestEtag, manifestSha256 };
  const recipe = withSchemaDigest(made.recipe, columns);
  return { ...made, ...named, recipe, files, rejectedFiles };
}

/** The current files as the bucket has them; null if they may differ from our record. */
function currentByManifest(
  job: IntervalJob,
  made: CommitIntent,
  columns: readonly Column[],
  { manifest, etag, sha256 = null }: FoundManifest,
) {
  if (manifest === null || isTombstone(manifest)) return null;
  const { current } = job;
  if (current?.manifestKey !== made.manifestKey || current?.manifestEtag !== etag) return null;
  if (current.era !== job.era) return null;
  // Another key may sign now.
  const { receipt: _, ...before } = manifest;
  const { attempt, run_id: runId, generation, era } = manifest;
  const again = buildManifest({ ...job, ...job.encoding, ...made, columns });
  const facts = { attempt, run_id: runId, generation, era };
  const { files, rejected_files: rejectedFiles } = manifest;
  const same = { ...again, ...facts, files, rejected_files: rejectedFiles };
  if (JSON.stringify(same) !== JSON.stringify({ ...before, ...facts })) return null;
  const named = { generation, era: current.era, manifestKey: made.manifestKey };
  return { ...named, manifestEtag: etag, manifestSha256: sha256, files, rejectedFiles };
}

async function isThere(
  destination: Destination,
  file: CommittedFile,
  signal: AbortSignal,
): Promise<boolean> {
  const object = await mayStat(destination, file.key, signal);
  if (object === 'denied' || object?.bytes !== file.bytes) return false;
  return !file.etag || object.etag === file.etag;
}

/** Says whether two lists of files have the same in their order. */
function haveSame(
  a: readonly ManifestFile[],
  b: readonly ManifestFile[],
  factOf: (file: ManifestFile) => string,
): boolean {
  const facts = (files: readonly ManifestFile[]) => files.map(factOf).join('\n');
  return facts(a) === facts(b);
}

const keyOf = ({ key }: ManifestFile) => key;

const bytesOf = ({ rows, bytes, sha256 }: ManifestFile) => `${rows} ${bytes} ${sha256}`;

/** The partition: in another one readers of the folders would find other values. */
const folderOf = ({ key }: ManifestFile) => key.slice(0, key.lastIndexOf('/') + 1);
