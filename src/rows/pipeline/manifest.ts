import { createHash } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import type { Destination, FileFacts } from '../destinations/destination.ts';
import type { ManifestElement } from '../../foundation/domain/element.ts';
import { SluiceError } from '../../foundation/domain/errors.ts';
import { parseForeignJson } from '../../foundation/domain/foreign-json.ts';
import type { ManifestFile } from '../../foundation/domain/receipt.ts';
import type { Signature } from '../../foundation/domain/signature.ts';
import type { Instant } from '../../foundation/domain/time.ts';

/** The contents of an interval. It is written last, so a reader that waits for it sees no half interval. */
export interface Manifest {
  readonly batch_export_id: string;
  readonly run_id: string;
  readonly attempt: number;
  /** Rises with each commit of the interval that has other bytes. */
  readonly generation: number;
  readonly era: string;
  readonly data_interval_start: string;
  readonly data_interval_end: string;
  /** Missing: append. */
  readonly mode?: 'snapshot' | 'changes';
  /** When the snapshot was taken, by the clock of the source; null if its files were removed. Missing without one. */
  readonly snapshot_at?: string | null;
  /** The rule of the export that has removed its files; missing: none has. */
  readonly removed_by?: 'keep_snapshots';
  /** Of mode changes. Readers apply elements in the order of their numbers. */
  readonly element?: ManifestElement;
  readonly format: string;
  readonly compression: string | null;
  readonly schema: readonly { readonly name: string; readonly type: string }[];
  readonly total_rows: number;
  readonly total_bytes: number;
  readonly files: readonly ManifestFile[];
  /** JSON Lines of the rows that the format could not represent, each with its reason. */
  readonly rejected_rows: number;
  readonly rejected_files: readonly ManifestFile[];
  /** Set if the files are elsewhere now: the key of the manifest there; null: the export writes no manifest any more. */
  readonly moved_to?: string | null;
  /** The signature of the canonical bytes of all the rest (docs/receipts.md). */
  readonly receipt?: Signature;
}

/** A digest of what a manifest says about columns. Any writer of the bucket may have put these bytes there. */
export function digestOfSchema(schema: unknown): string {
  const pairs = Array.isArray(schema) ? schema.map((one) => [one?.name, one?.type]) : schema;
  return createHash('sha256')
    .update(JSON.stringify(pairs ?? null))
    .digest('hex');
}

/** A file as the manifest lists it, without what only our record has. */
export const entryOf = ({ key, generation, rows, bytes, sha256 }: ManifestFile): ManifestFile => ({
  key,
  generation,
  rows,
  bytes,
  sha256,
});

export function isTombstone(manifest: Manifest): boolean {
  return manifest.moved_to !== undefined;
}

export const digestOfBytes = (bytes: Uint8Array): string =>
  createHash('sha256').update(bytes).digest('hex');

/** A manifest is held in memory whole. About 50,000 files fit. */
export const maxManifestBytes = 16 * 1024 ** 2;

/** 50,000 files have 250,000 values. Names are those of a manifest, whatever the version of Sluice. */
const bounds = { values: 300_000, names: 1_000, depth: 8 } as const;

/** Reads a manifest back; null if the bytes are not one of ours. */
export async function decodeManifest(bytes: Buffer): Promise<Manifest | null> {
  try {
    const value = (await parseForeignJson(bytes, bounds)) as Partial<Manifest> | null;
    const isOurs =
      typeof value?.batch_export_id === 'string' &&
      isStorable(value.run_id) &&
      isStorable(value.era) &&
      typeof value.generation === 'number' &&
      areFiles(value.files) &&
      areFiles(value.rejected_files);
    return isOurs ? (value as Manifest) : null;
  } catch {
    return null;
  }
}

/** Any writer of the bucket may have put these bytes there. */
function areFiles(value: unknown): boolean {
  return (
    Array.isArray(value) &&
    value.every((file: Partial<ManifestFile> | null) => isStorable(file?.key))
  );
}

const isStorable = (value: unknown): boolean =>
  typeof value === 'string' && !unstorable.test(value);

/** No key has such characters, and PostgreSQL cannot store them. */
const unstorable = /[\0\p{Cs}]/u;

export interface FoundManifest {
  /** Null if there is none, or if the credentials cannot read it. */
  readonly manifest: Manifest | null;
  /** The tag that must still be there when the manifest is replaced; null: the key must be free. */
  readonly etag: string | null;
  /** When it was put, by the clock of the store; missing or null if that is not known. */
  readonly modifiedAt?: Instant | null;
  /** The SHA-256 of its bytes; missing if they were not read. */
  readonly sha256?: string | null;
}

/** Null: no object is at the key; `denied`: it cannot be read. Its manifest is null if it is not ours. */
export async function readManifestAt(
  destination: Destination,
  key: string,
  signal?: AbortSignal,
): Promise<FoundManifest | null | 'denied'> {
  const options = { maxBytes: maxManifestBytes, ...(signal ? { signal } : {}) };
  const object = await destination.readFile(key, options).catch(deniedOrThrow);
  if (object === null || object === 'denied') return object;
  const { etag, modifiedAt = null } = object;
  const bytes = await buffer(object.body);
  return { manifest: await decodeManifest(bytes), etag, modifiedAt, sha256: digestOfBytes(bytes) };
}

/** Facts of an object: null if there is none, `denied` if the credentials cannot read. */
export async function mayStat(
  destination: Destination,
  key: string,
  signal: AbortSignal,
): Promise<FileFacts | null | 'denied'> {
  return destination.statFile(key, signal).catch(deniedOrThrow);
}

function deniedOrThrow(error: unknown): 'denied' {
  if (error instanceof SluiceError && error.code === 'destination.access_denied') return 'denied';
  throw error;
}

export function sum<T>(items: readonly T[], value: (item: T) => number): number {
  return items.reduce((total, item) => total + value(item), 0);
}
