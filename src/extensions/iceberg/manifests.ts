import type { ColumnMetrics } from '../../foundation/domain/column-metrics.ts';
import {
  type AvroField,
  type AvroObject,
  type AvroRecord,
  type AvroValue,
  decodeAvro,
  encodeAvro,
  encodeMap,
  mapOf,
  optional,
  type ReadingBudget,
  required,
} from './avro.ts';
import type { TableSchema } from './metadata.ts';

/** Iceberg's manifests and manifest lists of version 2: https://iceberg.apache.org/spec/#manifests */

export const entryStatus = { existing: 0, added: 1, deleted: 2 } as const;

export interface ManifestEntry {
  readonly status: number;
  /** The snapshot that added it, or deleted it. */
  readonly snapshotId: number;
  /** Null in the manifest that added it: then they are the manifest's. */
  readonly sequence: number | null;
  readonly path: string;
  readonly rows: number;
  readonly bytes: number;
  readonly metrics: FileMetrics;
}

/** A manifest's facts about the columns of a file, by name: encoded maps. */
export type FileMetrics = Readonly<Record<string, Uint8Array>>;

export interface ManifestInfo {
  readonly path: string;
  readonly bytes: number;
  readonly sequence: number;
  readonly minSequence: number;
  readonly snapshotId: number;
  readonly added: Counts;
  readonly existing: Counts;
  readonly deleted: Counts;
}

export interface Counts {
  readonly files: number;
  readonly rows: number;
}

/** The table has no partitions. */
const noPartition: AvroRecord = { type: 'record', name: 'r102', fields: [] };

const metricMaps = {
  column_sizes: { id: 108, type: mapOf([117, 118], 'long') },
  value_counts: { id: 109, type: mapOf([119, 120], 'long') },
  null_value_counts: { id: 110, type: mapOf([121, 122], 'long') },
  lower_bounds: { id: 125, type: mapOf([126, 127], 'bytes') },
  upper_bounds: { id: 128, type: mapOf([129, 130], 'bytes') },
} as const;

/** The maps of a new file; one without a pair is left out. */
export function encodeMetrics(columns: readonly ColumnMetrics[]): FileMetrics {
  const read: Record<keyof typeof metricMaps, (of: ColumnMetrics) => AvroValue> = {
    column_sizes: ({ bytes }) => bytes,
    value_counts: ({ values }) => values,
    null_value_counts: ({ nulls }) => nulls,
    lower_bounds: ({ lower }) => lower,
    upper_bounds: ({ upper }) => upper,
  };
  const maps: Record<string, Uint8Array> = {};
  for (const [name, { type }] of Object.entries(metricMaps)) {
    const factOf = read[name as keyof typeof metricMaps];
    const pairs = columns
      .map((column) => [column.id, factOf(column)] as const)
      .filter(([, value]) => value !== null);
    if (pairs.length > 0) maps[name] = encodeMap(type, pairs);
  }
  return maps;
}

const metricFields: readonly AvroField[] = Object.entries(metricMaps).map(([name, { id, type }]) =>
  optional(id, name, type),
);

const dataFile: AvroRecord = {
  type: 'record',
  name: 'r2',
  fields: [
    required(134, 'content', 'int'),
    required(100, 'file_path', 'string'),
    required(101, 'file_format', 'string'),
    required(102, 'partition', noPartition),
    required(103, 'record_count', 'long'),
    required(104, 'file_size_in_bytes', 'long'),
    ...metricFields,
  ],
};

const entrySchema: AvroRecord = {
  type: 'record',
  name: 'manifest_entry',
  fields: [
    required(0, 'status', 'int'),
    optional(1, 'snapshot_id', 'long'),
    optional(3, 'sequence_number', 'long'),
    optional(4, 'file_sequence_number', 'long'),
    required(2, 'data_file', dataFile),
  ],
};

/** @internal for the test of hostile lists */
export const listSchema: AvroRecord = {
  type: 'record',
  name: 'manifest_file',
  fields: [
    required(500, 'manifest_path', 'string'),
    required(501, 'manifest_length', 'long'),
    required(502, 'partition_spec_id', 'int'),
    required(517, 'content', 'int'),
    required(515, 'sequence_number', 'long'),
    required(516, 'min_sequence_number', 'long'),
    required(503, 'added_snapshot_id', 'long'),
    required(504, 'added_files_count', 'int'),
    required(505, 'existing_files_count', 'int'),
    required(506, 'deleted_files_count', 'int'),
    required(512, 'added_rows_count', 'long'),
    required(513, 'existing_rows_count', 'long'),
    required(514, 'deleted_rows_count', 'long'),
  ],
};

export function encodeManifestFile(schema: TableSchema, entries: readonly ManifestEntry[]): Buffer {
  const rows = entries.map(
    ({ status, snapshotId, sequence, path, rows: count, bytes, metrics }): AvroObject => ({
      status,
      snapshot_id: snapshotId,
      sequence_number: sequence,
      file_sequence_number: sequence,
      data_file: {
        content: 0,
        file_path: path,
        file_format: 'PARQUET',
        partition: {},
        record_count: count,
        file_size_in_bytes: bytes,
        ...metrics,
      },
    }),
  );
  return encodeAvro(entrySchema, rows, {
    schema: JSON.stringify(schema),
    'schema-id': String(schema['schema-id']),
    'partition-spec': '[]',
    'partition-spec-id': '0',
    'format-version': '2',
    content: 'data',
  });
}

/** @throws RangeError if the bytes are not such a manifest, or the budget does not allow it */
export async function decodeManifestFile(
  bytes: Buffer,
  budget: ReadingBudget,
): Promise<ManifestEntry[]> {
  const rows = await decodeAvro(entrySchema, bytes, budget);
  return rows.map((row) => {
    const file = row.data_file as AvroObject;
    const maps = Object.keys(metricMaps).map((name) => [name, file[name]] as const);
    return {
      status: Number(row.status),
      snapshotId: Number(row.snapshot_id),
      sequence: row.sequence_number as number | null,
      path: String(file.file_path),
      rows: Number(file.record_count),
      bytes: Number(file.file_size_in_bytes),
      metrics: Object.fromEntries(
        maps.flatMap(([name, map]) => (map instanceof Uint8Array ? [[name, map]] : [])),
      ),
    };
  });
}

export function encodeManifestList(
  manifests: readonly ManifestInfo[],
  snapshotId: number,
  parentId: number | null,
  sequence: number,
): Buffer {
  const rows = manifests.map(
    (manifest): AvroObject => ({
      manifest_path: manifest.path,
      manifest_length: manifest.bytes,
      partition_spec_id: 0,
      content: 0,
      sequence_number: manifest.sequence,
      min_sequence_number: manifest.minSequence,
      added_snapshot_id: manifest.snapshotId,
      added_files_count: manifest.added.files,
      existing_files_count: manifest.existing.files,
      deleted_files_count: manifest.deleted.files,
      added_rows_count: manifest.added.rows,
      existing_rows_count: manifest.existing.rows,
      deleted_rows_count: manifest.deleted.rows,
    }),
  );
  return encodeAvro(listSchema, rows, {
    'snapshot-id': String(snapshotId),
    'parent-snapshot-id': String(parentId),
    'sequence-number': String(sequence),
    'format-version': '2',
  });
}

/** @throws RangeError if the bytes are not such a list, or the budget does not allow it */
export async function decodeManifestList(
  bytes: Buffer,
  budget: ReadingBudget,
): Promise<ManifestInfo[]> {
  const rows = await decodeAvro(listSchema, bytes, budget);
  return rows.map((row) => {
    const counts = (of: string): Counts => ({
      files: Number(row[`${of}_files_count`]),
      rows: Number(row[`${of}_rows_count`]),
    });
    return {
      path: String(row.manifest_path),
      bytes: Number(row.manifest_length),
      sequence: Number(row.sequence_number),
      minSequence: Number(row.min_sequence_number),
      snapshotId: Number(row.added_snapshot_id),
      added: counts('added'),
      existing: counts('existing'),
      deleted: counts('deleted'),
    };
  });
}
