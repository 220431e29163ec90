import { createHash } from 'node:crypto';
import type { ColumnMetrics } from '../../foundation/domain/column-metrics.ts';
import {
  baseReasons,
  type Element,
  type ManifestElement,
} from '../../foundation/domain/element.ts';
import { SluiceError } from '../../foundation/domain/errors.ts';
import type {
  AttemptFacts,
  CommitIntent,
  CommittedFile,
  CommittedFiles,
  IntervalResult,
  ManifestFile,
} from '../../foundation/domain/receipt.ts';
import type { Recipe } from '../../foundation/domain/recipe.ts';
import type { Column } from '../../foundation/domain/row-block.ts';
import type { RunPurpose } from '../../foundation/domain/run.ts';
import { type Sign, withReceipt } from '../../foundation/domain/signature.ts';
import { toTimestamp } from '../../foundation/domain/time.ts';
import { failpoint } from '../../foundation/failpoints/failpoint.ts';
import { allTraits } from '../destinations/destination.ts';
import type { CompleteOne, HashedFile, Tags } from './file-set.ts';
import type { Delivery, FoundCommit, IntervalJob } from './interval-job.ts';
import { completeInPlace } from './in-place.ts';
import {
  digestOfBytes,
  digestOfSchema,
  entryOf,
  type Manifest,
  maxManifestBytes,
  mayStat,
  sum,
} from './manifest.ts';

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
    key === null ? completeInPlace(commit, writer) : completeNew(commit, writer),
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

/** Keys of a new generation are free, unless another export has the prefix. Without the condition, its manifest is read. */
async function completeNew(
  { destination, ports: { lease }, signal }: Delivery,
  writer: HashedFile,
): Promise<{ readonly etag: string | null }> {
  // Before the first probe a store is assumed to behave like S3.
  const { completeIfNoneMatch } = destination.traits ?? allTraits;
  const object = completeIfNoneMatch ? null : await mayStat(destination, writer.key, signal);
  if (object !== null && object !== 'denied') {
    throw new SluiceError('destination.conflict', writer.key);
  }
  return writer.complete({ replaces: null, lease });
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

export const withSchemaDigest = (recipe: Recipe, columns: readonly Column[]): Recipe => {
  return { ...recipe, schemaDigest: digestOfSchema(schemaOf(columns)) };
};

export interface ManifestFacts
  extends Pick<AttemptFacts, 'exportId' | 'runId' | 'attempt' | 'interval' | 'mode'>,
    Pick<CommittedFiles, 'generation' | 'era' | 'snapshotAt' | 'element'> {
  readonly purpose?: RunPurpose;
  readonly snapshot?: string;
  readonly format: string;
  readonly compression: string | null;
  readonly columns: readonly Column[];
  readonly files: readonly ManifestFile[];
  readonly rejectedFiles: readonly ManifestFile[];
}

export function buildManifest(facts: ManifestFacts): Manifest {
  return {
    batch_export_id: facts.exportId,
    run_id: facts.runId,
    attempt: facts.attempt,
    generation: facts.generation,
    era: facts.era,
    data_interval_start: toTimestamp(facts.interval.start),
    data_interval_end: toTimestamp(facts.interval.end),
    ...(facts.mode === 'snapshot' && { mode: 'snapshot', snapshot_at: facts.snapshotAt ?? null }),
    ...(facts.element && { mode: 'changes', element: elementOf(facts.element, facts.snapshot) }),
    ...(facts.purpose === 'expire' && { removed_by: 'keep_snapshots' }),
    format: facts.format,
    compression: facts.compression,
    schema: schemaOf(facts.columns),
    total_rows: sum(facts.files, (file) => file.rows),
    total_bytes: sum(facts.files, (file) => file.bytes),
    files: facts.files.map(entryOf),
    rejected_rows: sum(facts.rejectedFiles, (file) => file.rows),
    rejected_files: facts.rejectedFiles.map(entryOf),
  };
}

function elementOf(element: Element, snapshot = ''): ManifestElement {
  const { number, follows, base, from, point, at, deletes, uncompared } = element;
  return {
    number,
    follows,
    base: base === null ? null : baseReasons[base],
    from_version: from,
    version_type: point.versionType,
    snapshot: snapshot.split('@')[0] ?? '',
    snapshot_at: toTimestamp(at),
    deletes,
    ...(uncompared !== undefined && { complete: uncompared === 0 }),
  };
}

export const schemaOf = (columns: readonly Column[]): Manifest['schema'] =>
  columns.map(({ name, sourceType }) => ({ name, type: sourceType }));

/** The bytes of a manifest with its receipt: equal manifests give equal bytes, as long as one key signs. */
export function encodeManifest(manifest: Manifest, sign: Sign): Buffer {
  return Buffer.from(`${JSON.stringify(withReceipt(manifest, sign), null, 2)}\n`);
}
