import { expect, test } from 'vitest';
import { useApi } from '../../support/api-under-test.ts';
import { s3 } from '../../support/batch-export-bodies.ts';

/** How settings of files change. What a new export is refused for: refused-bodies.ts. */

const api = useApi();

const create = async (config: object) =>
  String((await api.create({ destination: s3({ file_format: 'Parquet', ...config }) })).id);

const change = (id: string, config: object) =>
  api.patch(`${api.exports}/${id}`, { destination: { config } });

const table = { file_format: 'Parquet', table_format: 'iceberg' };

test.each<[string, object, object, object]>([
  [
    'columns as DECIMAL are cleared with their format',
    { decimal_columns: ['total decimal(38,0)'] },
    { decimal_columns: null, file_format: 'CSV' },
    { decimal_columns: null },
  ],
  [
    'names need no part without a limit of size',
    { max_file_size_mb: 1 },
    { file_name: 'e_{start}_{end}', max_file_size_mb: null },
    { file_name: 'e_{start}_{end}' },
  ],
  [
    'folders by values are others',
    { partition_by: ['event', 'day(inserted_at)'] },
    { partition_by: ['hour(timestamp)'] },
    { partition_by: ['hour(timestamp)'] },
  ],
  [
    'folders by values are cleared',
    { partition_by: ['event', 'day(inserted_at)'] },
    { partition_by: null },
    { partition_by: null },
  ],
  [
    'a CSV gets its header back',
    { file_format: 'CSV', csv_header: false },
    { csv_header: null },
    { csv_header: true },
  ],
  [
    'a table compresses in another way, and keeps its snapshots for longer',
    { ...table, snapshot_retention_days: 3 },
    { compression: 'zstd', snapshot_retention_days: 30 },
    { snapshot_retention_days: 30 },
  ],
])('%s', async (_, before, changes, after) => {
  const id = await create(before);
  const { status, body } = await change(id, changes);
  expect(status).toBe(200);
  expect(body.destination.config).toMatchObject(after);
});

test.each<[string, object, object]>([
  ['decimal_columns', { decimal_columns: ['total decimal(38,0)'] }, { file_format: 'CSV' }],
  ['file_name', { file_name: 'e_{start}_{end}' }, { max_file_size_mb: 1 }],
  ['partition_by', { partition_by: ['event'] }, { partition_by: ['event', 'EVENT'] }],
  ['csv_header', { file_format: 'CSV', csv_header: false }, { file_format: 'Parquet' }],
  ['csv_arrays', { file_format: 'CSV', csv_arrays: 'postgres' }, { file_format: 'Parquet' }],
])(
  'a change after which %s cannot be is refused, and nothing changes',
  async (name, before, changes) => {
    const id = await create(before);
    const { status, body } = await change(id, changes);
    expect([status, body.attr]).toEqual([400, `destination__config__${name}`]);
    const shown = await api.get(`${api.exports}/${id}`);
    expect(shown.body.destination.config).toMatchObject(before);
  },
);

test('arrays as PostgreSQL prints them get no transformations', async () => {
  const id = await create({ file_format: 'CSV', csv_arrays: 'postgres' });
  const chained = await api.patch(`${api.exports}/${id}`, { transformations: true });
  expect([chained.status, chained.body.attr]).toEqual([400, 'destination__config__csv_arrays']);
});

test('a file setting that an earlier release has stored goes with the next change', async () => {
  const id = await create({});
  await api.sql`
    update batch_exports set destination_config = destination_config || '{"parquet_encodings": "modern"}' where id = ${id}`;
  const { status, body } = await change(id, { prefix: 'elsewhere' });
  expect([status, body.destination.config.prefix]).toEqual([200, 'elsewhere']);
  expect(body.destination.config).not.toHaveProperty('parquet_encodings');
});

test('an Iceberg table begins and stays with its export, and does not move', async () => {
  const plain = await create({});
  const id = await create({ ...table, snapshot_retention_days: 3 });
  const fixed = [
    [plain, { table_format: 'iceberg' }, 'table_format'],
    [id, { table_format: null, snapshot_retention_days: null }, 'table_format'],
    [id, { prefix: 'elsewhere' }, 'prefix'],
    [id, { file_name: '{start}_{end}' }, 'file_name'],
    [id, { bucket_name: 'another-bucket' }, 'bucket_name'],
    [id, { decimal_columns: ['total decimal(9,2)'] }, 'decimal_columns'],
  ] as const;
  for (const [of, config, name] of fixed) {
    const { status, body } = await change(of, config);
    expect([status, body.attr]).toEqual([400, `destination__config__${name}`]);
    expect(body.detail).toContain('create an export with another prefix');
  }
});
