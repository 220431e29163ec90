import { budgetOfCommit, readManifests } from './manifest-set.ts';
import {
  keptVersions,
  nameOf,
  ownNames,
  readNames,
  readOwnerMark,
  type Snapshot,
  type TableMetadata,
} from './metadata.ts';
import { metadataFolder, type TableObjects, type TablePlace } from './table-objects.ts';

/** A hostile store could name any number of objects. */
const maxListed = 20_000;

/** Per look. The next one finds the others. */
const maxOrphans = 2_000;

/**
 * Keys of the metadata folder that no version names, nor can name: those that a writer left because it died, or
 * because it did not know how its commit ended. No clock decides it: a file has in its name the version that was
 * to name it, and that one is another writer's now, or is the file's own and has expired. A late put of that
 * version fails, or it is behind the hint.
 *
 * @param table its newest version, which the hint names
 * @throws SluiceError
 */
export async function findOrphans(
  place: TablePlace,
  objects: TableObjects,
  table: TableMetadata,
  version: number,
): Promise<readonly string[]> {
  const folder = metadataFolder(place);
  const waiting = new Set(readNames(table.properties[ownNames.removable]));
  const [oldest] = table.snapshots;
  const inOldest = new Set(
    (await readManifests(place, objects, oldest ?? null, budgetOfCommit(objects))).map(({ path }) =>
      nameOf(path),
    ),
  );
  const isNamed = namedBy(table.snapshots, inOldest);
  const orphans: string[] = [];
  let listed = 0;
  for await (const { key } of objects.list(folder)) {
    listed += 1;
    if (listed > maxListed || orphans.length === maxOrphans) break;
    const name = key.slice(folder.length);
    // These go with the next version, as readers of this one may need them.
    if (waiting.has(name)) continue;
    if (isOldVersion(name, version)) orphans.push(key);
    const mark = readOwnerMark(name);
    if (mark && mark.version <= version && !isNamed(name)) orphans.push(key);
  }
  return orphans;
}

/** One that was removed, and that a frozen writer has put again. */
function isOldVersion(name: string, newest: number): boolean {
  const [, version] = /^v(\d{1,15})\.metadata\.json$/.exec(name) ?? [];
  return version !== undefined && Number(version) < newest - keptVersions - 1;
}

/** Snapshots expire in their order, so a manifest of an expired one is needed if the oldest that is left names it. */
function namedBy(
  snapshots: readonly Snapshot[],
  inOldest: ReadonlySet<string>,
): (name: string) => boolean {
  const lists = snapshots.map((snapshot) => nameOf(snapshot['manifest-list']));
  const listNames = new Set(lists);
  const ids = new Set(snapshots.map((snapshot) => snapshot['snapshot-id']));
  return (name) => {
    if (name.startsWith('s_')) return listNames.has(name);
    return inOldest.has(name) || ids.has(readOwnerMark(name)?.snapshotId ?? -1);
  };
}
