import { exportBody, s3 } from '../../support/batch-export-bodies.ts';

/** Fields of a body in place of those of the base; each wrong field, with its code if it matters; the text of the first. */
export type Row = readonly [changes: object, wrong: string, said?: RegExp];

export const march = { start_at: '2024-03-01T00:00:00Z', end_at: '2024-03-02T00:00:00Z' };
const [past, future] = ['1969-01-01T00:00:00Z', '2999-01-01T00:00:00Z'];
const unknown = /^This field is unknown\. Remove it\.$/;
const badBucket = s3({ bucket_name: 'UPPER' });
const unknownColumn = 'select event, colour from events';
const ascii = /Use ASCII letters, digits and signs only/;
const noHeader: readonly Row[] = [
  [{ destination: s3({ aws_access_key_id: 'ключ' }) }, 'aws_access_key_id', ascii],
  [{ destination: s3({ aws_secret_access_key: 'a key' }) }, 'aws_secret_access_key', ascii],
  [{ destination: s3({ encryption: 'aws:kms', kms_key_id: 'clé' }) }, 'kms_key_id', ascii],
];
/** A backfill and an unpause export the rows of their export. */
const otherRows: readonly Row[] = [
  [{ surprise: 1 }, 'surprise', unknown],
  [{ dsl_query: 'select event from events' }, 'dsl_query'],
  [{ hogql_query: 'select event from events' }, 'dsl_query'],
  [{ filters: [{ key: 'a', value: 'b' }] }, 'filters'],
  [{ destination: { type: 'NoOp', config: {} } }, 'destination'],
  [{ model: 'persons' }, 'model'],
];
export const usefulStep = { plugin: 2, order: 1, config: { events: '$pageleave' } };
/** Configs as JSON in a string. */
const badTexts: readonly Row[] = [
  [{ config: '{"events":"\\u0000"}' }, 'config__events'],
  [{ config: '{"events":"\\ud800"}' }, 'config__events'],
  [{ config: '{"__proto__":{"events":"x"}}' }, 'null parse_error'],
  [{ config: '["word"]' }, 'config'],
  [{ config: 'word' }, 'config'],
];
const badMask = { properties: ',', keep_first: 'x', keep_last: '-1', max_error_share: '2' };
const badMaskFields =
  'config__keep_first, config__keep_last, config__max_error_share, config__properties';
export const mine = {
  name: 'Mine',
  source: 'export function processEvent(event, meta) { return event; }',
  config_schema: [{ key: 'token', required: true, secret: true }],
};
const badSources: readonly Row[] = [
  [
    { source: `${mine.source}\nexport const jobs = {};` },
    'source',
    /The export jobs is not supported\. Export processEvent, setupPlugin and teardownPlugin\./,
  ],
  [{ source: `${mine.source}\nconst a = ;` }, 'source', /Line 2: /],
];
const wideRow = (name: string) =>
  Object.fromEntries(Array.from({ length: 900 }, (_, n) => [`${name}${n}`, n]));

const parquet = (config: object) => ({ destination: s3({ file_format: 'Parquet', ...config }) });
const csv = (config: object) => ({ destination: s3({ file_format: 'CSV', ...config }) });
const table = { file_format: 'Parquet', table_format: 'iceberg' };
const decimals = (...decimal_columns: readonly string[]) => parquet({ decimal_columns });
const named = (file_name: unknown) => parquet({ file_name, max_file_size_mb: 1 });
const noLonger = /^Sluice no longer has it\. Remove it\. \w/;
/** Settings of files that a new export is refused for. */
const settingsOfFiles: readonly Row[] = [
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

/** By operation: a sound body, and what is wrong with others. Words in capitals stand for ids. */
export const refusedBodies: Readonly<Record<string, readonly [base: object, ...rows: Row[]]>> = {
  'POST batch_exports': [
    exportBody(),
    [
      { name: undefined, destination: undefined, interval: undefined },
      'destination required, interval required, name required',
    ],
    [
      { name: '  ', interval: 'fortnight', paused: 'true', start_at: 'yesterday' },
      'interval invalid_choice, name blank, paused incorrect_type, start_at invalid_input',
    ],
    [
      { destination: s3({ bucket_name: null, colour: 'red', shape: 'round', file_format: 'XML' }) },
      'bucket_name null, colour invalid_input, file_format invalid_choice, shape invalid_input',
    ],
    [{ name: 'x'.repeat(401) }, 'name max_length'],
    [{ name: 5 }, 'name incorrect_type'],
    [{ name: null }, 'name null'],
    [{ name: 'a\0b' }, 'name invalid_input'],
    [{ name: 'a\ud800' }, 'name invalid_input'],
    [{ interval: 'every 1 minutes' }, 'interval min_value'],
    [{ destination: { config: {} } }, 'destination__type required'],
    [{ destination: { type: 'FTP', config: {} } }, 'destination__type invalid_choice'],
    [{ destination: { type: 'S3' } }, 'destination__config required'],
    [{ destination: s3({ aws_secret_access_key: null }) }, 'aws_secret_access_key required'],
    [{ start_at: '2024-03-02', end_at: '2024-03-01' }, 'end_at invalid_input'],
    [{ start_at: '2024-03-01', end_at: '2024-03-01' }, 'end_at invalid_input'],
    [{ start_at: '2024-02-30T00:00:00Z' }, 'start_at invalid_input'],
    [{ interval: 'day', timezone: 'Mars/Olympus' }, 'timezone invalid_choice'],
    [{ offset_hour: 3 }, 'offset_hour invalid_input'],
    [{ interval: 'day', offset_day: 3 }, 'offset_day invalid_input'],
    [{ interval: 'day', offset_hour: 24 }, 'offset_hour max_value'],
    [{ model: 'users' }, 'model invalid_choice'],
    [{ dsl_query: 'select a from users' }, 'dsl_query invalid_input'],
    [
      { dsl_query: 'select upper(event) as e from events', transformations: true },
      'dsl_query invalid_input',
    ],
    [{ backfill: true }, 'start_at required'],
    [{ destination: s3({ prefix: '{year' }) }, 'prefix invalid_input'],
    [{ deadline_minutes: 60, deadline_at: '09:00', interval: 'day' }, 'deadline_at'],
    [{ deadline_at: '09:00' }, 'deadline_at'],
    [{ deadline_at: '9:00', interval: 'day' }, 'deadline_at'],
    [{ warn_minutes: 10 }, 'warn_minutes'],
    [{ interval: 'week', offset_day: 9, name: 5 }, 'name, offset_day'],
    [{ destination: badBucket, dsl_query: unknownColumn }, 'bucket_name, dsl_query'],
    [
      { name: 5, destination: s3({ endpoint_url: 'http://[::ffff:10.0.0.1]:9000' }) },
      'endpoint_url, name',
    ],
    ...noHeader,
    [{ destination: s3({ aws_session_token: 'x' }) }, 'aws_session_token', /role_arn/],
    [{ destination: s3({ integration_id: 'x' }) }, 'integration_id', /aws_access_key_id/],
    [{ surprise: 1 }, 'surprise', unknown],
    [{ destination: { type: 'NoOp', config: {}, surprise: 1 } }, 'destination__surprise', unknown],
    [{ filters: [{ key: 'a', value: 'b', surprise: 1 }] }, 'filters__0__surprise', unknown],
    ...settingsOfFiles,
  ],
  'POST /api/organizations/ORGANIZATION/batch_exports': [
    exportBody(),
    [{}, 'team_id required'],
    [{ team_id: 999_999 }, 'team_id does_not_exist'],
  ],
  'PUT batch_exports/EXPORT': [{}, [{ name: 'x' }, 'destination required, interval required']],
  'PATCH batch_exports/EXPORT': [
    { name: 'changed' },
    [{ destination: { type: 'NoOp' } }, 'destination__type'],
    [{ destination: { config: { colour: 1 } } }, 'colour'],
    [{ end_at: '2023-01-01' }, 'end_at'],
    [{ offset_day: 1 }, 'offset_day'],
    [{ name: null }, 'name null'],
    [{ destination: null }, 'destination null'],
    [{ paused: null }, 'paused null'],
    [{ interval: null }, 'interval null'],
    [{ transformations: null }, 'transformations null'],
    [{ model: null }, 'model null'],
    [{ heal_for_hours: null }, 'heal_for_hours'],
    [{ heal_for_hours: 1.5 }, 'heal_for_hours'],
    [{ look_back_hours: 1.5 }, 'look_back_hours'],
    [{ intervall: 'day' }, 'intervall', /Did you mean interval\?/],
    [
      { destination: { config: { bucket_name: 'UPPER' } }, dsl_query: unknownColumn },
      'bucket_name, dsl_query',
    ],
  ],
  'POST batch_exports/test': [
    {},
    [
      { destination: badBucket, filters: [{ key: 'x', type: 'none', value: 'a' }] },
      'bucket_name, filters__0__type',
    ],
    [
      { destination: s3({ bucket_name: 'UPPER', endpoint_url: null, kms_key_id: 'key' }) },
      'bucket_name, kms_key_id',
    ],
    ...noHeader,
    [{ destination: { type: 'NoOp', config: {} }, modell: 'x' }, 'modell', /Did you mean model\?/],
  ],
  'POST batch_exports/preview': [
    {},
    [{ destination: { config: { surprise: [] } } }, 'surprise', unknown],
    [
      { dsl_querry: 'select 1' },
      'dsl_querry invalid_input',
      /^This field is unknown\. Did you mean dsl_query\? Otherwise remove it\.$/,
    ],
    [
      { configs: [{ plugin: 1 }, { plugin: 2, confg: {} }], rows: [{ any: 'column' }] },
      'configs__1__confg',
      /Did you mean config\?/,
    ],
    [{ configs: [], transformations: true }, 'transformations'],
    [{ rows: [{}], dsl_query: 'select event from events' }, 'dsl_query'],
    [{ rows: [{}], filters: [{ key: 'a', value: 'b' }] }, 'filters'],
    [{ rows: [{}], destination: { config: { include_events: ['a'] } } }, 'destination'],
    [{ rows: [wideRow('a'), wideRow('b')] }, 'rows'],
    [{ id: '3f0cf0b7-5a2c-4e0e-9d0e-7d3b1c9f2a11' }, 'id'],
    [{ configs: [{ plugin: 999 }] }, 'configs__0__plugin'],
    [
      {
        configs: [
          { plugin: 1, config: { properties: 'email' } },
          { plugin: 9, config: { types: 'x' } },
        ],
      },
      'configs__1__config__types',
    ],
    [{ configs: [], model: 'x' }, 'model'],
  ],
  'POST batch_exports/EXPORT/pause': [{}, [{ surprise: 1 }, 'surprise']],
  'POST batch_exports/EXPORT/unpause': [{}, ...otherRows],
  'POST batch_exports/EXPORT/backfill': [
    march,
    ...otherRows,
    [{ end_at: undefined }, 'end_at required'],
    [{ start_at: '2024-03-01T00:00:00' }, 'start_at invalid_input'],
    [{ end_at: '2024-03-02' }, 'end_at invalid_input'],
    [{ end_at: future }, 'end_at invalid_input'],
    [{ start_at: march.end_at, end_at: march.start_at }, 'start_at invalid_input'],
    [{ start_at: march.end_at }, 'start_at invalid_input'],
    [{ start_at: 'x' }, 'start_at invalid_input'],
    [{ order: 'random' }, 'order invalid_choice'],
    [{ concurrency: 0 }, 'concurrency min_value'],
    [{ start_at: past, end_at: future }, 'end_at, start_at'],
    [{ start_at: 'x', end_at: future }, 'end_at, start_at'],
    [
      { start_at: past, end_at: '2024-03-01T00:00:00', concurrency: 0 },
      'concurrency, end_at, start_at',
    ],
  ],
  'POST batch_exports/OPEN/backfill': [{}, [{}, 'end_at required, start_at required']],
  'POST batch_exports/EXPORT/coverage/accept': [
    { from: '2024-01-01T00:00:00Z', to: '2024-01-01T05:00:00Z' },
    [{ from: '2004-01-01T00:00:00Z' }, 'to', /the maximum is 10000\. Choose a shorter range/],
    [{ from: '2024-01-01T00:00:00' }, 'from', /offset/],
    [{ to: future }, 'to', /future/],
    [{ from: '2024-01-01T00:10:00Z', to: '2024-01-01T00:50:00Z' }, 'from', /no whole interval/],
    [{ from: '2024-01-02T00:00:00Z' }, 'from', /before to/],
    [{ from: undefined, to: undefined }, 'from, to'],
  ],
  'POST pipeline_transformation_configs': [
    usefulStep,
    [{ plugin: undefined, order: undefined, config: undefined }, 'order, plugin required'],
    [{ plugin: 999 }, 'plugin does_not_exist'],
    [{ order: 2 ** 31 }, 'order max_value'],
    [{ order: '1' }, 'order incorrect_type'],
    [{ order: 1.5 }, 'order incorrect_type'],
    [{ order: null }, 'order null'],
    [{ config: undefined }, 'config__events required'],
    [{ config: { events: 'a', x: 1 } }, 'config__x invalid_input'],
    [{ config: { events: 'a', mode: 'x' } }, 'config__mode invalid_choice'],
    [{ plugin: 9, config: { types: '{"price": "money"}' } }, 'config__types invalid_input'],
    [{ config: { events: 'a', max_error_share: '2' } }, 'config__max_error_share invalid_input'],
    [{ config: '[1]' }, 'config invalid_input'],
    [{ config: 5 }, 'config incorrect_type'],
    [{ config: '{"a":1,"a":2}' }, 'config__a'],
    [{ config: '{"a":9007199254740993}' }, 'config__a'],
    [{ config: '{"a":"\\u0000"}' }, 'config__a'],
    ...badTexts,
    [{ name: 'x'.repeat(401) }, 'name max_length'],
    [{ description: 'x'.repeat(1_001) }, 'description max_length'],
    [{ match_action: 'x' }, 'match_action incorrect_type'],
    [{ filters: [] }, 'filters'],
    [{ plugin: 10, config: badMask }, badMaskFields],
    [
      { plugin: 10, config: { ...badMask, colour: 'red' }, order: 'first', name: 7 },
      `config__colour, ${badMaskFields}, name, order`,
    ],
    [{ plugin: 99_999, config: {}, order: undefined }, 'order, plugin'],
  ],
  'PATCH pipeline_transformation_configs/STEP': [
    {},
    ...badTexts,
    [{ config: badMask, order: 'first', plugin: 5 }, `${badMaskFields}, order, plugin`],
  ],
  'POST pipeline_transformation_configs/STEP/job': [
    {},
    [{ job: { type: 'sample', surprise: 1 } }, 'job__surprise'],
    [{ job: { type: 'x' } }, 'job__type invalid_choice'],
  ],
  'PATCH pipeline_transformation_configs/rearrange': [
    {},
    [{}, 'orders'],
    [{ orders: {} }, 'orders'],
    [{ orders: { 1: 'x' } }, 'orders__1'],
    [{ orders: { x: 1 } }, 'orders__x'],
    // Several steps are of this plugin, and none of the other.
    [{ plugin: 2 }, 'order'],
    [{ plugin: 2, order: 1 }, 'plugin'],
    [{ plugin: 5, order: 1 }, 'plugin'],
  ],
  'POST notification_targets': [
    { url: 'https://example.com/' },
    [{ url: undefined }, 'url required'],
    [{ url: 'nonsense' }, 'url invalid_input'],
    [{ url: 'http://example.com/' }, 'url invalid_input'],
    [{ url: 'https://user:word@example.com/' }, 'url invalid_input'],
    [{ url: 'https://example.com/#x' }, 'url invalid_input'],
    [{ url: 'https://10.0.0.1:22/' }, 'url', /ALLOWED_PRIVATE_ENDPOINTS/],
    [{ url: 'https://[::1]/' }, 'url', /ALLOWED_PRIVATE_ENDPOINTS/],
    [{ url: 'https://localhost/' }, 'url', /ALLOWED_PRIVATE_ENDPOINTS/],
    [{ format: 'pagerduty' }, 'url invalid_input'],
    [{ format: 'xml' }, 'format invalid_choice'],
    [{ events: [] }, 'events invalid_input'],
    [{ events: ['export.unknown'] }, 'events__0 invalid_choice'],
    [{ event: ['export.late'] }, 'event', /Did you mean events\? Otherwise remove it\.$/],
    [{ surprise: 1 }, 'surprise', unknown],
    [{ digests: false }, 'digests invalid_input'],
    [{ recipients: ['a@example.com'] }, 'recipients invalid_input'],
    [{ kind: 'email', url: undefined, recipients: ['a@example.com'] }, 'kind invalid_input'],
    [{ url: 'ftp://example.com', events: [], description: 7 }, 'description, events, url'],
    [
      { kind: 'email', recipients: ['no address'], enabled: 'yes' },
      'enabled, kind, recipients, url',
    ],
  ],
  'PATCH notification_targets/TARGET': [
    {},
    [{ url: 'http://example.com/' }, 'url'],
    [{ url: 'x', events: [], enabled: 1 }, 'enabled, events, url'],
  ],
  'POST notification_targets/TARGET/rotate_secret': [
    {},
    [{ overlap: 60 }, 'overlap', /^This operation takes no fields\. Send no body\.$/],
  ],
  'POST /api/organizations/ORGANIZATION/plugins': [
    mine,
    ...badSources,
    [{ source: undefined }, 'source'],
    [{ config_schema: [{ key: 'a' }, { key: 'a' }] }, 'config_schema__1__key'],
    [{ config_schema: [{ key: 'a', type: 'choice' }] }, 'config_schema__0__choices'],
    [{ config_schema: [{ key: 'on_error' }] }, 'config_schema__0__key'],
    [{ config_schema: [{ key: '__proto__x' }] }, 'config_schema__0__key'],
  ],
  'PATCH /api/organizations/ORGANIZATION/plugins/PLUGIN': [{}, ...badSources.slice(1)],
  'POST /api/admin/organizations': [{}, [{ name: ' ', size: 4 }, 'name, size']],
  'PATCH /api/admin/organizations/ORGANIZATION': [{}, ...wrongNames()],
  'PATCH /api/admin/projects/PROJECT': [{}, ...wrongNames()],
  'POST /api/admin/organizations/ORGANIZATION/projects': [
    {},
    [{ name: '', tenant_key: ' x' }, 'name, tenant_key'],
    [{ tenant_key: '' }, 'name, tenant_key'],
  ],
  'POST /api/admin/organizations/ORGANIZATION/keys': [
    {},
    [
      { name: '', scopes: ['root'], project_ids: [2_000_000_000], expires_at: past },
      'expires_at, name, project, scopes__0',
    ],
  ],
  'POST /api/admin/keys': [
    {},
    [{ name: '', scopes: [], expires_at: past }, 'expires_at, name, scopes'],
  ],
};

function wrongNames(): readonly Row[] {
  return [
    [{ name: ' ' }, 'name'],
    [{ name: 'x'.repeat(401) }, 'name'],
    [{}, 'null'],
    [{ nonsense: '7' }, 'nonsense'],
  ];
}
