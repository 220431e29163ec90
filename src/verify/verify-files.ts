import { createHash } from 'node:crypto';
import { mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import type { Destination } from '../destinations/destination.ts';
import type { ReadColumn } from '../encoders/encoder.ts';
import { keyOfRow } from '../pipeline/key-values.ts';
import {
  decodeManifest,
  entryOf,
  generationOf,
  type Manifest,
  maxManifestBytes,
} from '../pipeline/manifest.ts';
import type { MadeBy, ReadRows } from '../pipeline/read-back.ts';
import type { Receipt } from '../store/receipts.ts';

/**
 * I4: each entry of the receipt and of the manifest exists with its bytes, checksum and rows. One file at a
 * time is on local disk, in the system's temporary folder.
 *
 * @param made how the files are read; a manifest's format and compression come first
 * @param columns the key columns; if there are none, no row is read
 * @param tell gets the keys of the rows of every correct file
 * @returns what is wrong
 */
export async function verifyFiles(
  { destination, readRows }: { readonly destination: Destination; readonly readRows: ReadRows },
  receipt: Receipt,
  made: MadeBy,
  columns: readonly ReadColumn[],
  tell: (key: string) => void,
): Promise<readonly string[]> {
  const faults: string[] = [];
  const manifest = receipt.manifestKey && (await readSmall(destination, receipt.manifestKey));
  const read = manifest ? decodeManifest(manifest) : null;
  if (receipt.manifestKey !== null) {
    if (!read) faults.push(`${receipt.manifestKey} is missing`);
    else if (isAhead(read, receipt)) return [describeAhead(read, receipt)];
    else if (JSON.stringify(read.files) !== JSON.stringify(receipt.files.map(entryOf))) {
      faults.push(`${receipt.manifestKey} does not list the files that the run recorded`);
    }
  }
  const folder = await mkdtemp(join(tmpdir(), 'sluice-verify-'));
  const path = join(folder, 'file');
  try {
    for (const [entries, isRejected] of [
      [receipt.files, false],
      [receipt.rejectedFiles, true],
    ] as const) {
      for (const entry of entries) {
        const fault = await findFault(destination, entry, path);
        if (fault !== null) {
          faults.push(fault);
          continue;
        }
        if (columns.length === 0) continue;
        let rows = 0;
        const by = isRejected ? 'rejected' : { ...made, ...formatOf(read) };
        for await (const row of readRows(path, by, columns)) {
          rows += 1;
          tell(keyOfRow(row, columns));
        }
        if (rows !== entry.rows) {
          faults.push(`${entry.key} has ${rows} rows, its manifest says ${entry.rows}`);
        }
      }
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  return faults;
}

const formatOf = (manifest: Manifest | null) =>
  manifest ? { format: manifest.format, compression: manifest.compression } : {};

/** Whether the bucket has a commit that our database lost because it was rolled back. */
function isAhead(manifest: Manifest, { generation, era }: Receipt): boolean {
  const otherEra = era !== null && manifest.era != null && manifest.era !== era;
  return otherEra || generationOf(manifest) > generation;
}

function describeAhead(manifest: Manifest, { manifestKey, generation, era }: Receipt): string {
  return (
    `${manifestKey} is of generation ${generationOf(manifest)} (era ${manifest.era ?? 'unknown'}), our record of ` +
    `generation ${generation} (era ${era ?? 'unknown'}): the bucket has a commit that this database does not ` +
    'know. It was probably restored from a backup, or a copy of it is running. Run the interval again.'
  );
}

type Entry = Receipt['files'][number];

/** Downloads a file to `path`. @returns what is wrong with its bytes */
async function findFault(
  destination: Destination,
  { key, bytes, sha256 }: Entry,
  path: string,
): Promise<string | null> {
  const found = await destination.readFile(key);
  if (!found) return `${key} is missing`;
  const hash = createHash('sha256');
  let size = 0;
  const file = await open(path, 'w');
  try {
    for await (const chunk of found.body) {
      hash.update(chunk);
      size += chunk.byteLength;
      // A store may send without end.
      if (size > bytes) return `${key} has more bytes than the ${bytes} of its manifest`;
      await file.writeFile(chunk);
    }
  } finally {
    await file.close();
  }
  if (size !== bytes) return `${key} has ${size} bytes, its manifest says ${bytes}`;
  if (hash.digest('hex') === sha256) return null;
  return `${key} does not have the checksum of its manifest`;
}

async function readSmall(destination: Destination, key: string): Promise<Buffer | null> {
  const found = await destination.readFile(key, { maxBytes: maxManifestBytes });
  return found && buffer(found.body);
}
