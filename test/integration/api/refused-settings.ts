import { s3 } from '../../support/batch-export-bodies.ts';
import type { Row } from './refused-bodies.ts';

const parquet = (config: object) => ({ destination: s3({ file_format: 'Parquet', ...config }) });
const csv = (config: object) => ({ destination: s3({ file_format: 'CSV', ...config }) });
const table = { file_format: 'Parquet', table_format: 'iceberg' };
const decimals = (...decimal_columns: readonly string[]) => parquet({ decimal_columns });
const named = (file_name: unknown) => parquet({ file_name, max_file_size_mb: 1 });
const noLonger = /^Sluice no longer has it\. Remove it\. \w/;
/** Settings of files that a new export is refused for. */
export const settingsOfFiles: readonly Row[] = [
  [parquet({ parquet_schema: 2 }), 'parquet_schema'],
  [parquet({ file_size_rule: 2 }), 'file_size_rule'],
  [parquet({ checksum_files: true }), 'checksum_files', noLonger],
  [parquet({ success_file: true }), 'success_file', noLonger],
  [parquet({ latest_manifest: true }), 'latest_manifest', noLonger],
  [parquet({ parquet_encodings: true }), 'parquet_encodings', noLonger],
  [decimals('total'), 'decimal_columns', /^"total": write it as amount decimal\(18,4\)\.$/],
  [decimals('total decimal(39,0)'), 'decimal_columns', /1 to 38 digits/],
  [decimals('total decimal(4,5)'), 'decimal_columns', /0 to p of them after the point/],
  [decimals('total decimal(0,0)'), 'decimal_columns', /1 to 38 digits/],
  [decimals('a decimal(1,0)', 'a decimal(2,0)'), 'decimal_columns', /named twice/],
  [
    csv({ decimal_columns: ['total decimal(38,0)'] }),
    'decimal_columns',
    /^Only for Parquet\. Set file_format to Parquet/,
  ],
  [parquet({ decimal_columns: 'total decimal(4,2)' }), 'decimal_columns', /list|array/i],
  [
    named('data'),
    'file_name, file_name',
    /^Two intervals would have the same name\. Add \{start\}\.$/,
  ],
  [named('{start}-{end}'), 'file_name', /^The files of one interval .* same name\. Add -\{part\}/],
  [named(5), 'file_name', /string/],
  [parquet({ partition_by: 'event' }), 'partition_by', /list|array/i],
  [parquet({ partition_by: ['a', 'b', 'c', 'd'] }), 'partition_by', /3/],
  [parquet({ partition_by: ['days(at)'] }), 'partition_by', /unknown date part days/],
  [
    parquet({ partition_by: ['event', 'day(inserted_at)'], prefix: 'x'.repeat(499) }),
    'prefix',
    /^It must have at most 498 bytes after its variables are filled in with these partitions\.$/,
  ],
  [parquet({ partiton_by: ['event'] }), 'partiton_by', /partition_by/],
  [
    parquet({ ...table, partition_by: ['event'] }),
    'partition_by',
    /^Not possible with table_format iceberg.* Leave one of them empty\.$/,
  ],
  [parquet({ csv_header: false }), 'csv_header'],
  [parquet({ csv_arrays: 'postgres' }), 'csv_arrays', /Set file_format to CSV/],
  [{ transformations: true, ...csv({ csv_arrays: 'postgres' }) }, 'csv_arrays'],
  [csv({ table_format: 'iceberg' }), 'table_format'],
  [parquet({ ...table, manifest: false }), 'manifest'],
  [parquet({ table_format: 'delta' }), 'table_format'],
  [{ destination: { type: 'NoOp', config: table } }, 'table_format'],
  [parquet({ snapshot_retention_days: 3 }), 'snapshot_retention_days'],
];
