import { SluiceError } from '../../foundation/domain/errors.ts';
import { readKey } from '../../foundation/domain/file-name.ts';
import type { Instant } from '../../foundation/domain/time.ts';
import { ReadingBudget } from './avro.ts';
import {
  type Counts,
  decodeManifestFile,
  decodeManifestList,
  encodeManifestFile,
  entryStatus,
  type FileMetrics,
  type ManifestEntry,
  type ManifestInfo,
} from './manifests.ts';
import { nameOf, ownerMark, type Snapshot, type TableSchema } from './metadata.ts';
import { metadataFolder, type TableObjects, type TablePlace } from './table-objects.ts';

export interface TableInterval {
  /** `<prefix>/<start>-<end>`: what the keys of its files start with. */
  readonly stem: string;
  readonly start: Instant;
  readonly end: Instant;
}

export interface LiveFile {
  readonly path: string;
  readonly rows: number;
  readonly bytes: number;
  readonly metrics: FileMetrics;
  readonly snapshotId: number;
  readonly sequence: number;
}

/** The manifests of a snapshot, and those of them that can have files of an interval. */
export interface FoundInterval {
  /** All that the snapshot names, also those that only say what it has removed. */
  readonly listed: readonly ManifestInfo[];
  readonly manifests: readonly ManifestInfo[];
  readonly near: readonly { readonly info: ManifestInfo; readonly files: readonly LiveFile[] }[];
  readonly own: readonly LiveFile[];
}

/** Maximum bytes of a list or a manifest. 36,000 files have about 1 MiB. */
const maxAvroBytes = 8 * 1024 ** 2;

/** Merging keeps a table far below it. A hostile store could name any number. */
const maxManifests = 5_000;

/** For all files that a commit reads of a table at a time: the list, and the manifests near its interval. */
export const budgetOfCommit = ({ holds }: Pick<TableObjects, 'holds'> = {}) =>
  new ReadingBudget(64 * 1024 ** 2, 100_000, holds);

/** Reads the manifests that may have files of the interval, by their names; with `isWhole` all, as if all were its own. */
export async function findInterval(
  place: TablePlace,
  objects: TableObjects,
  snapshot: Snapshot | null,
  interval: TableInterval,
  isWhole = false,
): Promise<FoundInterval> {
  const budget = budgetOfCommit(objects);
  const listed = await readManifests(place, objects, snapshot, budget);
  const manifests = listed.filter((info) => liveOf(info).files > 0);
  if (manifests.length > maxManifests) {
    throw new SluiceError('destination.table_damaged', `${place.folder} has too many manifests`);
  }
  const near: { info: ManifestInfo; files: readonly LiveFile[] }[] = [];
  for (const info of manifests) {
    if (!isWhole && !overlaps(info, interval)) continue;
    near.push({ info, files: await readFiles(place, objects, info, budget) });
  }
  const own = near.flatMap(({ files }) =>
    files.filter((file) => isWhole || isOf(place, interval, file)),
  );
  return { listed, manifests, near, own };
}

export async function readManifests(
  place: TablePlace,
  objects: TableObjects,
  snapshot: Snapshot | null,
  budget: ReadingBudget,
): Promise<readonly ManifestInfo[]> {
  if (snapshot === null) return [];
  return readAvro(place, objects, snapshot['manifest-list'], (bytes) =>
    decodeManifestList(bytes, budget),
  );
}

export async function readFiles(
  place: TablePlace,
  objects: TableObjects,
  info: ManifestInfo,
  budget: ReadingBudget,
): Promise<readonly LiveFile[]> {
  const entries = await readAvro(place, objects, info.path, (bytes) =>
    decodeManifestFile(bytes, budget),
  );
  return entries
    .filter(({ status }) => status !== entryStatus.deleted)
    .map((entry) => ({ ...entry, sequence: entry.sequence ?? info.sequence }));
}

async function readAvro<T>(
  place: TablePlace,
  objects: TableObjects,
  path: string,
  decode: (bytes: Buffer) => Promise<T>,
): Promise<T> {
  // Never a key that the metadata names elsewhere.
  const key = metadataFolder(place) + nameOf(path);
  const object = await objects.read(key, maxAvroBytes);
  const damaged = (what: string, cause?: unknown) =>
    new SluiceError('destination.table_damaged', `${key} ${what}`, cause);
  if (!object || path !== place.uri(key)) throw damaged('is missing');
  try {
    return await decode(object.bytes);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw damaged(`is not as Sluice wrote it: ${error.message}`, error);
  }
}

export const isOf = (
  place: TablePlace,
  { stem }: TableInterval,
  { path }: Pick<LiveFile, 'path'>,
): boolean => path.startsWith(place.uri(stem));

/** Says whether one of the manifests has files of a later interval. */
export const hasLater = (
  { near }: FoundInterval,
  { start }: Pick<TableInterval, 'start'>,
): boolean =>
  near.some(
    ({ info, files }) => files.length > 0 && rangeOf(info).start > Math.floor(start / 1000) * 1000,
  );

/** A worker that was frozen may come back with files of before. */
export function checkGeneration(
  place: TablePlace,
  { own }: FoundInterval,
  change: TableInterval & { readonly generation: number },
): void {
  const { stem, generation } = change;
  const paths = own.filter((file) => isOf(place, change, file)).map(({ path }) => path);
  const later = Math.max(0, ...paths.map(generationIn));
  if (later <= generation) return;
  const detail = `the Iceberg table has generation ${later} of ${stem}, later than ${generation}`;
  throw new SluiceError('destination.conflict', detail);
}

export function generationIn(path: string): number {
  return readKey(path)?.generation ?? 1;
}

/** `m_<start>_<end>_v<version>_<snapshot>_<n>.avro`, in seconds: its intervals, and which commit wrote it. */
function manifestName(
  { start, end }: Omit<TableInterval, 'stem'>,
  { version, snapshotId, written }: ManifestContext,
): string {
  const range = `${Math.floor(start / 1000)}_${Math.ceil(end / 1000)}`;
  return `m_${range}_${ownerMark({ version, snapshotId })}_${written.length}.avro`;
}

function rangeOf({ path }: ManifestInfo): Omit<TableInterval, 'stem'> {
  const [, start, end] = /^m_(-?\d+)_(-?\d+)_/.exec(nameOf(path)) ?? [];
  if (start === undefined || end === undefined) {
    const detail = `${path} is not Sluice's: another program has changed the table`;
    throw new SluiceError('destination.table_damaged', detail);
  }
  return { start: Number(start) * 1000, end: Number(end) * 1000 };
}

function overlaps(info: ManifestInfo, { start, end }: TableInterval): boolean {
  const range = rangeOf(info);
  return range.start < end && start < range.end;
}

export const liveOf = ({ added, existing }: ManifestInfo): Counts => ({
  files: added.files + existing.files,
  rows: added.rows + existing.rows,
});

export interface ManifestContext {
  readonly place: TablePlace;
  readonly objects: TableObjects;
  readonly schema: TableSchema;
  readonly snapshotId: number;
  /** The version of the table that is to name what is written. */
  readonly version: number;
  readonly sequence: number;
  /** Gets the keys of what is written. */
  readonly written: string[];
}

export async function writeManifest(
  context: ManifestContext,
  range: Omit<TableInterval, 'stem'>,
  entries: readonly ManifestEntry[],
): Promise<ManifestInfo> {
  const { place, objects, schema, snapshotId, sequence, written } = context;
  const bytes = encodeManifestFile(schema, entries);
  const key = metadataFolder(place) + manifestName(range, context);
  written.push(key);
  await putNew(objects, key, bytes);
  const countOf = (wanted: number): Counts => {
    const matching = entries.filter(({ status }) => status === wanted);
    return { files: matching.length, rows: sum(matching.map(({ rows }) => rows)) };
  };
  const live = entries.filter(({ status }) => status !== entryStatus.deleted);
  return {
    path: place.uri(key),
    bytes: bytes.length,
    sequence,
    minSequence: Math.min(sequence, ...live.map((entry) => entry.sequence ?? sequence)),
    snapshotId,
    added: countOf(entryStatus.added),
    existing: countOf(entryStatus.existing),
    deleted: countOf(entryStatus.deleted),
  };
}

/** Puts an object whose key no other can have. */
export async function putNew(objects: TableObjects, key: string, bytes: Buffer): Promise<void> {
  if (!(await objects.put(key, bytes, null))) throw new SluiceError('destination.conflict', key);
}

/** Manifests of about equal size that are merged once there are more. */
const fanOut = 8;

/** Manifests of more files than `fanOut` to this are merged no more. */
const maxClass = 4;

/** Wide tables have much to say of each file, and a commit to an interval writes its manifest again. */
const maxMergedBytes = 2 * 1024 ** 2;

/**
 * Joins small manifests of about equal size, one group per commit: a table of n files has about
 * `fanOut * log n` manifests, and each file is written again about `log n` times.
 */
export async function mergeManifests(
  context: ManifestContext,
  manifests: readonly ManifestInfo[],
): Promise<readonly ManifestInfo[]> {
  const classes = new Map<number, ManifestInfo[]>();
  for (const info of manifests) {
    // The manifests of this snapshot say what it changed.
    if (info.snapshotId === context.snapshotId) continue;
    const size = Math.floor(Math.log2(liveOf(info).files) / Math.log2(fanOut));
    classes.set(size, [...(classes.get(size) ?? []), info]);
  }
  const isMerged = (size: number, infos: readonly ManifestInfo[]) =>
    size < maxClass &&
    infos.length > fanOut &&
    sum(infos.map(({ bytes }) => bytes)) <= maxMergedBytes;
  const group = [...classes].find(([size, infos]) => isMerged(size, infos))?.[1];
  if (!group) return manifests;
  const files: LiveFile[] = [];
  const budget = budgetOfCommit(context.objects);
  for (const info of group) {
    files.push(...(await readFiles(context.place, context.objects, info, budget)));
  }
  const ranges = group.map(rangeOf);
  const range = {
    start: Math.min(...ranges.map(({ start }) => start)),
    end: Math.max(...ranges.map(({ end }) => end)),
  };
  const merged = await writeManifest(context, range, files.map(asExisting));
  const gone = new Set(group);
  return [merged, ...manifests.filter((info) => !gone.has(info))];
}

export const asExisting = (file: LiveFile): ManifestEntry => ({
  ...file,
  status: entryStatus.existing,
});

export const rewriteManifest = (
  context: ManifestContext,
  place: ManifestInfo,
  entries: readonly ManifestEntry[],
): Promise<ManifestInfo> => writeManifest(context, rangeOf(place), entries);

export function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
