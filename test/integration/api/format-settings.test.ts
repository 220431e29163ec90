import { expect, test } from 'vitest';
import { useApi } from '../../support/api-under-test.ts';
import { exportBody, s3 } from '../../support/batch-export-bodies.ts';

const api = useApi();

const exportsPath = () => api.exports;

async function create(config: object) {
  const body = exportBody({ destination: s3({ file_format: 'Parquet', ...config }) });
  const created = await api.post(`${exportsPath()}/`, body);
  expect(created.status).toBe(201);
  return { id: created.body.id };
}

async function change(id: string, config: object) {
  const path = `${exportsPath()}/${id}`;
  const changed = await api.patch(path, { destination: { config } });
  return { status: changed.status, body: changed.body };
}

test.each(['parquet_schema', 'file_size_rule'])('%s is no setting', async (name) => {
  const { id } = await create({});
  const { status, body } = await change(id, { [name]: 2 });
  expect([status, body.attr]).toEqual([400, `destination__config__${name}`]);
});

test('columns of numeric as DECIMAL are refused if they are not written right or have no effect', async () => {
  const attr = 'destination__config__decimal_columns';
  const { id } = await create({ decimal_columns: ['total decimal(38,0)'] });
  const refusals = [
    [{ decimal_columns: ['total'] }, /^"total": write it as amount decimal\(18,4\)\.$/],
    [{ decimal_columns: ['total decimal(39,0)'] }, /1 to 38 digits/],
    [{ decimal_columns: ['total decimal(4,5)'] }, /0 to p of them after the point/],
    [{ decimal_columns: ['total decimal(0,0)'] }, /1 to 38 digits/],
    [{ decimal_columns: ['a decimal(1,0)', 'a decimal(2,0)'] }, /named twice/],
    [{ file_format: 'CSV' }, /^Only for Parquet\. Set file_format to Parquet/],
    [{ decimal_columns: 'total decimal(4,2)' }, /list|array/i],
  ] as const;
  for (const [config, detail] of refusals) {
    const { status, body } = await change(id, config);
    expect([status, body.attr], JSON.stringify(config)).toEqual([400, attr]);
    expect(body.detail).toMatch(detail);
  }
  const cleared = await change(id, { decimal_columns: null, file_format: 'CSV' });
  expect(cleared.status).toBe(200);
});

test('names of files are refused if two intervals or two parts could have one', async () => {
  const { id } = await create({ max_file_size_mb: 1 });
  const refusals = [
    [{ file_name: 'data' }, /^Two intervals would have the same name\. Add \{start\}\.$/],
    [
      { file_name: '{start}-{end}' },
      /^The files of one interval would have the same name\. Add -\{part\}/,
    ],
    [{ file_name: '{start}-{end}-{day}' }, /^Unknown variable \{day\}\. Use one of: start, end/],
    [{ file_name: 5 }, /string/],
    [{ file_name: `{start}-{end}-{part}${'x'.repeat(300)}` }, /200|96 bytes/],
  ] as const;
  for (const [config, detail] of refusals) {
    const { status, body } = await change(id, config);
    expect([status, body.attr], JSON.stringify(config)).toEqual([
      400,
      'destination__config__file_name',
    ]);
    expect(body.detail).toMatch(detail);
  }
  const single = await change(id, { file_name: 'e_{start}_{end}', max_file_size_mb: null });
  expect([single.status, single.body.destination.config.file_name]).toEqual([
    200,
    'e_{start}_{end}',
  ]);
  const again = await change(id, { max_file_size_mb: 1 });
  expect([again.status, again.body.attr]).toEqual([400, 'destination__config__file_name']);
});

test('folders by values are refused if an entry cannot be one, or with a table, and can be changed and cleared', async () => {
  const attr = 'destination__config__partition_by';
  const { id } = await create({ partition_by: ['event', 'day(inserted_at)'] });
  const refusals = [
    [{ partition_by: 'event' }, /list|array/i],
    [{ partition_by: ['a', 'b', 'c', 'd'] }, /3/],
    [{ partition_by: ['days(at)'] }, /^"days\(at\)": unknown date part days\. Did you mean day\?/],
    [{ partition_by: ['event', 'EVENT'] }, /two entries would have folders named EVENT=/],
  ] as const;
  for (const [config, detail] of refusals) {
    const { status, body } = await change(id, config);
    expect([status, body.attr], JSON.stringify(config)).toEqual([400, attr]);
    expect(body.detail).toMatch(detail);
  }
  const long = await change(id, { prefix: 'x'.repeat(499) });
  expect([long.status, long.body.attr]).toEqual([400, 'destination__config__prefix']);
  expect(long.body.detail).toBe(
    'It must have at most 498 bytes after its variables are filled in with these partitions.',
  );
  const misspelled = await change(id, { partiton_by: ['event'] });
  expect([misspelled.status, misspelled.body.detail]).toEqual([
    400,
    expect.stringContaining('partition_by'),
  ]);
  const shown = await api.get(`${exportsPath()}/${id}`);
  expect(shown.body.destination.config.partition_by).toEqual(['event', 'day(inserted_at)']);
  const hours = await change(id, { partition_by: ['hour(timestamp)'] });
  expect(hours.body.destination.config.partition_by).toEqual(['hour(timestamp)']);
  const cleared = await change(id, { partition_by: null });
  expect([cleared.status, cleared.body.destination.config.partition_by]).toEqual([200, null]);
  const table = exportBody({
    destination: s3({ file_format: 'Parquet', table_format: 'iceberg', partition_by: ['event'] }),
  });
  const refused = await api.post(`${exportsPath()}/`, table);
  expect([refused.status, refused.body.attr]).toEqual([400, attr]);
  expect(refused.body.detail).toMatch(
    /^Not possible with table_format iceberg.* Leave one of them empty\.$/,
  );
});

test('a file setting that is no longer there is refused by name, with what to use instead', async () => {
  const { id } = await create({});
  const struck = [
    ...['checksum_files', 'success_file', 'latest_manifest'],
    ...['parquet_encodings'],
  ];
  for (const name of struck) {
    const { status, body } = await change(id, { [name]: true });
    expect([status, body.attr]).toEqual([400, `destination__config__${name}`]);
    expect(body.detail).toMatch(/^Sluice no longer has it\. Remove it\. \w/);
  }
  // An earlier release has stored it.
  await api.sql`
    update batch_exports set destination_config = destination_config || '{"parquet_encodings": "modern"}' where id = ${id}`;
  const { status, body } = await change(id, { prefix: 'elsewhere' });
  expect([status, body.destination.config.prefix]).toEqual([200, 'elsewhere']);
  expect(body.destination.config).not.toHaveProperty('parquet_encodings');
});

test('a CSV without a header is a setting of CSV alone', async () => {
  const { id } = await create({ file_format: 'CSV', csv_header: false });
  const other = await change(id, { file_format: 'Parquet' });
  expect([other.status, other.body.attr]).toEqual([400, 'destination__config__csv_header']);
  const back = await change(id, { csv_header: null });
  expect([back.status, back.body.destination.config.csv_header]).toEqual([200, true]);
});

test('refuses arrays as PostgreSQL prints them for other formats, and with transformations', async () => {
  const attr = 'destination__config__csv_arrays';
  const { id } = await create({ file_format: 'CSV', csv_arrays: 'postgres' });
  const path = `${exportsPath()}/${id}`;
  const other = await change(id, { file_format: 'Parquet' });
  expect([other.status, other.body.attr]).toEqual([400, attr]);
  expect(other.body.detail).toContain('Set file_format to CSV');
  const chained = await api.patch(path, { transformations: true });
  expect([chained.status, chained.body.attr]).toEqual([400, attr]);
  const body = exportBody({
    transformations: true,
    destination: s3({ file_format: 'CSV', csv_arrays: 'postgres' }),
  });
  const created = await api.post(`${exportsPath()}/`, body);
  expect([created.status, created.body.attr]).toEqual([400, attr]);
});

const table = { file_format: 'Parquet', table_format: 'iceberg' };

test('an Iceberg table is refused if the export cannot write one, with the field to change', async () => {
  const refused = async (destination: object) => {
    const answer = await api.post(`${exportsPath()}/`, exportBody({ destination }));
    return [answer.status, answer.body.attr];
  };
  const attr = (name: string) => [400, `destination__config__${name}`];
  expect(await refused(s3({ ...table, file_format: 'CSV' }))).toEqual(attr('table_format'));
  expect(await refused(s3({ ...table, manifest: false }))).toEqual(attr('manifest'));
  expect(await refused(s3({ ...table, table_format: 'delta' }))).toEqual(attr('table_format'));
  const noOp = { type: 'NoOp', config: table };
  expect(await refused(noOp)).toEqual(attr('table_format'));
  const days = { snapshot_retention_days: 3 };
  expect(await refused(s3(days))).toEqual(attr('snapshot_retention_days'));
});

test('an Iceberg table begins and stays with its export, and does not move', async () => {
  const plain = await create({});
  const { id } = await create({ ...table, snapshot_retention_days: 3 });
  const fixed = [
    [plain.id, { table_format: 'iceberg' }, 'table_format'],
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
  const { status } = await change(id, { compression: 'zstd', snapshot_retention_days: 30 });
  expect(status).toBe(200);
});
