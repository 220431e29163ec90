import type { FoundTable } from '../../rows/pipeline/table-format.ts';
import { ownNames } from './metadata.ts';
import { metadataFolder, type TableObjects, type TablePlace } from './table-objects.ts';
import { maxMetadataBytes } from './versions.ts';

/** The names of versions begin so: `v12`, and those of catalogs `00012-<id>`. */
const firstLetters = ['v', '0'];

/** A listing may be without end. */
const maxListed = 1_000;

/** Null if there is no table. @throws SluiceError */
export async function findTableAt(
  place: Pick<TablePlace, 'folder'>,
  objects: Pick<TableObjects, 'list' | 'read'>,
): Promise<FoundTable | null> {
  for (const letter of firstLetters) {
    let listed = 0;
    for await (const { key } of objects.list(metadataFolder(place) + letter)) {
      listed += 1;
      if (listed > maxListed) break;
      if (!key.endsWith('.metadata.json')) continue;
      const found = await objects.read(key, maxMetadataBytes);
      return { key, owner: found && ownerIn(found.bytes) };
    }
  }
  return null;
}

/** Not parsed: the bytes are anyone's, and may be many. */
function ownerIn(bytes: Buffer): string | null {
  const name = `"${ownNames.owner}":"`;
  const at = bytes.indexOf(name);
  const text = at < 0 ? '' : bytes.toString('latin1', at + name.length, at + name.length + 36);
  return /^[0-9a-f-]{36}$/.test(text) ? text : null;
}
