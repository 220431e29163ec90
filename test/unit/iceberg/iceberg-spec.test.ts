import { avroMetadata, avroRead } from 'icebird';
import { beforeEach, expect, it } from 'vitest';
import type { ColumnMetrics } from '../../../src/foundation/domain/column-metrics.ts';
import { commitInterval } from '../../../src/extensions/iceberg/commit-interval.ts';
import { keptVersions, type TableMetadata } from '../../../src/extensions/iceberg/metadata.ts';
import {
  commitTo,
  dayMs,
  field,
  filesOf,
  firstNow,
  type MemoryObjects,
  memoryObjects,
} from '../../support/memory-table.ts';

/** What version 2 of the specification requires: https://iceberg.apache.org/spec/#table-metadata-fields */
const whole = expect.toSatisfy(Number.isSafeInteger);
const text = expect.toSatisfy((value) => typeof value === 'string' && value !== '');
const required = {
  'format-version': 2,
  'table-uuid': expect.stringMatching(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/),
  location: 's3://exports/p',
  'last-sequence-number': whole,
  'last-updated-ms': whole,
  'last-column-id': whole,
  'current-schema-id': whole,
  'partition-specs': [{ 'spec-id': 0, fields: [] }],
  'default-spec-id': 0,
  'last-partition-id': whole,
  'sort-orders': [{ 'order-id': 0, fields: [] }],
  'default-sort-order-id': 0,
};
const requiredOfSnapshot = {
  'snapshot-id': whole,
  'sequence-number': whole,
  'timestamp-ms': whole,
  'manifest-list': expect.stringMatching(/^s3:\/\/exports\/p\/metadata\/.+\.avro$/),
  summary: expect.objectContaining({
    operation: expect.stringMatching(/^(append|overwrite|delete)$/),
  }),
  'schema-id': whole,
};

let objects: MemoryObjects;
beforeEach(() => {
  objects = memoryObjects();
});

const metrics: ColumnMetrics = {
  id: 2 ** 30,
  bytes: 40,
  values: 10,
  nulls: 3,
  lower: Buffer.of(1, 0, 0, 0),
  upper: Buffer.of(9, 0, 0, 0),
};

const filesWith = (hour: number, generation: number, columns: readonly ColumnMetrics[]) => {
  const files = filesOf(hour, generation);
  return { ...files, files: files.files.map((file) => ({ ...file, columns })) };
};

/** Appends, replaced and removed files, two schemas, merged manifests and expired snapshots. */
async function makeTable(): Promise<void> {
  for (let hour = 0; hour < 24; hour += 1) {
    const commit = commitTo(objects, { readNow: async () => firstNow + (hour * dayMs) / 2 });
    const fields = [field('id', hour < 8 ? 'int' : 'long', 7)];
    await commitInterval(commit, { ...filesWith(hour, 1, [metrics]), fields });
  }
  const commit = commitTo(objects, { readNow: async () => firstNow + 12 * dayMs });
  await commitInterval(commit, filesWith(3, 2, [metrics]));
  await commitInterval(commit, { ...filesWith(4, 2, []), files: [] });
}

function newest(): TableMetadata {
  const version = objects.kept.get('p/metadata/version-hint.text');
  return JSON.parse(String(objects.kept.get(`p/metadata/v${version}.metadata.json`)));
}

/** As a stranger reads it. */
async function readAvro(path: string) {
  const bytes = objects.kept.get(path.slice('s3://exports/'.length));
  if (!bytes) throw new Error(`${path} is missing`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const reader = { view, offset: 0 };
  const head = await avroMetadata(reader);
  return { notes: head.metadata, rows: avroRead({ reader, ...head }), bytes: bytes.length };
}

it('has every required field, and each reference has its object', async () => {
  await makeTable();
  const table = newest();
  expect(table).toMatchObject(required);
  const { snapshots, schemas } = table;
  expect(schemas.map((schema) => schema['schema-id'])).toContain(table['current-schema-id']);
  for (const { fields } of schemas) {
    expect(fields).toEqual([{ id: 7, name: text, required: false, type: text }]);
  }
  expect(table['last-column-id']).toBe(7);
  // Each snapshot of the first schema has expired.
  expect(schemas).toHaveLength(1);
  // A commit reads and writes all of it, and 2,000 snapshots at most.
  expect(JSON.stringify(table).length / snapshots.length).toBeLessThan(1_500);
  const ids = snapshots.map((snapshot) => snapshot['snapshot-id']);
  expect(new Set(ids).size).toBe(ids.length);
  expect(ids.length).toBeLessThan(26);
  for (const [at, snapshot] of snapshots.entries()) {
    expect(snapshot).toMatchObject(requiredOfSnapshot);
    expect(schemas.some((schema) => schema['schema-id'] === snapshot['schema-id'])).toBe(true);
    const before = snapshots[at - 1];
    if (!before) continue;
    expect(snapshot['parent-snapshot-id']).toBe(before['snapshot-id']);
    expect(snapshot['sequence-number']).toBeGreaterThan(before['sequence-number']);
    expect(snapshot['timestamp-ms']).toBeGreaterThan(before['timestamp-ms']);
  }
  const last = snapshots.at(-1);
  expect(table['current-snapshot-id']).toBe(last?.['snapshot-id']);
  expect(table['last-sequence-number']).toBe(last?.['sequence-number']);
  expect(table.refs).toEqual({
    main: { 'snapshot-id': table['current-snapshot-id'], type: 'branch' },
  });
  // Bounded logs, of what is there, in order.
  expect(table['snapshot-log'].map((entry) => entry['snapshot-id'])).toEqual(ids);
  expect(table['metadata-log']).toHaveLength(keptVersions);
  for (const entry of table['metadata-log']) {
    const key = entry['metadata-file'].slice('s3://exports/'.length);
    expect(objects.kept.has(key), key).toBe(true);
  }
});

it('has lists and manifests that a stranger reads, with what each requires', async () => {
  await makeTable();
  const { snapshots } = newest();
  let counted = 0;
  for (const snapshot of snapshots) {
    const list = await readAvro(snapshot['manifest-list']);
    expect(list.notes).toMatchObject({
      'snapshot-id': String(snapshot['snapshot-id']),
      'sequence-number': String(snapshot['sequence-number']),
      'format-version': '2',
    });
    for (const row of list.rows) {
      const { notes, rows, bytes } = await readAvro(row.manifest_path);
      expect(Number(row.manifest_length)).toBe(bytes);
      const found = { schema: text, 'schema-id': text, 'partition-spec': '[]' };
      const rest = { 'partition-spec-id': '0', 'format-version': '2', content: 'data' };
      expect({ ...notes, schema: JSON.stringify(notes.schema) }).toMatchObject({
        ...found,
        ...rest,
      });
      const of = (status: number) => rows.filter((entry) => entry.status === status);
      expect([
        Number(row.existing_files_count),
        Number(row.added_files_count),
        Number(row.deleted_files_count),
      ]).toEqual([of(0).length, of(1).length, of(2).length]);
      const live = rows
        .filter(({ status }) => status !== 2)
        .map((entry) => Number(entry.sequence_number ?? row.sequence_number));
      if (live.length > 0) expect(Number(row.min_sequence_number)).toBe(Math.min(...live));
      for (const { status, sequence_number: sequence } of rows) {
        if (status !== 1) expect(sequence).toEqual(expect.any(BigInt));
      }
      counted += rows.length;
    }
  }
  expect(counted).toBeGreaterThan(24);
});

it('has the metrics of each file, also after its manifest was merged and written again', async () => {
  await makeTable();
  const list = await readAvro(newest().snapshots.at(-1)?.['manifest-list'] ?? '');
  const found = await Promise.all(list.rows.map((row) => readAvro(row.manifest_path)));
  const files = found.flatMap(({ rows }) => rows).map((entry) => entry.data_file);
  expect(found.length).toBeLessThan(24);
  const pair = (value: unknown) => [{ key: 2 ** 30, value }];
  for (const file of files) {
    expect(file).toMatchObject({
      column_sizes: pair(40n),
      value_counts: pair(10n),
      null_value_counts: pair(3n),
      lower_bounds: pair(Uint8Array.of(1, 0, 0, 0)),
      upper_bounds: pair(Uint8Array.of(9, 0, 0, 0)),
    });
  }
  expect(files.length).toBeGreaterThanOrEqual(23);
});
