import { budgetOfCommit, readManifests } from '../../src/extensions/iceberg/manifest-set.ts';
import {
  keptVersions,
  nameOf,
  ownNames,
  readNames,
} from '../../src/extensions/iceberg/metadata.ts';
import {
  metadataFolder,
  type TableObjects,
  type TablePlace,
} from '../../src/extensions/iceberg/table-objects.ts';
import { readNewest } from '../../src/extensions/iceberg/versions.ts';

/** Names in the metadata folder of a table that no snapshot needs, and that do not wait for their removal. */
export async function findTableLeftovers(
  place: TablePlace,
  objects: TableObjects,
): Promise<string[]> {
  const { table, version } = await readNewest(place, objects);
  const needed = new Set([
    'version-hint.text',
    ...readNames(table?.properties[ownNames.removable]),
  ]);
  for (let old = version - keptVersions; old <= version; old += 1) {
    needed.add(`v${old}.metadata.json`);
  }
  for (const snapshot of table?.snapshots ?? []) {
    needed.add(nameOf(snapshot['manifest-list']));
    for (const { path } of await readManifests(place, objects, snapshot, budgetOfCommit()))
      needed.add(nameOf(path));
  }
  const left: string[] = [];
  for await (const { key } of objects.list(metadataFolder(place))) {
    if (!needed.has(nameOf(key))) left.push(nameOf(key));
  }
  return left;
}
