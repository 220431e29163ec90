import { join } from 'node:path';
import type { Destination } from '../destinations/destination.ts';
import { SluiceError } from '../../foundation/domain/errors.ts';
import { type FormatSettings, settingsOfRecipe } from '../../foundation/domain/format-settings.ts';
import type { Recipe } from '../../foundation/domain/recipe.ts';
import type { IsDropped, ReadColumn, ReadRow, RemainingFile } from '../encoders/encoder.ts';
import { asWritten, ColumnsAbsent, describeAbsent, keyOfRow } from './row-keys.ts';
import type { ManifestFile } from '../../foundation/domain/receipt.ts';
import type { SpoolFolder } from './key-spool.ts';
import { createHash } from 'node:crypto';
import { open } from 'node:fs/promises';

/** The settings that made a file. Only the recipe says the format's settings, not the manifest. */
export interface MadeBy extends Partial<FormatSettings> {
  readonly format: string;
  readonly compression: string | null;
  /** The columns of files that do not name them. */
  readonly schema?: Recipe['schema'];
}

/** Reads columns of a local file with the reader of its encoder. `rejected`: a file of rejected rows. */
export type ReadRows = (
  path: string,
  made: MadeBy | 'rejected',
  columns: readonly ReadColumn[],
) => AsyncIterable<ReadRow>;

/** Makes a local file again without some of its rows, in the way of its encoder. */
export type WithoutRows = (
  path: string,
  made: MadeBy | 'rejected',
  isDropped: IsDropped,
) => RemainingFile;

export function madeBy(recipe: Recipe): MadeBy {
  const { format, compression, schema } = recipe;
  return { format, compression, ...settingsOfRecipe(recipe), ...(schema && { schema }) };
}

export interface Delivered {
  readonly files: readonly ManifestFile[];
  readonly rejectedFiles: readonly ManifestFile[];
  readonly recipe: Recipe;
}

export interface ReadingBack {
  readonly destination: Destination;
  readonly readRows: ReadRows;
  /** One file at a time is on local disk, here. */
  readonly folder: SpoolFolder;
  readonly signal: AbortSignal;
}

/** Codes that say that a file cannot be read by these credentials, whatever the time. */
const unreadable = new Set([
  'destination.access_denied',
  'destination.invalid_config',
  'destination.kms_denied',
]);

/**
 * Reads the keys of all delivered rows, those of rejected rows too.
 *
 * @param columns the key columns, as the files name them, with the types of the source
 * @param tell gets each key; may be asked to wait
 * @returns why they are not all known; null if they are
 * @throws SluiceError `destination.*` if the destination cannot be asked now
 */
export async function readDeliveredKeys(
  { destination, readRows, folder, signal }: ReadingBack,
  { files, rejectedFiles, recipe }: Delivered,
  columns: readonly ReadColumn[],
  tell: (key: string) => Promise<void> | undefined,
): Promise<string | null> {
  const path = join(await folder.path(), 'delivered');
  const by = madeBy(recipe);
  const written = asWritten(columns, recipe.schema);
  const all = [
    ...files.map((entry) => ({ entry, by })),
    ...rejectedFiles.map((entry) => ({ entry, by: 'rejected' as const })),
  ];
  const absent = describeAbsent(columns, recipe.schema);
  if (all.length > 0 && absent !== null) return absent;
  for (const { entry, by } of all) {
    signal.throwIfAborted();
    const fault = await fetchFile(destination, entry, path, signal).catch((error: unknown) => {
      signal.throwIfAborted();
      if (!(error instanceof SluiceError) || !unreadable.has(error.code)) throw error;
      return `${entry.key} cannot be read with these credentials`;
    });
    if (fault !== null) return fault;
    let rows = 0;
    try {
      for await (const row of readRows(path, by, written)) {
        rows += 1;
        const waits = tell(keyOfRow(row, written));
        if (waits) await waits;
      }
    } catch (error) {
      if (error instanceof ColumnsAbsent) return `${entry.key}: ${error.message}`;
      throw error;
    }
    if (rows !== entry.rows)
      return `${entry.key} has ${rows} rows, its manifest says ${entry.rows}`;
  }
  return null;
}

/** Downloads a delivered file to `path`. @returns what is wrong with its bytes; null if they are those of its entry */
export async function fetchFile(
  destination: Destination,
  { key, bytes, sha256 }: Pick<ManifestFile, 'key' | 'bytes' | 'sha256'>,
  path: string,
  signal?: AbortSignal,
): Promise<string | null> {
  const object = await destination.readFile(key, signal && { signal });
  if (!object) return `${key} is missing`;
  const hash = createHash('sha256');
  let size = 0;
  const file = await open(path, 'w', 0o600);
  try {
    for await (const chunk of object.body) {
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
  return hash.digest('hex') === sha256 ? null : `${key} does not have the checksum of its manifest`;
}
