import { SluiceError, toSluiceError } from '../../foundation/domain/errors.ts';
import { settingsForRecipe } from '../../foundation/domain/format-settings.ts';
import { manifestKey, mayFollow } from '../../foundation/domain/object-keys.ts';
import type { Recipe } from '../../foundation/domain/recipe.ts';
import type { Column } from '../../foundation/domain/row-block.ts';
import { toTimestamp } from '../../foundation/domain/time.ts';
import { failpoint } from '../../foundation/failpoints/failpoint.ts';
import type { Destination } from '../destinations/destination.ts';
import { refusePartOfDay } from '../sources/source.ts';
import { withOpenSteps } from '../transforms/own-steps.ts';
import { type Commit, commitFiles, schemaOf } from './commit.ts';
import { findAdoptable, findUnchanged } from './current-files.ts';
import { describeUnproven, describeUnsettled } from './describe-unsettled.ts';
import { eraseRows, expireFiles } from './erase-rows.ts';
import type {
  IntervalAttempt,
  IntervalJob,
  IntervalSource,
  RunPorts,
  SettledAttempt,
} from './interval-job.ts';
import {
  type CommitIntent,
  type IntervalResult,
  type LeftoverFile,
  namedBy,
} from '../../foundation/domain/receipt.ts';
import { KeySpool, SpoolFolder } from './key-spool.ts';
import { replacedBy } from './leftovers.ts';
import { type FoundManifest, readManifestAt } from './manifest.ts';
import { checkMissing, findAllDelivered } from './missing-rows.ts';
import { elementOf, type OpenedRows, openRows } from './open-element.ts';
import { supplementInterval } from './supplement.ts';
import type { OpenTable } from './table-format.ts';
import { allKeyIndicesOf, countSteps, writeRows, type WrittenRows } from './write-rows.ts';

export interface ExportedInterval {
  readonly result: IntervalResult;
  readonly replaced: readonly LeftoverFile[];
}

/**
 * Exports one interval: the rows of one snapshot into files, then the manifest that makes them current.
 * Nothing is readable before the commit. After a failure only what the intent names is left, unless the store did not abort an upload.
 * May be repeated for the same interval with the same effect.
 *
 * @throws SluiceError, and the reason of `signal`
 */
export async function exportInterval(
  given: IntervalJob,
  source: IntervalSource,
  destination: Destination,
  ports: RunPorts,
  signal: AbortSignal,
): Promise<ExportedInterval> {
  const isUnseen = expectsNoManifest(given, destination);
  const manifest = isUnseen ? noManifest : await findManifest(destination, given, ports, signal);
  const adopted = findAdoptable(given, manifest);
  if (adopted) return { result: adopted, replaced: replacedBy(given, adopted, manifest) };
  if (given.isDeleted) throw new SluiceError('run.cancelled', 'the export was deleted');
  const table = (await given.table?.begin({ job: given, destination, ports, signal })) ?? null;
  const generation = await chooseGeneration(given, manifest, table, ports);
  const job = { ...given, generation };
  const attempt = { job, source, destination, ports, found: { ...manifest, table }, signal };
  const result = await makerOf(job)(attempt).catch(async (error: unknown) => {
    // Says whose manifest it is that the store did not replace.
    const isConflict = toSluiceError(error).code === 'destination.conflict';
    if (isUnseen && isConflict) await findManifest(destination, job, ports, signal);
    throw error;
  });
  return { result, replaced: replacedBy(job, result, manifest) };
}

/** Gives the function that makes the files of a run of this purpose. */
function makerOf({
  purpose,
  erased,
}: IntervalJob): (attempt: IntervalAttempt) => Promise<IntervalResult> {
  if (purpose === 'expire') return expireFiles;
  if (purpose !== 'erase') return copyInterval;
  // To copy the rows of the source instead would deliver them without their chain.
  if (!erased) throw new Error('a run does not know what to erase');
  return (attempt) => eraseRows(attempt, erased);
}

/**
 * The generation to write under. An export without a manifest replaces its files at their keys. A bucket
 * that is ahead of our database (which was restored from a backup) has used more generations.
 *
 * @throws SluiceError `destination.key_taken` or `destination.table_damaged` if the bucket names one that none can follow
 */
async function chooseGeneration(
  { purpose, writesManifest, current, generation, names }: IntervalJob,
  { manifest }: FoundManifest,
  table: OpenTable | null,
  ports: RunPorts,
): Promise<number> {
  const isInPlace = !writesManifest && current?.manifestKey === null;
  // A supplement adds rows beside the files that are there.
  if (isInPlace && purpose !== 'supplement') return current.generation;
  const inManifest = manifest === null ? 0 : manifest.generation;
  if (!mayFollow(inManifest)) {
    const detail = `${manifestKey(names)} has generation ${inManifest}`;
    throw new SluiceError('destination.key_taken', detail);
  }
  const inTable = table?.generation ?? 0;
  if (!mayFollow(inTable)) {
    const detail = `a file of the interval has generation ${inTable}`;
    throw new SluiceError('destination.table_damaged', detail);
  }
  const floor = Math.max(inManifest, inTable);
  return floor < generation ? generation : ports.raiseGeneration(floor);
}

async function copyInterval(attempt: IntervalAttempt): Promise<IntervalResult> {
  const { job, source, ports, signal } = attempt;
  ports.at('settle');
  const { whole: onlyEnd = false } = job.request;
  const settlement = job.settlement ?? (await source.settle(job.interval, signal, { onlyEnd }));
  const open = onlyEnd ? describeUnproven(settlement) : describeUnsettled(settlement);
  if (open !== null) ports.log('WARNING', open);
  // Before reading begins: what ends a sandbox is no proof that the run crashes workers.
  const options = { intervalEndMs: job.interval.end, signal, log: ports.logOfPlugin };
  const copy = job.purpose === 'supplement' ? supplementInterval : remakeInterval;
  return withOpenSteps(job.chain?.steps ?? [], options, async (steps) => {
    await failpoint('before_open');
    const folder = new SpoolFolder();
    try {
      return await copy({ ...attempt, steps, settlement, folder });
    } finally {
      await folder.remove();
    }
  });
}

async function remakeInterval(attempt: SettledAttempt): Promise<IntervalResult> {
  const { job, source, destination, ports, found, signal, folder } = attempt;
  ports.at('first_row');
  const opened = await openRows(attempt);
  const { snapshot, planned: element, delivered: deliveredKeys } = opened;
  for (const change of snapshot.typeChanges) ports.log('WARNING', change);
  // An element has what is gone too.
  const delivered = element ? [] : await findAllDelivered(job, found, destination, signal);
  const keys = delivered.length > 0 ? new KeySpool() : null;
  let closing: Promise<void> | null = null;
  // Beside the reading. What fails there may be for want of a connection.
  const counting = snapshot.countRows(signal).catch(() => null);
  const commit = async (written: WrittenRows): Promise<IntervalResult> => {
    const { files, columns } = written;
    ports.at('read');
    const totalRows = (await counting) ?? (await snapshot.countRows(signal));
    if (written.readRows !== totalRows) {
      const text = `${totalRows} rows were counted, but ${written.readRows} were read`;
      throw new SluiceError('source.count_mismatch', text);
    }
    ports.at('commit');
    const intent = intentOf(attempt, opened, written, totalRows);
    const dropped = describeDropped(intent);
    if (dropped !== null) ports.log('WARNING', dropped);
    // The source's transaction is as short as it can be, and nothing waits for its end.
    closing = snapshot.close();
    signal.throwIfAborted();
    const planned = { destination, job, intent, columns, found, ports, signal };
    const unchanged = await findUnchanged(planned);
    if (unchanged && ((await found.table?.hasFiles(unchanged.files)) ?? true)) {
      await files.abort();
      ports.log('INFO', 'The rows produce the same files again, so the current files stay.');
      return unchanged;
    }
    if (keys) {
      const keyIndices = allKeyIndicesOf(snapshot);
      const reading = { destination, readRows: job.readRows, folder, signal };
      const check = { job, intent, columns, keyIndices, made: keys, source, reading, ports };
      for (const files of delivered) await checkMissing({ ...check, delivered: files });
    }
    await deliveredKeys?.checkUnchanged(ports);
    return await commitFiles({ ...planned, files }).catch((error) =>
      cleanAfterRefusal(planned, error),
    );
  };
  try {
    refusePartOfDay(snapshot.hasDays, job.interval);
    const { table } = found;
    const number = element?.element.number ?? null;
    const rows = { ...attempt, snapshot, table, keys, element: number, delivered: deliveredKeys };
    return await writeRows(rows, commit);
  } finally {
    await keys?.close();
    await deliveredKeys?.close();
    await (closing ?? snapshot.close());
  }
}

/** Makes the commit intent of an interval that was made from all its rows. */
function intentOf(
  { job, settlement }: SettledAttempt,
  opened: OpenedRows,
  { files, columns, made, rejectedFiles, droppedRows, deletes, steps }: WrittenRows,
  totalRows: number,
): CommitIntent {
  const { snapshot } = opened;
  const element = elementOf(opened, deletes);
  const keyDigest = snapshot.keySet()?.digest ?? null;
  const isWhole = job.request.whole === true;
  // Rows that come after a snapshot are in the next one.
  const { settled, pending } = isWhole
    ? { settled: snapshot.sequence?.isSettled ?? true, pending: [] }
    : settlement;
  return {
    generation: job.generation,
    era: job.era,
    totalRows: totalRows + deletes,
    rows: files.rows,
    rejectedRows: files.rejectedRows,
    droppedRows,
    ...(element && { element }),
    ...(steps && { steps: countSteps(steps) }),
    bytes: files.bytes,
    files: made,
    rejectedFiles,
    madeFiles: made.length,
    manifestKey: job.writesManifest ? manifestKey(job.names) : null,
    recipe: recipeOf(job, columns),
    ...(isWhole && { snapshotAt: toTimestamp(snapshot.takenAt) }),
    snapshot: snapshot.snapshot,
    settled,
    pending,
    keyDigest,
    keyCount: totalRows,
    deliveredDigest: droppedRows === 0 && !element ? keyDigest : null,
  };
}

/** For the owner of an export of changes, if a step dropped some. */
function describeDropped({ element, droppedRows }: CommitIntent): string | null {
  if (!element || droppedRows === 0) return null;
  return `Changes that the transformations dropped: ${droppedRows}. Readers keep the earlier row of these keys, if they have one. Deletes are never dropped.`;
}

function recipeOf(
  { chain, encoding, maxFileBytes, partitionBy, request, writesManifest }: IntervalJob,
  columns: readonly Column[],
): Recipe {
  const { format, compression, settings } = encoding;
  const { dslQuery, includeEvents, excludeEvents } = request;
  return {
    format,
    compression,
    ...settingsForRecipe(settings),
    dslQuery,
    includeEvents,
    excludeEvents,
    ...((!writesManifest || !settings.csvHeader) && { schema: schemaOf(columns) }),
    ...(partitionBy.length > 0 && { partitionBy }),
    ...(chain && { chain: chain.recipe, maxFileBytes }),
  };
}

type Refused = Pick<Commit, 'destination' | 'job' | 'intent' | 'ports' | 'signal'>;

/**
 * Cleans up after a commit that the store refused because of what another export, or another program, has put there. A key
 * with another's object is not ours, so its note is deleted. If another's manifest is at the key of ours, then no manifest
 * will ever name our files: they are deleted at once. What is not known stays as it is.
 *
 * @throws always `error`
 */
async function cleanAfterRefusal(commit: Refused, error: unknown): Promise<never> {
  const { code } = toSluiceError(error);
  if (code === 'destination.conflict' || code === 'destination.key_taken') {
    // The refusal is what the run reports. Files that stay are on record.
    await withdraw(commit).catch(() => {});
  }
  throw error;
}

async function withdraw({ destination, job, intent, ports, signal }: Refused): Promise<void> {
  const { manifestKey } = intent;
  const keys = namedBy({ ...intent, manifestKey: null });
  const ours: string[] = [];
  const taken: string[] = [];
  for (const key of keys) {
    const object = await destination.statFile(key, signal);
    if (object !== null) (object.owner === job.exportId ? ours : taken).push(key);
  }
  if (taken.length > 0) await ports.withdraw(taken);
  // Another commit of the interval may still put a manifest of ours.
  if (manifestKey === null || job.begunManifests.length > 0 || job.mayBeOvertaken) return;
  const there = await readManifestAt(destination, manifestKey, signal);
  if (there === null || there === 'denied') return;
  if (there.manifest?.batch_export_id === job.exportId) return;
  await ports.lease.extend(true);
  await destination.deleteFiles(ours, signal);
  await ports.withdraw(keys.concat(manifestKey));
}

const noManifest: FoundManifest = { manifest: null, etag: null };

/**
 * Reads the manifest at an interval's key. If the credentials cannot read, our own record is used.
 *
 * @throws SluiceError `destination.key_taken` if the object is another export's, or not a manifest of ours:
 *   this export must not replace it; `run.unknown_history` if a database with another history has committed it
 */
async function findManifest(
  destination: Destination,
  job: IntervalJob,
  ports: Pick<RunPorts, 'knowsCommit'>,
  signal: AbortSignal,
): Promise<FoundManifest> {
  if (!job.writesManifest) return noManifest;
  const key = manifestKey(job.names);
  const reading = await readManifestAt(destination, key, signal);
  if (reading === null) return noManifest;
  const isRecorded = job.current?.manifestKey === key;
  if (reading === 'denied') {
    return { manifest: null, etag: isRecorded ? job.current.manifestEtag : null };
  }
  if (reading.manifest?.batch_export_id !== job.exportId) {
    throw new SluiceError('destination.key_taken', key);
  }
  if (isRecorded && job.current.manifestEtag === reading.etag) return reading;
  if (await ports.knowsCommit(reading.manifest, key, reading.modifiedAt)) return reading;
  throw new SluiceError('run.unknown_history', `${key} is of run ${reading.manifest.run_id}`);
}

/**
 * Says whether the attempt need not read the manifest. The first commit of an interval expects that there is none, and a store that
 * keeps If-None-Match refuses files and manifest if there is one. With many rows it reads, so that they are not read in vain.
 */
function expectsNoManifest(job: IntervalJob, { traits }: Pick<Destination, 'traits'>): boolean {
  const isFirst = job.generation === 1 && job.attempt === 1 && !job.mayBeOvertaken;
  const isRefused = traits?.ifNoneMatch === true && traits.completeIfNoneMatch;
  return isFirst && isRefused && job.isSmall === true && job.current === null && !job.table;
}
