import type { Column } from '../domain/row-block.ts';
import type { DataInterval } from '../domain/time.ts';
import { toTimestamp } from '../domain/time.ts';

/** One file of an interval, as the manifest lists it. */
export interface ManifestFile {
  readonly key: string;
  readonly rows: number;
  readonly bytes: number;
  /** Of the object's bytes, lower-case hexadecimal. */
  readonly sha256: string;
}

/**
 * What an interval consists of. It is written last: a reader that waits for it never sees half an
 * interval.
 */
export interface Manifest {
  readonly batch_export_id: string;
  readonly run_id: string;
  readonly attempt: number;
  readonly data_interval_start: string;
  readonly data_interval_end: string;
  readonly format: string;
  readonly compression: string | null;
  readonly schema: readonly { readonly name: string; readonly type: string }[];
  readonly total_rows: number;
  readonly total_bytes: number;
  readonly files: readonly ManifestFile[];
  /** JSON Lines of the rows that the format could not hold, each with its reason. */
  readonly rejected_rows: number;
  readonly rejected_files: readonly ManifestFile[];
}

export interface ManifestFacts {
  readonly exportId: string;
  readonly runId: string;
  readonly attempt: number;
  readonly interval: DataInterval;
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
    data_interval_start: toTimestamp(facts.interval.start),
    data_interval_end: toTimestamp(facts.interval.end),
    format: facts.format,
    compression: facts.compression,
    schema: facts.columns.map(({ name, sourceType }) => ({ name, type: sourceType })),
    total_rows: sum(facts.files, (file) => file.rows),
    total_bytes: sum(facts.files, (file) => file.bytes),
    files: facts.files,
    rejected_rows: sum(facts.rejectedFiles, (file) => file.rows),
    rejected_files: facts.rejectedFiles,
  };
}

/** The bytes of a manifest: equal manifests give equal bytes. */
export function encodeManifest(manifest: Manifest): Buffer {
  return Buffer.from(`${JSON.stringify(manifest, null, 2)}\n`);
}

/** Reads a manifest back; null where the bytes are none of ours. */
export function decodeManifest(bytes: Buffer): Manifest | null {
  try {
    const value = JSON.parse(bytes.toString()) as Partial<Manifest> | null;
    const known =
      typeof value?.batch_export_id === 'string' &&
      typeof value.run_id === 'string' &&
      Array.isArray(value.files);
    return known ? (value as Manifest) : null;
  } catch {
    return null;
  }
}

function sum<T>(items: readonly T[], value: (item: T) => number): number {
  return items.reduce((total, item) => total + value(item), 0);
}
