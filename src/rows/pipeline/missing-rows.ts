import type { Destination } from '../destinations/destination.ts';
import { SluiceError } from '../../foundation/domain/errors.ts';
import { describeError } from '../../foundation/domain/describe-error.ts';
import type { Recipe } from '../../foundation/domain/recipe.ts';
import type { Column } from '../../foundation/domain/row-block.ts';
import type { ReadColumn } from '../encoders/encoder.ts';
import type { IntervalJob, IntervalSource, RunPorts } from './interval-job.ts';
import type { CommitIntent, CurrentReceipt } from '../../foundation/domain/receipt.ts';
import { KeySpool } from './key-spool.ts';
import { showKeys } from './row-keys.ts';
import { type FoundManifest, isTombstone, type Manifest, readManifestAt } from './manifest.ts';
import { type Delivered, type ReadingBack, readDeliveredKeys } from './read-back.ts';

/** The current files at the destination: those of its manifest, and otherwise those of our record. */
export function findDelivered(
  { current, exportId }: Pick<IntervalJob, 'current' | 'exportId'>,
  { manifest }: FoundManifest,
): DeliveredFiles | null {
  const isOurs = manifest?.batch_export_id === exportId && !isTombstone(manifest);
  const isRecorded =
    isOurs && JSON.stringify(keysOf(manifest)) === JSON.stringify(current && keysOf(current));
  if (!isOurs || isRecorded) {
    const has = current && (current.files.length > 0 || current.rejectedFiles.length > 0);
    return has ? withSchema(current, isOurs ? manifest : null) : null;
  }
  const { files, rejected_files: rejectedFiles } = manifest;
  if (files.length === 0 && rejectedFiles.length === 0) return null;
  // Another commit than that of our record, which may have been restored from a backup.
  const { format, compression, schema } = manifest;
  const recipe = current?.recipe ? { ...current.recipe, format, compression, schema } : null;
  return { files, rejectedFiles, recipe, deliveredDigest: null };
}

/** A receipt does not say which types the columns of its files had, if the manifest does. */
export const withSchema = <T extends Pick<CurrentReceipt, 'recipe'>>(
  receipt: T,
  manifest: Pick<Manifest, 'schema'> | null,
): T =>
  manifest ? { ...receipt, recipe: { ...receipt.recipe, schema: manifest.schema } } : receipt;

const keysOf = ({ files }: { readonly files: readonly { readonly key: string }[] }) =>
  files.map(({ key }) => key);

/** The files of an interval that a manifest has made current. */
export interface DeliveredFiles
  extends Omit<Delivered, 'recipe'>,
    Pick<CurrentReceipt, 'deliveredDigest'> {
  /** Null if only the manifest is known. */
  readonly recipe: Recipe | null;
}

/** All that the commit replaces: the current files, and those of manifests at prefixes that get tombstones after it. */
export async function findAllDelivered(
  job: IntervalJob,
  found: FoundManifest,
  destination: Destination,
  signal: AbortSignal,
): Promise<readonly DeliveredFiles[]> {
  const current = findDelivered(job, found);
  // A run that was cancelled after its commit has left a manifest without a record.
  const unrecorded =
    current?.recipe === null && found.manifest ? recipeFor(job, found.manifest) : null;
  const all = current ? [{ ...current, recipe: current.recipe ?? unrecorded }] : [];
  for (const key of job.formerManifests) {
    const former = await readManifestAt(destination, key, signal);
    if (former === 'denied') {
      throw new SluiceError('destination.access_denied', `the credentials cannot read ${key}`);
    }
    if (!former?.manifest) continue;
    const recipe = recipeFor(job, former.manifest);
    const delivered = findDelivered({ exportId: job.exportId, current: null }, former);
    if (delivered) all.push({ ...delivered, recipe });
  }
  return all;
}

/** Settings for reading files that only a manifest names: the format's settings are those of now. */
function recipeFor(
  { encoding: { settings }, request: { dslQuery, includeEvents, excludeEvents } }: IntervalJob,
  { format, compression, schema }: Pick<Manifest, 'format' | 'compression' | 'schema'>,
): Recipe {
  return { ...settings, format, compression, schema, dslQuery, includeEvents, excludeEvents };
}

const maxNamed = 5;

export interface MissingCheck {
  readonly job: IntervalJob;
  readonly intent: CommitIntent;
  readonly delivered: DeliveredFiles;
  readonly columns: readonly Column[];
  /** The indices of the keys among them; null if the rows do not show all keys. */
  readonly keyIndices: readonly number[] | null;
  readonly made: KeySpool;
  readonly source: Pick<IntervalSource, 'describe'>;
  readonly reading: ReadingBack;
  readonly ports: RunPorts;
}

/**
 * Rows that a manifest has delivered stay delivered: before files that were made anew replace the current ones, each key of
 * these must be among the new ones. A person may ask for the removal of the others.
 *
 * @throws SluiceError `source.rows_missing` if delivered keys are missing, or if that cannot be known
 */
export async function checkMissing(check: MissingCheck): Promise<void> {
  const { job, intent, delivered, ports } = check;
  const isSame = intent.deliveredDigest !== null && rowsOf(delivered) === rowsOf(intent);
  if (isSame && intent.deliveredDigest === delivered.deliveredDigest) return;
  const gap = await findMissing(check);
  if (gap.missing === 0) return;
  const before = `${rowsOf(delivered)} rows are delivered, ${rowsOf(intent)} rows are in the new files`;
  const detail =
    gap.missing === null
      ? `${before}. Whether delivered rows are missing cannot be known: ${gap.why}`
      : `${before}, and ${gap.missing} delivered rows are missing there. The first keys: ${gap.keys.map(showKeys).join(', ')}`;
  if (!job.dropsMissing) throw new SluiceError('source.rows_missing', detail);
  ports.log('WARNING', `Delivered rows are removed, as missing_rows: drop asks for. ${detail}.`);
}

const rowsOf = ({ files, rejectedFiles }: Omit<Delivered, 'recipe'>): number =>
  [...files, ...rejectedFiles].reduce((sum, { rows }) => sum + rows, 0);

type Missing =
  | { readonly missing: number; readonly keys: readonly string[] }
  | { readonly missing: null; readonly why: string };

async function findMissing(check: MissingCheck): Promise<Missing> {
  const { delivered, made, reading } = check;
  const { recipe } = delivered;
  if (recipe === null) return unknown('the record of how the files were made is lost');
  const keyColumns = await keyColumnsIn(check, recipe);
  if (typeof keyColumns === 'string') return unknown(keyColumns);
  const files = { ...delivered, recipe };
  const keys = new KeySpool();
  try {
    const fault = await readDeliveredKeys(reading, files, keyColumns, (key) => keys.add(key));
    if (fault !== null) return unknown(fault);
    const rows: number[] = [];
    let missing = 0;
    await keys.subtract(made, ({ row }) => {
      missing += 1;
      if (rows.length < maxNamed) rows.push(row);
    });
    if (missing === 0) return { missing, keys: [] };
    return { missing, keys: await nameRows(reading, files, keyColumns, new Set(rows)) };
  } finally {
    await keys.close();
  }
}

/**
 * The key columns under the names that delivered files have for them: their query may have named them otherwise than the
 * query of now, and even have given these names to other columns.
 *
 * @returns why they are not known, or they
 */
async function keyColumnsIn(
  { job, columns, keyIndices, source, reading }: MissingCheck,
  { dslQuery }: Recipe,
): Promise<readonly ReadColumn[] | string> {
  if (keyIndices === null) return 'the rows do not contain all key columns';
  if (dslQuery === job.request.dslQuery) return keyIndices.flatMap((place) => columns[place] ?? []);
  const request = { ...job.request, dslQuery, select: 'keys' as const };
  const described = await source.describe(request, reading.signal).catch((error: unknown) => {
    if (error instanceof SluiceError && !error.spec.retryable) return describeError(error);
    throw error;
  });
  if (typeof described === 'string')
    return `the query of the files cannot be read now: ${described}`;
  return described.columns.length > 0
    ? described.columns
    : 'the files do not contain all key columns';
}

const unknown = (why: string): Missing => ({ missing: null, why });

async function nameRows(
  reading: ReadingBack,
  files: Delivered,
  keyColumns: readonly ReadColumn[],
  rows: ReadonlySet<number>,
): Promise<readonly string[]> {
  const named: string[] = [];
  let row = 0;
  await readDeliveredKeys(reading, files, keyColumns, (key) => {
    if (rows.has(row)) named.push(key);
    row += 1;
    return undefined;
  });
  return named;
}
