import { createHash } from 'node:crypto';
import type { ColumnMetrics } from '../../foundation/domain/column-metrics.ts';
import { SluiceError } from '../../foundation/domain/errors.ts';
import { manifestKey } from '../../foundation/domain/object-keys.ts';
import type { Recipe } from '../../foundation/domain/recipe.ts';
import type { Column } from '../../foundation/domain/row-block.ts';
import { failpoint } from '../../foundation/failpoints/failpoint.ts';
import type { Destination, FileFacts, PutLease } from '../destinations/destination.ts';
import type { CompleteOne, HashedFile, Tags } from './file-set.ts';
import type { Delivery, FoundCommit, IntervalJob, RunPorts } from './interval-job.ts';
import type {
  CommitIntent,
  CommittedFile,
  IntervalResult,
  ManifestFile,
} from '../../foundation/domain/receipt.ts';
import {
  buildManifest,
  digestOfBytes,
  digestOfSchema,
  encodeManifest,
  type FoundManifest,
  isTombstone,
  maxManifestBytes,
  readManifestAt,
  schemaOf,
} from './manifest.ts';
import { knowsFile, mayStat } from './may-stat.ts';

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

/** Files of an attempt that are not readable yet. */
export interface CompletableFiles {
  /** Facts of the format about the columns of each file, by key. */
  readonly columnMetrics: ReadonlyMap<string, readonly ColumnMetrics[]>;
  complete(completeOne: CompleteOne): Promise<Tags>;
}

export interface Commit extends Delivery {
  readonly files: CompletableFiles;
  /** All files of the interval afterwards: a supplement also names files of earlier commits. */
  readonly intent: CommitIntent;
  readonly columns: readonly Column[];
  readonly found: FoundCommit;
}

/** Stores the intent, makes the files readable, adds them to the table, then puts the manifest that names them. */
export async function commitFiles(commit: Commit): Promise<IntervalResult> {
  const { destination, job, files, columns, found, ports, signal } = commit;
  ports.at('commit');
  const { intent, body } = prepareCommit(job, commit.intent, columns);
  await ports.confirmCommit(intent);
  await failpoint('before_complete');
  const { manifestKey: key } = intent;
  const tags = await files.complete((writer) =>
    // An export without a manifest replaces its files in place.
    key === null
      ? completeInPlace(commit, writer)
      : completeNew(destination, writer, ports.lease, signal),
  );
  await failpoint('after_complete');
  const withTag = (file: CommittedFile) => ({
    ...file,
    etag: tags.get(file.key) ?? file.etag ?? null,
  });
  const [made, rejected] = [intent.files, intent.rejectedFiles];
  const committed = { ...intent, files: made.map(withTag), rejectedFiles: rejected.map(withTag) };
  if (key === null || body === null) {
    return { ...committed, manifestEtag: null, manifestSha256: null };
  }
  const { columnMetrics: metrics } = files;
  await found.table?.commit({ ...intent, metrics, columns });
  await failpoint('before_manifest');
  const { lease, journal } = ports;
  const confirm = () => lease.extend(true);
  const options = { confirm, ours: job.begunManifests, lease, journal, signal };
  // Fails if the manifest changed after we read it.
  const { etag } = await destination.commitManifest(key, body, found.etag, options);
  await failpoint('after_manifest');
  return { ...committed, manifestEtag: etag, manifestSha256: digestOfBytes(body) };
}

/**
 * The bytes of the manifest, and the intent with their digest, so that later attempts recognize the manifest even if
 * they cannot read it. Null: the export writes no manifest.
 *
 * @throws SluiceError `destination.invalid_config` if the manifest would be too long to be read back
 */
export function prepareCommit(
  job: IntervalJob,
  intent: CommitIntent,
  columns: readonly Column[],
): { readonly intent: CommitIntent; readonly body: Buffer | null } {
  if (intent.manifestKey === null) return { intent, body: null };
  const manifest = buildManifest({ ...job, ...job.encoding, ...intent, columns });
  const body = encodeManifest(manifest, job.sign);
  if (body.length > maxManifestBytes) {
    const detail = `the manifest of ${intent.files.length} files would be longer than 16 MiB; raise max_file_size_mb, or make fewer partitions`;
    throw new SluiceError('destination.invalid_config', detail);
  }
  const digest = createHash('md5').update(body).digest('hex');
  const recipe = withSchemaDigest(intent.recipe, columns);
  return { intent: { ...intent, recipe, begunManifests: [digest, ...job.begunManifests] }, body };
}

const withSchemaDigest = (recipe: Recipe, columns: readonly Column[]): Recipe => {
  return { ...recipe, schemaDigest: digestOfSchema(schemaOf(columns)) };
};

type Completable = Pick<HashedFile, 'key' | 'complete'>;

/** Before the first probe: a store is assumed to behave like S3. */
const allTraits = { completeIfMatch: true, completeIfNoneMatch: true };

/** Keys of a new generation are free, unless another export has the prefix. Without the condition, its manifest is read. */
async function completeNew(
  destination: Destination,
  writer: Completable,
  lease: PutLease,
  signal: AbortSignal,
): Promise<{ readonly etag: string | null }> {
  const { completeIfNoneMatch } = destination.traits ?? allTraits;
  const object = completeIfNoneMatch ? null : await mayStat(destination, writer.key, signal);
  if (object !== null && object !== 'denied') {
    throw new SluiceError('destination.conflict', writer.key);
  }
  return writer.complete({ replaces: null, lease });
}

/** Maximum tries if another attempt replaces a file at the same time. */
const inPlaceTries = 4;

/** Replaces the object at the key, if it is what the receipt or a later read says, and no other export's. */
async function completeInPlace(
  { destination, job, ports, signal }: Delivery,
  writer: Completable,
): Promise<{ readonly etag: string | null }> {
  const recorded = [...(job.current?.files ?? []), ...(job.current?.rejectedFiles ?? [])];
  const own = recorded.find(({ key }) => key === writer.key);
  let expected = own?.etag ?? null;
  const look = async () => {
    await checkUnnamed(destination, job, writer.key, signal);
    // The order matters: a tag that is read after the fence may be of an attempt that took over.
    const object = await destination.statFile(writer.key, signal);
    await checkOwn(job, writer.key, object, own?.etag, ports);
    await ports.lease.extend(true);
    return object?.etag ?? null;
  };
  for (let tried = 1; ; tried += 1) {
    try {
      const { completeIfMatch, completeIfNoneMatch } = destination.traits ?? allTraits;
      if (!(completeIfMatch && completeIfNoneMatch)) await look();
      return await writer.complete({ replaces: expected, lease: ports.lease });
    } catch (error) {
      const conflict = error instanceof SluiceError && error.code === 'destination.conflict';
      if (!conflict || tried === inPlaceTries) throw error;
      expected = await look();
    }
  }
}

/**
 * @param recorded the tag of the receipt, if that names the key
 * @throws SluiceError `destination.key_taken` if this export did not write the object; `run.unknown_history` if a
 *   database with another history did
 */
async function checkOwn(
  { exportId }: IntervalJob,
  key: string,
  found: FileFacts | null,
  recorded: string | null = null,
  ports: Pick<RunPorts, 'knowsCommit'>,
): Promise<void> {
  if (found === null) return;
  const isRecorded = recorded !== null && found.etag === recorded;
  if (found.owner ? found.owner !== exportId : !isRecorded) {
    throw new SluiceError('destination.key_taken', key);
  }
  if (isRecorded || (await knowsFile(found, key, ports.knowsCommit))) return;
  throw new SluiceError('run.unknown_history', `${key} is of run ${found.run?.id ?? 'unknown'}`);
}

/**
 * @throws SluiceError `destination.key_taken` if the current manifest of another export names the key;
 *   `destination.conflict` if one of this export does, which our database does not know
 */
async function checkUnnamed(
  destination: Destination,
  job: IntervalJob,
  key: string,
  signal: AbortSignal,
): Promise<void> {
  const at = manifestKey(job.names);
  const reading = await readManifestAt(destination, at, signal);
  if (reading === null || reading === 'denied' || reading.manifest === null) return;
  const { files, rejected_files: rejected, batch_export_id: owner } = reading.manifest;
  if (![...files, ...rejected].some((file) => file.key === key)) return;
  const isOurs = owner === job.exportId;
  throw new SluiceError(isOurs ? 'destination.conflict' : 'destination.key_taken', key);
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
