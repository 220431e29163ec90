import { createHash } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import type { Destination } from '../destinations/destination.ts';
import { SluiceError } from '../../foundation/domain/errors.ts';
import {
  baseReasons,
  type Element,
  type ManifestElement,
} from '../../foundation/domain/element.ts';
import { parseForeignJson } from '../../foundation/domain/foreign-json.ts';
import type {
  AttemptFacts,
  CommittedFiles,
  ManifestFile,
} from '../../foundation/domain/receipt.ts';
import type { Column } from '../../foundation/domain/row-block.ts';
import type { RunPurpose } from '../../foundation/domain/run.ts';
import { type Sign, type Signature, withReceipt } from '../../foundation/domain/signature.ts';
import { type Instant, toTimestamp } from '../../foundation/domain/time.ts';

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

export interface ManifestFacts
  extends Pick<AttemptFacts, 'exportId' | 'runId' | 'attempt' | 'interval' | 'mode'>,
    Pick<CommittedFiles, 'generation' | 'era' | 'snapshotAt' | 'element'> {
  readonly purpose?: RunPurpose;
  readonly snapshot?: string;
  readonly format: string;
  readonly compression: string | null;
  readonly columns: readonly Column[];
  readonly files: readonly ManifestFile[];
  readonly rejectedFiles: readonly ManifestFile[];
}

export function buildManifest(facts: ManifestFacts): Manifest {
  return {
    batch_export_id: facts.exportId,
    run_id: facts.runId,
    attempt: facts.attempt,
    generation: facts.generation,
    era: facts.era,
    data_interval_start: toTimestamp(facts.interval.start),
    data_interval_end: toTimestamp(facts.interval.end),
    ...(facts.mode === 'snapshot' && { mode: 'snapshot', snapshot_at: facts.snapshotAt ?? null }),
    ...(facts.element && { mode: 'changes', element: elementOf(facts.element, facts.snapshot) }),
    ...(facts.purpose === 'expire' && { removed_by: 'keep_snapshots' }),
    format: facts.format,
    compression: facts.compression,
    schema: schemaOf(facts.columns),
    total_rows: sum(facts.files, (file) => file.rows),
    total_bytes: sum(facts.files, (file) => file.bytes),
    files: facts.files.map(entryOf),
    rejected_rows: sum(facts.rejectedFiles, (file) => file.rows),
    rejected_files: facts.rejectedFiles.map(entryOf),
  };
}

function elementOf(element: Element, snapshot = ''): ManifestElement {
  const { number, follows, base, from, point, at, deletes, uncompared } = element;
  return {
    number,
    follows,
    base: base === null ? null : baseReasons[base],
    from_version: from,
    version_type: point.versionType,
    snapshot: snapshot.split('@')[0] ?? '',
    snapshot_at: toTimestamp(at),
    deletes,
    ...(uncompared !== undefined && { complete: uncompared === 0 }),
  };
}

export const schemaOf = (columns: readonly Column[]): Manifest['schema'] =>
  columns.map(({ name, sourceType }) => ({ name, type: sourceType }));

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

/**
 * Replaces a manifest whose interval has moved to another key. It is never deleted: a worker that is about
 * to put its first manifest at that key must not find the key free.
 *
 * @param movedTo the key of the new manifest; null if the export writes none any more
 */
export function buildTombstone(
  facts: Omit<ManifestFacts, 'mode' | 'columns' | 'files' | 'rejectedFiles'>,
  movedTo: string | null,
): Manifest {
  const nothing = { mode: 'append', columns: [], files: [], rejectedFiles: [] } as const;
  const empty = buildManifest({ ...facts, ...nothing });
  return { ...empty, moved_to: movedTo };
}

export function isTombstone(manifest: Manifest): boolean {
  return manifest.moved_to !== undefined;
}

/** The bytes of a manifest with its receipt: equal manifests give equal bytes, as long as one key signs. */
export function encodeManifest(manifest: Manifest, sign: Sign): Buffer {
  return Buffer.from(`${JSON.stringify(withReceipt(manifest, sign), null, 2)}\n`);
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
  const object = await destination.readFile(key, options).catch((error: unknown) => {
    if (error instanceof SluiceError && error.code === 'destination.access_denied')
      return 'denied' as const;
    throw error;
  });
  if (object === null || object === 'denied') return object;
  const { etag, modifiedAt = null } = object;
  const bytes = await buffer(object.body);
  const sha256 = digestOfBytes(bytes);
  return { manifest: await decodeManifest(bytes), etag, modifiedAt, sha256 };
}

export function sum<T>(items: readonly T[], value: (item: T) => number): number {
  return items.reduce((total, item) => total + value(item), 0);
}
