import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import type { ColumnMetrics } from '../../foundation/domain/column-metrics.ts';
import { SluiceError } from '../../foundation/domain/errors.ts';
import type { TableField } from '../../foundation/domain/table-field.ts';
import type { Instant } from '../../foundation/domain/time.ts';
import { failpoint } from '../../foundation/failpoints/failpoint.ts';
import {
  asExisting,
  type FoundInterval,
  checkGeneration,
  findInterval,
  hasLater,
  generationIn,
  liveOf,
  type LiveFile,
  type ManifestContext,
  mergeManifests,
  putNew,
  rewriteManifest,
  sum,
  type TableInterval,
  writeManifest,
} from './manifest-set.ts';
import { encodeManifestList, encodeMetrics, entryStatus, type ManifestInfo } from './manifests.ts';
import {
  currentSnapshot,
  emptyTable,
  keptVersions,
  nameOf,
  newSnapshotId,
  ofOneInterval,
  ownNames,
  ownerMark,
  readNames,
  type Snapshot,
  schemaOf,
  type TableMetadata,
  withFields,
  withoutExpired,
  withSnapshot,
} from './metadata.ts';
import { findOrphans } from './orphans.ts';
import { locationOf, metadataFolder, type TableObjects, type TablePlace } from './table-objects.ts';
import {
  keepsConditions,
  putHint,
  putVersion,
  readNewest,
  type TableVersion,
  versionName,
} from './versions.ts';

/** The files that an interval has from now on. */
export interface IntervalFiles extends TableInterval {
  readonly generation: number;
  readonly files: readonly {
    readonly key: string;
    readonly rows: number;
    readonly bytes: number;
    readonly columns: readonly ColumnMetrics[];
  }[];
  readonly fields: readonly TableField[];
  /** True if they take the place of the files of all intervals up to this one. If the table has a later one, it stays. Missing: no. */
  readonly isWhole?: boolean;
  /** True if the version rises though nothing changes: a commit that another worker has begun must fail. */
  readonly isSealed: boolean;
  /** True if a worker may have died in an earlier commit of the interval: what it left is removed. */
  readonly mayHaveLeft: boolean;
}

export interface TableCommit {
  readonly place: TablePlace;
  readonly objects: TableObjects;
  /** Snapshots that were replaced longer ago are removed, in milliseconds. */
  readonly retentionMs: number;
  readonly signal: AbortSignal;
  readNow(): Promise<Instant>;
  /** Called before the table is written: throws if the run is lost. A later commit of it has raised the version, or will. */
  confirm(): Promise<void>;
}

/** Writers of one table come one after the other, so a writer may lose so often. */
const maxTries = 40;

const maxWaitMs = 2_000;

/**
 * Makes the files those of the interval, in place of all others: one snapshot, or none if the table has them
 * already. An interval without files makes a table that does not exist yet, without a snapshot. Files that the table has stay as they are, so a supplement is an append. May be repeated.
 *
 * @throws SluiceError `destination.table_conflict`, `destination.table_damaged`, `destination.key_taken`;
 *   `destination.conflict` if the table has a later generation of the interval, or too many writers; what
 *   `confirm` throws
 */
export async function commitInterval(commit: TableCommit, change: IntervalFiles): Promise<void> {
  await commitChange(commit, (context) => addSnapshot(context, change), change.mayHaveLeft);
}

/** Removes the snapshots that were replaced too long ago, if there are any. */
export async function expireSnapshots(commit: TableCommit): Promise<void> {
  await commitChange(commit, async ({ table }) => ({ table, isChanged: false }), false);
}

interface ChangeContext {
  readonly place: TablePlace;
  readonly objects: TableObjects;
  readonly table: TableMetadata;
  readonly version: number;
  readonly now: Instant;
  /** Gets the keys of what is written for this try. */
  readonly written: string[];
}

type Change = (
  context: ChangeContext,
) => Promise<{ readonly table: TableMetadata; readonly isChanged: boolean }>;

async function commitChange(
  commit: TableCommit,
  change: Change,
  mayHaveLeft: boolean,
): Promise<void> {
  const { place, objects, signal } = commit;
  for (let tried = 0; tried < maxTries; tried += 1) {
    signal.throwIfAborted();
    if (tried > 0) await wait(Math.random() * Math.min(maxWaitMs, 50 * tried), null, { signal });
    const base = await readNewest(place, objects);
    const written: string[] = [];
    const next = await prepare(commit, base, change, written);
    if (next === null) {
      if (base.version > 0) await putHint(place, objects, base.hint, base.version);
      return;
    }
    await confirmPut(commit, written).catch(async (error: unknown) => {
      await objects.remove(written).catch(() => {});
      throw error;
    });
    await failpoint('before_table');
    const end = await putVersion(place, objects, base, next, () => failpoint('after_table'));
    if (end === 'done') {
      const version = base.version + 1;
      if (mayHaveLeft || version % collectEvery === 0) await collect(commit, next, version);
      return;
    }
    // Otherwise the version may be, or become, part of the table.
    if (end === 'taken') await objects.remove(written);
  }
  throw new SluiceError('destination.conflict', `${metadataFolder(place)}: too many writers`);
}

/** @throws SluiceError `destination.invalid_config` if the put could replace another writer's version */
async function confirmPut({ objects, confirm }: TableCommit, written: readonly string[]) {
  const last = written.at(-1);
  if (last !== undefined && !(await keepsConditions(objects, last))) {
    const detail =
      'the store replaced an object in spite of If-None-Match: *, so two writers of an Iceberg table could lose rows. Is there another store, or a proxy, at the endpoint?';
    throw new SluiceError('destination.invalid_config', detail);
  }
  await confirm();
}

/** Versions between two looks for files that no table names. */
export const collectEvery = 64;

/** The commit is done, so what fails here waits for another. */
async function collect({ place, objects }: TableCommit, table: TableMetadata, version: number) {
  try {
    await objects.remove(await findOrphans(place, objects, table, version));
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error;
  }
}

/** @returns the next version; null if there is nothing to change */
async function prepare(
  { place, objects, retentionMs, readNow }: TableCommit,
  base: TableVersion,
  change: Change,
  written: string[],
): Promise<TableMetadata | null> {
  const clock = await readNow();
  const table = base.table ?? emptyTable(locationOf(place), place.owner, clock);
  // Iceberg's times never go back, whatever a clock says.
  const now = Math.max(clock, table['last-updated-ms'] + 1);
  const version = base.version + 1;
  const changed = await change({ place, objects, table, version, now, written });
  const expired = withoutExpired(changed.table, clock - retentionMs);
  if (!changed.isChanged && expired.removable.length === 0) return null;
  const remaining = await removeFiles(place, objects, base);
  return withVersion(place, expired.table, base, now, [...remaining, ...expired.removable]);
}

/** Removes files that the base names as needed by none: a dead worker may have left them. @returns those that stay */
async function removeFiles(
  place: TablePlace,
  objects: TableObjects,
  { table, hint }: TableVersion,
): Promise<readonly string[]> {
  const names = readNames(table?.properties[ownNames.removable]);
  // A version that the hint has not left behind shows a late writer that its number is taken.
  const isNeeded = (name: string) => Number(/^v(\d+)/.exec(name)?.[1] ?? -1) >= hint.version;
  const removable = names.filter((name) => !isNeeded(name));
  const keys = removable.map((name) => metadataFolder(place) + name);
  const isRemoved = await objects.remove(keys).then(
    () => true,
    (error: unknown) => {
      // Without the permission they stay; a run must not fail for it.
      if (error instanceof SluiceError && error.code === 'destination.access_denied') return false;
      throw error;
    },
  );
  return isRemoved ? names.filter(isNeeded) : names.slice(-maxLeft);
}

const maxLeft = 2_000;

function withVersion(
  place: TablePlace,
  table: TableMetadata,
  { version, table: before }: TableVersion,
  now: Instant,
  removable: readonly string[],
): TableMetadata {
  const old = version - keptVersions;
  const names = old > 0 ? [...removable, versionName(old)] : removable;
  const { [ownNames.removable]: _, ...properties } = table.properties;
  const log = before
    ? [
        ...table['metadata-log'],
        {
          'timestamp-ms': before['last-updated-ms'],
          'metadata-file': place.uri(metadataFolder(place) + versionName(version)),
        },
      ]
    : [];
  return {
    ...table,
    'last-updated-ms': now,
    'metadata-log': log.slice(-keptVersions),
    properties: {
      ...properties,
      [ownNames.commit]: randomUUID(),
      ...(names.length > 0 && { [ownNames.removable]: JSON.stringify(names) }),
    },
  };
}

async function addSnapshot(
  { place, objects, table: before, version, now, written }: ChangeContext,
  change: IntervalFiles,
): ReturnType<Change> {
  const parent = currentSnapshot(before);
  const { isWhole = false } = change;
  const interval = await findInterval(place, objects, parent, change, isWhole);
  if (isWhole && hasLater(interval, change)) return { table: before, isChanged: change.isSealed };
  const newFiles = change.files.map(
    ({ key, rows, bytes, columns }): WantedFile => ({
      ...{ path: place.uri(key), rows, bytes },
      metrics: encodeMetrics(columns),
    }),
  );
  checkGeneration(place, interval, change);
  const fielded = change.files.length > 0 ? withFields(before, change.fields) : before;
  const table = isWhole ? ofOneInterval(fielded) : fielded;
  const removed = without(interval.own, newFiles);
  const added = without(newFiles, interval.own);
  if (removed.length + added.length === 0) {
    // Readers find a table with its columns, also if the first interval has no rows.
    if (version === 1) return { table: withFields(table, change.fields), isChanged: true };
    return { table: before, isChanged: change.isSealed };
  }
  const snapshotId = newSnapshotId();
  const sequence = table['last-sequence-number'] + 1;
  const schema = schemaOf(table);
  const mark = { version, snapshotId };
  const context: ManifestContext = { place, objects, schema, ...mark, sequence, written };
  const manifests = await writeManifests(context, interval, change, { removed, added });
  const listKey = `${metadataFolder(place)}s_${ownerMark(mark)}.avro`;
  written.push(listKey);
  const parentId = parent?.['snapshot-id'] ?? null;
  const list = encodeManifestList(manifests, snapshotId, parentId, sequence);
  await putNew(objects, listKey, list);
  const snapshot: Snapshot = {
    'snapshot-id': snapshotId,
    ...(parentId !== null && { 'parent-snapshot-id': parentId }),
    'sequence-number': sequence,
    'timestamp-ms': now,
    'manifest-list': place.uri(listKey),
    summary: summarize(interval, change, { removed, added }, manifests),
    'schema-id': schema['schema-id'],
  };
  return { table: withSnapshot(table, snapshot), isChanged: true };
}

type WantedFile = Omit<LiveFile, 'snapshotId' | 'sequence'>;
type FileFacts = Pick<LiveFile, 'path' | 'rows' | 'bytes'>;

/** Two files with one name have the same columns. */
export function haveSameFiles(one: readonly FileFacts[], other: readonly FileFacts[]): boolean {
  return without(one, other).length + without(other, one).length === 0;
}

function without<T extends FileFacts>(
  some: readonly T[],
  others: readonly FileFacts[],
): readonly T[] {
  const facts = ({ path, rows, bytes }: FileFacts) => `${path} ${rows} ${bytes}`;
  const otherFacts = new Set(others.map(facts));
  return some.filter((file) => !otherFacts.has(facts(file)));
}

interface FileChange {
  readonly removed: readonly LiveFile[];
  readonly added: readonly WantedFile[];
}

/** The manifests of the new snapshot; those without files only say what it has removed. */
async function writeManifests(
  context: ManifestContext,
  { manifests, near }: FoundInterval,
  change: IntervalFiles,
  { removed, added }: FileChange,
): Promise<readonly ManifestInfo[]> {
  const { snapshotId } = context;
  const gone = new Set(removed.map(({ path }) => path));
  const rewritten = new Map<ManifestInfo, ManifestInfo>();
  for (const { info, files } of near) {
    if (!files.some(({ path }) => gone.has(path))) continue;
    const entries = files.map((file) =>
      gone.has(file.path) ? { ...file, status: entryStatus.deleted, snapshotId } : asExisting(file),
    );
    rewritten.set(info, await rewriteManifest(context, info, entries));
  }
  const rest = manifests.map((info) => rewritten.get(info) ?? info);
  if (added.length > 0) {
    const facts = { status: entryStatus.added, snapshotId, sequence: null };
    const entries = added.map((file) => ({ ...file, ...facts }));
    rest.push(await writeManifest(context, change, entries));
  }
  return mergeManifests(context, rest);
}

function summarize(
  { listed }: FoundInterval,
  { stem, generation }: IntervalFiles,
  { removed, added }: FileChange,
  manifests: readonly ManifestInfo[],
): Readonly<Record<string, string>> {
  const currentPaths = new Set(manifests.map(({ path }) => path));
  const dropped = listed.map(({ path }) => path).filter((path) => !currentPaths.has(path));
  const live = manifests.map(liveOf);
  const operation = removed.length === 0 ? 'append' : added.length === 0 ? 'delete' : 'overwrite';
  const numbers = {
    'added-data-files': added.length,
    'added-records': sum(added.map(({ rows }) => rows)),
    'added-files-size': sum(added.map(({ bytes }) => bytes)),
    'deleted-data-files': removed.length,
    'deleted-records': sum(removed.map(({ rows }) => rows)),
    'removed-files-size': sum(removed.map(({ bytes }) => bytes)),
    'total-data-files': sum(live.map(({ files }) => files)),
    'total-records': sum(live.map(({ rows }) => rows)),
    'total-delete-files': 0,
    'total-position-deletes': 0,
    'total-equality-deletes': 0,
  };
  const counted = Object.entries(numbers).map(([name, count]) => [name, String(count)]);
  const replaced = [...new Set(removed.map(({ path }) => generationIn(path)))];
  return {
    operation,
    ...Object.fromEntries(counted),
    [ownNames.interval]: stem,
    [ownNames.generation]: String(generation),
    ...(replaced.length > 0 && { [ownNames.replaced]: replaced.join(',') }),
    ...(dropped.length > 0 && { [ownNames.dropped]: JSON.stringify(dropped.map(nameOf)) }),
  };
}
