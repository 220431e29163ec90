import { join } from 'node:path';
import type { ColumnMetrics } from '../../foundation/domain/column-metrics.ts';
import type { ErasedValue } from '../../foundation/domain/erased-value.ts';
import { SluiceError } from '../../foundation/domain/errors.ts';
import { fileKey, partitionOfKey, rejectedKey } from '../../foundation/domain/object-keys.ts';
import {
  type CommitIntent,
  type CommittedFile,
  type CurrentReceipt,
  type IntervalResult,
  type ManifestFile,
  unchanged,
} from '../../foundation/domain/receipt.ts';
import type { Column } from '../../foundation/domain/row-block.ts';
import { failpoint } from '../../foundation/failpoints/failpoint.ts';
import type { RemainingFile } from '../encoders/encoder.ts';
import { commitFiles, type CompletableFiles } from './commit.ts';
import { fetchFile, madeBy, type MadeBy } from './read-back.ts';
import { abortAll, completeAll, type CompleteOne, HashedFile, type Tags } from './file-set.ts';
import type { Delivery, IntervalAttempt } from './interval-job.ts';
import { keyOfRow } from './row-keys.ts';
import { entryOf, isTombstone, sum } from './manifest.ts';
import { RowBits, SpoolFolder } from './key-spool.ts';
import type { MadeFiles } from './table-format.ts';

interface Remaining {
  readonly files: readonly CommittedFile[];
  readonly erased: number;
  readonly changed: number;
}

/**
 * Removes the rows that have a value from the current files of an interval, and no others, whatever the source has by
 * then. Files without such rows stay as they are: the manifest names them again. The others are made again from their own
 * remaining rows, under a new generation.
 *
 * One file at a time is on local disk. What the source was seen to have stays on record.
 *
 * @throws SluiceError `destination.files_differ` if the current files are not those of our record
 */
export async function eraseRows(
  attempt: IntervalAttempt,
  erased: ErasedValue,
): Promise<IntervalResult> {
  const { ports } = attempt;
  const delivered = findDelivered(attempt);
  await failpoint('before_open');
  const erasedFiles = new ErasedFiles(attempt);
  const folder = new SpoolFolder();
  try {
    const path = join(await folder.path(), 'file');
    const { files, rejectedFiles, recipe } = delivered;
    const by = madeBy(recipe);
    ports.at('write');
    const remaining = await removeFrom(attempt, { entries: files, by, path, erased }, erasedFiles);
    const ofRejected = { entries: rejectedFiles, by: 'rejected', path, erased } as const;
    const rejected = await removeFrom(attempt, ofRejected, erasedFiles);
    const rows = remaining.erased + rejected.erased;
    const changed = remaining.changed + rejected.changed;
    const all = files.length + rejectedFiles.length;
    ports.log('INFO', `Rows to erase: ${rows}, in ${changed} of ${all} files.`);
    if (rows === 0 && !mayBeReplaced(attempt, delivered)) return resultOf(delivered);
    return await commitRemaining(attempt, delivered, remaining, rejected, erasedFiles);
  } catch (error) {
    await erasedFiles.abort();
    throw error;
  } finally {
    await folder.remove();
  }
}

/** Removes all files of an interval, whose manifest says that the export's rule did it. Nothing happens if the rule keeps them by now. */
export async function expireFiles(attempt: IntervalAttempt): Promise<IntervalResult> {
  const { job, ports } = attempt;
  const delivered = findDelivered(attempt);
  if (job.isKept) return resultOf(delivered);
  await failpoint('before_open');
  const { files, rejectedFiles } = delivered;
  ports.log('INFO', `keep_snapshots removes ${files.length + rejectedFiles.length} files.`);
  const none: Remaining = { files: [], erased: 0, changed: 0 };
  const noFiles = new ErasedFiles(attempt);
  return commitRemaining(attempt, { ...delivered, snapshotAt: null }, none, none, noFiles);
}

/** Says whether another commit may still become current: then only a new manifest prevents it (docs/internals/guarantees.md, C8). */
function mayBeReplaced({ job, found }: IntervalAttempt, { manifestEtag }: CurrentReceipt): boolean {
  return job.mayBeOvertaken || (job.writesManifest && found.etag !== manifestEtag);
}

function differ(why: string): never {
  throw new SluiceError('destination.files_differ', why);
}

function findDelivered({ job, found }: IntervalAttempt): CurrentReceipt {
  const { current } = job;
  if (current === null) differ('the interval has no files at this place');
  const { files, rejectedFiles } = current;
  const { manifest } = found;
  if (manifest !== null && !isTombstone(manifest)) {
    const named = JSON.stringify([manifest.files, manifest.rejected_files]);
    const recorded = JSON.stringify([files.map(entryOf), rejectedFiles.map(entryOf)]);
    if (named !== recorded) differ('its manifest does not list the files of our record');
  } else if (job.writesManifest) {
    differ('its manifest is missing, or cannot be read');
  }
  return current;
}

interface Search {
  readonly entries: readonly CommittedFile[];
  readonly by: MadeBy | 'rejected';
  /** Where a file is on local disk. */
  readonly path: string;
  readonly erased: ErasedValue;
}

async function removeFrom(
  { job, destination, ports, signal }: IntervalAttempt,
  { entries, by, path, erased }: Search,
  made: ErasedFiles,
): Promise<Remaining> {
  const remaining: CommittedFile[] = [];
  let erasedRows = 0;
  let changed = 0;
  for (const [index, entry] of entries.entries()) {
    signal.throwIfAborted();
    const fault = await fetchFile(destination, entry, path, signal);
    if (fault !== null) {
      const done = await findReplaced(entry);
      if (done === undefined) differ(fault);
      // An earlier attempt has replaced it at its key, and ended before that was recorded.
      changed += 1;
      if (done) remaining.push(done);
      continue;
    }
    const erasedBits = await findRows(entry);
    const rows = entry.rows - erasedBits.count;
    erasedRows += erasedBits.count;
    if (erasedBits.count === 0) remaining.push(entry);
    else changed += 1;
    if (erasedBits.count === 0 || rows === 0) continue;
    const rest = job.withoutRows(path, by, (row) => erasedBits.has(row));
    const isRejected = by === 'rejected';
    remaining.push(
      await made.write({ before: entry, index, of: entries.length, isRejected, rows }, rest),
    );
    const { rows: sent, bytes, count } = made;
    await ports.progressed({ totalRows: null, rows: sent, bytes, files: count });
  }
  return { files: remaining, erased: erasedRows, changed };

  async function findRows({ key, rows }: CommittedFile): Promise<RowBits> {
    const columns = [{ name: erased.column, type: 'text' as const }];
    const erasedBits = new RowBits();
    let row = 0;
    for await (const values of job.readRows(path, by, columns)) {
      // A row that a step rejected may have only its key.
      if (!values.includes(undefined) && keyOfRow(values, columns) === erased.value)
        erasedBits.add(row);
      row += 1;
    }
    if (row !== rows) differ(`${key} has ${row} rows, its manifest says ${rows}`);
    return erasedBits;
  }

  /** Finds the file that an earlier attempt of this run has put at the key of a file; undefined if it is something else. */
  async function findReplaced({ key }: CommittedFile): Promise<CommittedFile | undefined> {
    if (job.writesManifest || !job.intent) return undefined;
    const planned = [...job.intent.files, ...job.intent.rejectedFiles].find(
      (file) => file.key === key,
    );
    if (!planned || (await fetchFile(destination, planned, path, signal)) !== null)
      return undefined;
    const facts = await destination.statFile(key, signal);
    return { ...planned, etag: facts?.etag ?? null };
  }
}

async function commitRemaining(
  attempt: IntervalAttempt,
  delivered: CurrentReceipt,
  remaining: Remaining,
  rejected: Remaining,
  files: ErasedFiles,
): Promise<IntervalResult> {
  const { job, found } = attempt;
  const { manifestEtag: _, manifestSha256: __, ...before } = resultOf(delivered);
  const rows = sum(remaining.files, (file) => file.rows);
  const rejectedRows = sum(rejected.files, (file) => file.rows);
  const intent: CommitIntent = {
    ...before,
    era: job.era,
    // Files that are replaced at their keys keep their generation.
    generation: job.writesManifest ? job.generation : delivered.generation,
    totalRows: rows + rejectedRows,
    rows,
    rejectedRows,
    bytes: files.bytes,
    files: remaining.files,
    rejectedFiles: rejected.files,
    madeFiles: files.count,
    deliveredDigest: null,
  };
  const columns = (found.manifest?.schema ?? []).map(
    // Only names and PostgreSQL's types are written; the table has its columns.
    ({ name, type }): Column => ({ name, type: 'text', sourceType: type }),
  );
  // The rows have the columns that they had.
  const { table } = found;
  const bareTable = table && {
    ...table,
    commit: (made: MadeFiles) => table.commit({ ...made, columns: [] }),
  };
  return commitFiles({ ...attempt, files, intent, columns, found: { ...found, table: bareTable } });
}

/** Makes the result if nothing changes: what the files have is counted again. */
function resultOf(delivered: CurrentReceipt): IntervalResult {
  const rows = sum(delivered.files, (file) => file.rows);
  const rejectedRows = sum(delivered.rejectedFiles, (file) => file.rows);
  return { ...unchanged(delivered), totalRows: rows + rejectedRows, rows, rejectedRows };
}

interface FileAgain {
  readonly before: CommittedFile;
  /** Its place among `of` files of its kind. */
  readonly index: number;
  readonly of: number;
  readonly isRejected: boolean;
  readonly rows: number;
}

/** The files that an erasure makes, each from the one that it replaces. After a failure call `abort`. */
class ErasedFiles implements CompletableFiles {
  readonly #delivery: Delivery;
  readonly #files: HashedFile[] = [];
  readonly columnMetrics = new Map<string, readonly ColumnMetrics[]>();

  constructor(delivery: Delivery) {
    this.#delivery = delivery;
  }

  get count(): number {
    return this.#files.length;
  }

  get rows(): number {
    return sum(this.#files, (file) => file.entry().rows);
  }

  get bytes(): number {
    return sum(this.#files, (file) => file.bytes);
  }

  /** Writes a file. Nothing is readable before `complete`, unless the file replaces its own key. */
  async write(again: FileAgain, rest: RemainingFile): Promise<ManifestFile> {
    const { job, destination, ports, signal } = this.#delivery;
    const { exportId: owner, encoding, writesManifest, generation } = job;
    const run = { id: job.runId, era: job.era };
    const key = writesManifest ? this.#keyOf(again) : again.before.key;
    const contentType = again.isRejected ? 'application/x-ndjson' : encoding.contentType;
    // A file that is put at once stays in memory until the commit: the others have uploads.
    const isNewKey = writesManifest && this.#files.length === 0;
    const options = { key, contentType, owner, run, isNewKey };
    const writer = await destination.createFile(options, ports.journal, signal);
    const file = new HashedFile(key, writesManifest ? generation : again.before.generation, writer);
    this.#files.push(file);
    for await (const chunk of rest.bytes) {
      signal.throwIfAborted();
      await file.write([chunk], 0);
    }
    await file.write([], again.rows);
    await file.flush();
    this.columnMetrics.set(key, rest.columnMetrics ?? []);
    return file.entry();
  }

  #keyOf({ before, index, of, isRejected }: FileAgain): string {
    const { names, generation, maxFileBytes, encoding } = this.#delivery.job;
    // The keys keep the order of the rows.
    const part = of === 1 && maxFileBytes === null ? null : index + 1;
    const partition = partitionOfKey(names.stem, before.key) ?? '';
    const key = fileKey(names, generation, part, encoding.extension, partition);
    return isRejected ? rejectedKey(key) : key;
  }

  complete(completeOne: CompleteOne): Promise<Tags> {
    return completeAll(this.#files, completeOne);
  }

  async abort(): Promise<void> {
    await abortAll(this.#files);
  }
}
