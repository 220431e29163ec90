import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { setImmediate } from 'node:timers/promises';
import type { Destination } from '../../rows/destinations/destination.ts';
import type { ReadColumn } from '../../rows/encoders/encoder.ts';
import { fetchFile, type MadeBy, type ReadRows } from '../../rows/pipeline/read-back.ts';
import {
  asWritten,
  ColumnsAbsent,
  describeAbsent,
  joinKeys,
  valuesOfRow,
} from '../../rows/pipeline/row-keys.ts';
import {
  decodeManifest,
  digestOfSchema,
  entryOf,
  type Manifest,
  maxManifestBytes,
} from '../../rows/pipeline/manifest.ts';
import type { ManifestFile } from '../../foundation/domain/receipt.ts';
import type { Receipt } from '../../state/store/intervals/receipts.ts';

const rowsPerTurn = 1_000;

export interface FileReading {
  readonly destination: Destination;
  readonly readRows: ReadRows;
  /** Absent: as long as the destination takes. */
  readonly signal?: AbortSignal;
}

/**
 * I4: each entry of the receipt and of the manifest exists with its bytes, checksum and rows. One file at a
 * time is on local disk, in the system's temporary folder.
 *
 * @param made how the files are read; a manifest's format and compression come first
 * @param columns the key columns; if there are none, no row is read
 * @param tell gets the keys of the rows of every correct file; may give what to wait for
 * @param passOver called for a rejected row without the columns, which has only its key; null: such a row is an error
 * @returns what is wrong
 * @throws ColumnsAbsent
 */
export async function verifyFiles(
  { destination, readRows, signal }: FileReading,
  receipt: Receipt,
  made: MadeBy,
  columns: readonly ReadColumn[],
  tell: (key: string, generation: number, values: readonly (string | null)[]) => unknown,
  passOver: (() => void) | null = null,
): Promise<readonly string[]> {
  const faults: string[] = [];
  const read =
    receipt.manifestKey === null
      ? null
      : await readManifest(destination, receipt.manifestKey, signal);
  if (receipt.manifestKey !== null) {
    if (read === null) faults.push(`${receipt.manifestKey} is missing`);
    else if (read === 'other') faults.push(`${receipt.manifestKey} is not a manifest of Sluice`);
    else if (isAhead(read, receipt)) return [describeAhead(read, receipt)];
    else if (!listsFiles(read, receipt)) {
      faults.push(`${receipt.manifestKey} does not list the files that the run recorded`);
    } else if (hasOtherSchema(read, receipt)) {
      faults.push(`${receipt.manifestKey} names other columns or types than the run recorded`);
    }
  }
  const { schema } = read && read !== 'other' ? read : made;
  const written = asWritten(columns, schema);
  const absent = describeAbsent(columns, schema);
  const hasFiles = receipt.files.length + receipt.rejectedFiles.length > 0;
  if (hasFiles && isOfSource(columns) && absent !== null) throw new ColumnsAbsent(absent);
  const folder = await mkdtemp(join(tmpdir(), 'sluice-verify-'));
  const path = join(folder, 'file');
  try {
    for (const [entries, isRejected] of [
      [receipt.files, false],
      [receipt.rejectedFiles, true],
    ] as const) {
      for (const entry of entries) {
        const fault = await fetchFile(destination, entry, path, signal);
        if (fault !== null) {
          faults.push(fault);
          continue;
        }
        if (columns.length === 0) continue;
        let rows = 0;
        const by = isRejected ? 'rejected' : { ...made, ...formatOf(read) };
        for await (const row of readRows(path, by, written)) {
          rows += 1;
          // Rows of one buffer come without a turn for what else this process does, such as renewing leases.
          if (rows % rowsPerTurn === 0) await setImmediate();
          if (passOver && row.includes(undefined)) passOver();
          else {
            const values = valuesOfRow(row, written);
            const waits = tell(joinKeys(values), entry.generation, values);
            if (waits) await waits;
          }
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

/** An erasure asks for any column by its name. */
const isOfSource = (columns: readonly ReadColumn[]): boolean =>
  columns.every(({ sourceType }) => sourceType !== undefined);

const formatOf = (manifest: Manifest | 'other' | null) =>
  manifest && manifest !== 'other'
    ? { format: manifest.format, compression: manifest.compression }
    : {};

/** Says whether the bucket has a commit that our database lost because it was rolled back. */
function isAhead(manifest: Manifest, { generation, era }: Receipt): boolean {
  return manifest.era !== era || manifest.generation > generation;
}

function describeAhead(manifest: Manifest, { manifestKey, generation, era }: Receipt): string {
  return (
    `${manifestKey} is of generation ${manifest.generation} (era ${manifest.era}), our record of ` +
    `generation ${generation} (era ${era}): the bucket has a commit that this database does not ` +
    'know. It was probably restored from a backup, or a copy of it is running. Run the interval again.'
  );
}

const hasOtherSchema = ({ schema }: Manifest, { recipe: { schemaDigest } }: Receipt): boolean =>
  schemaDigest !== undefined && digestOfSchema(schema) !== schemaDigest;

function listsFiles(manifest: Manifest, { files, rejectedFiles }: Receipt): boolean {
  const text = (entries: readonly ManifestFile[]) => JSON.stringify(entries.map(entryOf));
  return (
    text(manifest.files) === text(files) && text(manifest.rejected_files) === text(rejectedFiles)
  );
}

/** @returns null if there is none; `other` if the bytes are not a manifest of ours */
async function readManifest(
  destination: Destination,
  key: string,
  signal: AbortSignal | undefined,
): Promise<Manifest | 'other' | null> {
  const options = { maxBytes: maxManifestBytes, ...(signal ? { signal } : {}) };
  const file = await destination.readFile(key, options);
  return file && (decodeManifest(await buffer(file.body)) ?? 'other');
}
