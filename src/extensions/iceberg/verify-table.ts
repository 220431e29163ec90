import { SluiceError } from '../../foundation/domain/errors.ts';
import type { Destination } from '../../rows/destinations/destination.ts';
import type { ManifestFile } from '../../rows/pipeline/manifest.ts';
import { readTable } from './read-table.ts';
import type { TablePlace } from './table-objects.ts';
import { objectsOf } from './objects-of.ts';

/** What the findings of one table name at most. */
const maxNamed = 20;

/** Implements `ExportTable.verify`. */
export async function verifyTable(
  destination: Destination,
  place: TablePlace,
  files: Iterable<Pick<ManifestFile, 'key' | 'rows' | 'bytes'>>,
): Promise<readonly string[]> {
  const wanted = new Map([...files].map((file) => [place.uri(file.key), file]));
  const found = await readTable(place, objectsOf(destination)).catch((error: unknown) => {
    if (error instanceof SluiceError && !error.spec.retryable) return error;
    throw error;
  });
  if (found instanceof SluiceError) return [`the Iceberg table: ${found.message}`];
  const faults = found.faults.map((fault) => `the Iceberg table: ${fault}`);
  // What could not be read would be missing below.
  if (faults.length > 0) return faults.slice(0, maxNamed);
  for (const [path, { rows, bytes }] of wanted) {
    const file = found.current.get(path);
    if (!file) faults.push(`${path} is not in the Iceberg table`);
    else if (file.rows !== rows || file.bytes !== bytes) {
      const said = `${file.rows} rows and ${file.bytes} bytes`;
      faults.push(`${path} has ${said} in the Iceberg table, ${rows} and ${bytes} in its manifest`);
    }
  }
  for (const path of found.current.keys()) {
    if (!wanted.has(path))
      faults.push(`${path} is in the Iceberg table and in no current manifest`);
  }
  const root = place.uri('');
  for (const [path, { bytes }] of found.earlier) {
    const stat = await destination.statFile(path.slice(root.length));
    if (stat?.bytes === bytes) continue;
    faults.push(`${path}, which an earlier snapshot of the Iceberg table has, is missing`);
  }
  return faults.slice(0, maxNamed);
}
